"""Seeds find a fault planted in an edge of the service: what they run is the real edge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.bind.status_writer import Recorder, _RecordRequest
from coordinator.intake.writer import IntakeWriter, changes_of
from coordinator.service.executor import Executor
from coordinator.verification.scenarios.generate import scenario
from coordinator.verification.scenarios.play import play

SEEDS = 500


def _found(rule: str, *, first: int) -> bool:
    """Whether one of the seeds breaks it; ``first``: the one that did when this was written."""
    return any(
        rule in broken.rule
        for seed in (first, *range(SEEDS))
        for broken in play(scenario(seed)).broken
    )


def test_an_acknowledgement_before_the_ledger_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the intake writer: a leader that dies in between lost what a user was promised."""
    store = IntakeWriter._store

    async def hasty(self: IntakeWriter, batch: list[Any]) -> None:
        for request, outcome in batch:
            if not request.reply.done():
                request.reply.set_result(outcome.answer)
        await store(self, batch)

    monkeypatch.setattr(IntakeWriter, "_store", hasty)
    assert _found("promise 6", first=52)


def test_objects_that_are_known_before_the_ledger_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the intake writer: their jobs are placed, and the ledger does not know them."""
    store = IntakeWriter._store

    async def hasty(self: IntakeWriter, batch: list[Any]) -> None:
        for _, outcome in batch:
            if outcome.tell:
                self._stored(changes_of(outcome.admission))
        await store(self, batch)

    monkeypatch.setattr(IntakeWriter, "_store", hasty)
    assert _found("promise 6", first=11)


def test_reports_that_are_taken_before_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the recorder: the cluster forgets them, and a successor never hears of them."""

    async def hasty(self: Recorder, items: list[Any], lapsed: list[int] | None = None) -> None:
        written = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_RecordRequest(items, lapsed or [], written))

    monkeypatch.setattr(Recorder, "record", hasty)
    assert _found("promise 6", first=43)


def test_a_purge_that_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the executor: a deleted job stays for ever."""

    async def never(self: Executor, jids: Sequence[int], pods: Sequence[Any]) -> None:
        pass

    monkeypatch.setattr(Executor, "_purge", never)
    assert _found("unfinished", first=1)


def test_a_reading_beside_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the executor: without the guard, an old reading overwrites a newer record."""

    async def unguarded(self: Executor, jids: list[int]) -> None:
        truth = await self._ledger.read_tasks(jids)
        self.rereads -= 1
        self._core.reread(truth)
        self._kick()

    monkeypatch.setattr(Executor, "_reread", unguarded)
    assert _found("promise 6", first=126)
