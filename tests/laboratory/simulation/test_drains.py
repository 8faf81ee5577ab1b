"""Nodes are drained in seeded runs while workers, leaders and the server die: budgets and gangs
hold, and a drain that broke either would be found."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from coordinator.core.pod_evictions import PodEvictions
from coordinator.service.pod_evictor import PodEvictor
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from laboratory.simulation.remote_ledger import RemoteLedger
from laboratory.simulation.scenario import FaultKind
from shared.messages.messages import StatusBatch, StatusReply

KILLS = {FaultKind.WORKER_KILLED, FaultKind.LEADER_KILLED}
SEEDS = (13, 23, 70, 92)
"""Two of them with kills of a worker and of the leader."""


@pytest.mark.all
def test_nodes_are_drained_while_workers_and_leaders_die() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        expected = scenario(seed)
        assert expected.drains
        if {fault.kind for fault in expected.faults} >= KILLS:
            happened["killed"] += 1
        played = play(expected)
        assert played.broken == []
        happened += played.simulation.timeline.struck
    names = ("killed", "drained", "evicted on request", "eviction refused: BUSY")
    assert all(happened[name] for name in names), happened


@pytest.mark.all
@pytest.mark.parametrize("seed", [42, 213])
def test_a_drain_that_asks_no_budget_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(scenario(seed)).broken == []
    monkeypatch.setattr(PodEvictions, "_exceeded", lambda *_: "")
    assert "promise 9" in {broken.rule for broken in play(scenario(seed)).broken}


def test_a_drain_refused_for_an_eviction_of_others_takes_it_into_account() -> None:
    """Before the bind stream has told of it."""
    assert play(scenario(2000739)).broken == []


@pytest.mark.all
def test_a_drain_that_leaves_a_gang_in_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(scenario(54)).broken == []
    monkeypatch.setattr(PodEvictions, "_gang_of", lambda _, state, tix: [tix])
    monkeypatch.setattr(PodEvictions, "_guards", lambda *_: 0)
    assert "promise 3" in {broken.rule for broken in play(scenario(54)).broken}


@pytest.mark.all
def test_budgets_are_counted_while_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else pods that have ended count as running until the books have it."""
    begin, record = PodEvictor.__init__, RemoteLedger.record

    async def late(self: RemoteLedger, batch: StatusBatch) -> StatusReply:
        reply = await record(self, batch)
        await asyncio.sleep(0.1)  # what the ledger has and the books have not is met by more seeds
        return reply

    def with_a_lock_of_its_own(self: PodEvictor, *args: Any, **more: Any) -> None:
        begin(self, *args, **more | {"guard": asyncio.Lock()})

    monkeypatch.setattr(RemoteLedger, "record", late)
    assert play(scenario(42)).broken == []
    monkeypatch.setattr(PodEvictor, "__init__", with_a_lock_of_its_own)
    assert "promise 9" in {broken.rule for broken in play(scenario(42)).broken}
