"""The seeded run finds what it is there to find: with a rule switched off the checker speaks."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.admission.draft import Draft
from coordinator.jobs.deletion import Departures
from coordinator.jobs.state import JobState, SchedulingStatus
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from laboratory.simulation.scenario import Fault, FaultKind
from laboratory.simulation.virtual_time import CALM
from shared.codec.packed import replace
from tests.shared.ledger.changed_rules import disable, insert_at_start

PAUSES = tuple(
    Fault(FaultKind.WORKER_PAUSED, at=at, seconds=0.8, shard=shard)
    for at in (0.02, 0.3, 0.8)
    for shard in (0, 1)
)
"""Long enough that another worker has the shard by then."""

ALWAYS_FITS = "if true then return COMMITTED end"
REPLAYED = "window[2]"
"""Whether the window has an answer to this sequence."""


def _caught(rule: str, *, first: int = 0, **changes: Any) -> bool:
    """Whether some seed shows that the rule is broken; ``first``: one that did when this was
    written."""
    for seed in (first, *range(100)):
        played = play(replace(scenario(seed), **changes))
        if any(rule in broken.rule for broken in played.broken):
            return True
    return False


def test_nodes_that_are_filled_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of fit, two workers that plan on old views overfill a node."""
    insert_at_start(monkeypatch, "local function misfit(row, cls, kind, devices)", ALWAYS_FITS)
    assert _caught("promise 2", first=1)


@pytest.mark.all
def test_nodes_that_come_back_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another row for the name of a deleted node knows nothing of what still runs there."""
    monkeypatch.setattr(Draft, "gone_node", lambda *_: None)
    assert _caught("promise 2", first=3)


@pytest.mark.all
def test_requests_that_take_effect_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the window of sequences, a batch that comes again is judged again."""
    disable(monkeypatch, REPLAYED)
    assert _caught("promise 5", first=2)


def test_tasks_that_are_placed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the epoch and the state of tasks, a deposed worker places what another one has."""
    disable(monkeypatch, "owner[1] ~= epoch")
    disable(monkeypatch, "owner[2] and lease_left(owner[2]) <= 0")
    disable(monkeypatch, REPLAYED)
    disable(monkeypatch, "taken[name] or (promised and promised[name])")
    assert _caught("promise 1", first=16, network=CALM, faults=PAUSES)


@pytest.mark.all
def test_deleted_jobs_that_are_never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they hold their nodes for ever, and are never forgotten."""
    monkeypatch.setattr(Departures, "ask", lambda *_: None)
    assert _caught("promise 6", first=10)


@pytest.mark.all
def test_places_for_jobs_that_were_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look whether it is gone, a turn that was out places a deleted job."""
    gone = "if job[jid] and job[jid][3] ~= 0 then return COMMITTED, -1 end"
    insert_at_start(monkeypatch, "function judge_job(index, jid)", gone)
    assert _caught("promise 6", first=1)


@pytest.mark.all
@pytest.mark.timeout(300)  # 9 s of processor time
def test_deleted_jobs_whose_open_turn_nobody_awaits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger does not let a job be forgotten that turns out to hold a node."""
    settle = Departures.settle

    def hasty(self: Departures, state: JobState) -> None:
        state.status = SchedulingStatus.WAITING
        settle(self, state)

    monkeypatch.setattr(Departures, "settle", hasty)
    assert _caught("refused", first=7)
