"""Seeds find a fault planted in an edge of the service: what they run is the real edge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.bind.status_writer import Recorder
from coordinator.dispatch.dispatcher import SendTurns
from coordinator.intake.writer import IntakeWriter
from coordinator.service.bind_loop import Binding, Unfinished
from coordinator.service.executor import Executor
from coordinator.service.reconcile_loop import Reconciling
from coordinator.service.worker_lifecycle import Workers
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.stored import BindEntry

SEEDS = 500


def _breaks(rule: str, *, first: int) -> bool:
    """Whether one of the seeds breaks it; ``first``: one that did when this was written, soon
    over. Where it no longer does, another one costs up to a minute of search: name that."""
    return any(
        rule in broken.rule
        for seed in (first, *range(SEEDS))
        for broken in play(scenario(seed)).broken
    )


def test_an_acknowledgement_before_the_ledger_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the intake writer: a leader that dies in between loses an acknowledged object."""
    store = IntakeWriter._store

    async def hasty(self: IntakeWriter, batch: list[Any]) -> None:
        for request, outcome in batch:
            if not request.reply.done():
                request.reply.set_result(outcome.answer)
        await store(self, batch)

    monkeypatch.setattr(IntakeWriter, "_store", hasty)
    assert _breaks("promise 6", first=44)


@pytest.mark.all
def test_objects_that_are_known_before_the_ledger_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted in the intake writer: the objects' jobs are placed, and the ledger does not know
    them."""
    store = IntakeWriter._store

    async def hasty(self: IntakeWriter, batch: list[Any]) -> None:
        for _, outcome in batch:
            if outcome.publish:
                self._stored(outcome.admission)
        await store(self, batch)

    monkeypatch.setattr(IntakeWriter, "_store", hasty)
    assert _breaks("promise 6", first=33)


@pytest.mark.all
def test_a_recorder_that_drops_answers_during_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the recorder: answers that come meanwhile are forgotten, and the ledger has tasks
    as binding that the cluster runs."""
    record = Recorder.record

    async def forgetful(self: Recorder, items: list[Any], expired: list[int] | None = None) -> None:
        if not self._guard.locked():
            await record(self, items, expired)

    monkeypatch.setattr(Recorder, "record", forgetful)
    assert _breaks("ledger audit", first=3)


@pytest.mark.all
def test_a_purge_that_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the executor: a deleted job stays for ever."""

    async def never(self: Executor, jids: Sequence[int], pods: Sequence[Any]) -> None:
        pass

    monkeypatch.setattr(Executor, "_purge", never)
    assert _breaks("unfinished", first=10)


@pytest.mark.all
def test_a_reading_beside_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the executor: without the guard, an old reading overwrites a newer record."""

    async def unguarded(self: Executor, jids: list[int]) -> None:
        truth = await self._ledger.read_tasks(jids)
        await asyncio.sleep(0.05)  # the answer takes its time
        self.rereads -= 1
        self._core.reread(truth)
        self._kick()

    monkeypatch.setattr(Executor, "_reread", unguarded)
    assert _breaks("promise 6", first=91)


@pytest.mark.all
def test_binds_that_are_acknowledged_before_they_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted in binding: a leader that dies in between leaves tasks that nobody binds."""
    bind = Binding._bind

    async def hasty(self: Binding, entries: list[BindEntry]) -> Unfinished:
        await self._acknowledge(entries)
        return await bind(self, entries)

    monkeypatch.setattr(Binding, "_bind", hasty)
    assert _breaks("ledger audit", first=27)


@pytest.mark.all
def test_a_bind_entry_whose_delivery_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in binding: without the look back the entry's tasks wait for ever."""

    async def nothing(self: Binding) -> list[BindEntry]:
        return []

    monkeypatch.setattr(Binding, "_unattended", nothing)
    assert _breaks("unfinished", first=2)


@pytest.mark.all
def test_a_worker_that_the_ledger_refuses_and_nobody_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted in the workers' lifecycle: the turns that it reports as fenced stay open for ever."""
    lost = Workers._lost

    async def deaf(self: Workers, shard: int, send: SendTurns, why: str, *, alive: bool) -> None:
        if not alive:
            await lost(self, shard, send, why, alive=alive)

    monkeypatch.setattr(Workers, "_lost", deaf)
    assert _breaks("promise 6", first=10)


@pytest.mark.all
def test_a_portion_of_the_log_that_is_followed_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the standby: the new leader does not know all that the one before had stored."""
    note = ChangedKeys.note

    def half(self: ChangedKeys, entries: Sequence[LogEntry]) -> None:
        note(self, entries[: len(entries) // 2 + 1])

    monkeypatch.setattr(ChangedKeys, "note", half)
    assert _breaks("promise 6", first=8)


@pytest.mark.all
def test_a_repair_of_the_books_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the reconciler: the ledger holds tasks for ever that the cluster has lost."""

    async def hasty(self: Reconciling) -> bool:
        repairs = self._reconciler.judge(await self._look())
        self._core.recorded(repairs.items, [item.tasks for item in repairs.items])
        self._kick()
        return False

    monkeypatch.setattr(Reconciling, "once", hasty)
    assert _breaks("promise 6", first=28)
