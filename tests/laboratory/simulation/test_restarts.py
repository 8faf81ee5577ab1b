"""Policies of Jobs begin pods anew in seeded runs, while workers, leaders and the server die: what
ended once and is pending again is another incarnation, and a restart that is none is found."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from coordinator.controllers import task_restarts
from coordinator.jobs.state import JobState
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import ScenarioResult, play
from shared.messages.messages import StatusItem, TaskState
from tests.shared.ledger.changed_rules import change

SEEDS = (7, 22, 131, 143)
ENDS = ("SUCCEEDED", "FAILED", "LOST")


def restarts(played: ScenarioResult) -> Counter[str]:
    """The ends after which tasks began anew, and the evictions for that."""
    counter: Counter[str] = Counter()
    states: dict[tuple[int, int], str] = {}
    for event in map(json.loads, played.notes.lines):
        for name, jid, tasks, *_ in event["items"] if event["ev"] == "status" else ():
            before = [states.get((jid, tix), "") for tix in tasks]
            counter.update(end for end in before if name == "PENDING" and end in ENDS)
            states |= {(jid, tix): name for tix in tasks}
        reasons = [s.get("reason", "") for s in event.get("statements", ())]
        counter["evicted"] += sum(reason.startswith("restart: ") for reason in reasons)
    return counter


def test_pods_restart_under_any_fault() -> None:
    counter: Counter[str] = Counter()
    for seed in SEEDS:
        expected = scenario(seed)
        assert expected.restarts
        played = play(expected)
        assert played.broken == []
        counter += restarts(played)
    assert all(counter[name] for name in ("SUCCEEDED", "FAILED", "evicted")), counter


@pytest.mark.all
def test_a_restart_that_is_no_other_incarnation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    incarnation = "rec.incarnation, rec.by, rec.why, rec.devices = incarnation"
    change(monkeypatch, f"{incarnation} + 1", incarnation)
    assert play(scenario(SEEDS[0])).broken


@pytest.mark.all
def test_a_restart_of_what_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a refused bind, which nobody refused."""

    def refused(state: JobState, tasks: list[int]) -> StatusItem:
        rows = [state.rows[tix] for tix in tasks]
        return StatusItem(TaskState.PENDING, state.job.jid, tasks, rows)

    monkeypatch.setattr(task_restarts, "_item", refused)
    monkeypatch.setattr(task_restarts, "ENDED", (TaskState.RUNNING,))
    change(monkeypatch, "[0] = {[BINDING] = true}", "[0] = {[BINDING] = true, [RUNNING] = true}")
    messages = [broken.message for broken in play(scenario(SEEDS[2])).broken]
    assert any("from RUNNING" in message and "to PENDING" in message for message in messages)
