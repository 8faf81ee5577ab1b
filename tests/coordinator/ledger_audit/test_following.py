"""The log beside a look: in portions, as much as fits, and not cut before it is read."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.look import AuditPass, PageRequest
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop_thread import LoopThread
from coordinator.ledger_audit.picture import STEP_TASKS, Picture
from coordinator.ledger_audit.step_meter import StepMeter
from shared.ledger import replies
from shared.ledger.entries.audit import Table
from shared.ledger.entries.intake_batch import PutJob, PutNode
from shared.ledger.entries.log import CommitEntry, EpochEntry, IntakeEntry, StatusEntry
from shared.ledger.keys import key
from shared.ledger.redis import audit
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import Epoch, Rows, StatusItem, TaskState
from tests.coordinator.ledger_audit.looking import findings, page
from tests.shared.ledger.support import Desk, cluster, job, run, statement

MANY = 3 * replies.PORTION + 1


def server_of(desk: Desk) -> RedisLedger:
    assert isinstance(desk.ledger, RedisLedger)
    return desk.ledger


async def many_of_each(desk: Desk) -> None:
    """Entries of many operations, statements and items."""
    await desk.store(*cluster(nodes=MANY), *(job(jid) for jid in range(10, 10 + MANY)))
    await desk.commit(*(statement(10 + i, run([0], [i])) for i in range(MANY)))
    await desk.record(*(StatusItem(TaskState.BOUND, 10 + i, [0], [i]) for i in range(MANY)))


async def test_portions_of_an_entry_leave_out_only_fields_that_no_total_uses(
    desk: Desk,
) -> None:
    ledger = server_of(desk)
    await many_of_each(desk)
    large = 0
    for name, fields in await ledger._writer.xrange(key("log")):
        whole = replies.unpack_entry(name.decode(), fields)
        portions = [p for p in replies.entry_portions(name.decode(), fields) if p is not None]
        assert {(type(p), p.id) for p in portions} == {(type(whole), whole.id)}
        match whole:
            case CommitEntry():
                parts: list[list[Any]] = [
                    p.accepted for p in portions if isinstance(p, CommitEntry)
                ]
                rest: list[object] = [*whole.accepted]
            case StatusEntry():
                parts = [p.items for p in portions if isinstance(p, StatusEntry)]
                rest = [*whole.items]
            case IntakeEntry():
                parts = [p.ops for p in portions if isinstance(p, IntakeEntry)]
                rest = [op for op in whole.ops if not isinstance(op, PutNode)]
            case _:
                continue
        assert [one for part in parts for one in part] == rest
        assert all(len(part) <= replies.PORTION for part in parts)
        fresh = [p.fresh for p in portions if not isinstance(p, EpochEntry)]
        assert fresh == [whole.fresh] + [Rows([], [])] * (len(portions) - 1)
        large += len(portions) > 2
    assert large == 3


async def test_a_look_that_follows_large_entries_finds_nothing(desk: Desk) -> None:
    """Each of them comes after some pages were read, and before others."""
    await many_of_each(desk)
    looking = AuditPass(since=await desk.ledger.log_tail(), count=MANY // 4)
    states = iter((TaskState.RUNNING, TaskState.RELEASING, TaskState.SUCCEEDED))
    pages = 0
    while (question := looking.question) is not None:
        pages += 1
        if pages % 3 == 0 and (state := next(states, None)) is not None:
            await desk.record(*(StatusItem(state, 10 + i, [0], [i]) for i in range(MANY)))
        for _ in looking.take(await page(desk.ledger, question, looking.log_id)):
            pass
    for _ in looking.compare():
        pass
    assert next(states, None) is None
    assert looking.findings == []
    assert await findings(desk.ledger) == []


def test_a_wide_item_is_followed_in_steps() -> None:
    many = [*range(10 * STEP_TASKS)]
    item = StatusItem(TaskState.RUNNING, 7, many, [0] * len(many), 1, 0)
    entry = StatusEntry("1-0", "1", Epoch(1, ""), 1, [item], [], Rows([], []))
    picture = Picture()
    assert len([*picture.follow(entry)]) == 10
    assert picture.tasks.count == len(many)


@pytest.mark.parametrize("most", ["entries", "bytes"])
async def test_a_page_comes_when_the_log_before_it_was_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    """At most this many entries, or bytes, are read at once; the page is as of the end."""
    ledger = server_of(desk)
    monkeypatch.setattr(ledger, "page_entries", 2 if most == "entries" else 100)
    if most == "bytes":
        monkeypatch.setattr(audit, "LOG_BYTES", 2)
    after, question = await ledger.log_tail(), PageRequest(Table.JOB)
    for jid in range(20, 25):
        await desk.store(job(jid))
    observed: list[int] = []
    answers: list[bool] = []
    while not answers or not answers[-1]:
        audit_page = await page(ledger, question, after)
        entries = [entry for entry in audit_page.entries if entry is not None]
        answers.append(audit_page.current)
        assert bool(audit_page.records) == audit_page.current
        stored = [op for e in entries if isinstance(e, IntakeEntry) for op in e.ops]
        observed += [op.jid for op in stored if isinstance(op, PutJob)]
        after = entries[-1].id if entries else after
    assert observed == [*range(20, 25)]
    assert (
        answers
        == {
            "entries": [False, False, True],
            "bytes": [False] * 5 + [True],
        }[most]
    )


class Processor:
    """A thread's processor time that moves by what is spent alone: what the machine makes of a real
    one is no part of the rule."""

    def __init__(self) -> None:
        self.used = 0.0

    def thread_time(self) -> float:
        return self.used

    def spend(self, seconds: float) -> None:
        self.used += seconds


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    cpu_clock = Processor()
    monkeypatch.setattr("coordinator.ledger_audit.step_meter.time", cpu_clock)
    return cpu_clock


async def test_what_others_do_meanwhile_is_not_counted(processor: Processor) -> None:
    """A loop that is busy would have the audit rest for everybody."""
    steps: list[float] = []
    meter = StepMeter(steps.append)

    async def others() -> None:
        processor.spend(0.5)

    async def work() -> int:
        processor.spend(0.25)
        await asyncio.create_task(others())
        processor.spend(0.125)
        assert meter.step_seconds == 0.125
        return 7

    assert await meter.run(work()) == 7
    assert steps == [0.25, 0.125]
    assert meter.seconds == 0.375


async def test_a_step_is_measured_in_processor_time() -> None:
    steps: list[float] = []

    async def work() -> None:
        burn(0.01)
        await asyncio.sleep(0.01)

    began = time.thread_time()
    await StepMeter(steps.append).run(work())
    assert 0.01 <= sum(steps) <= time.thread_time() - began


async def test_a_collection_of_others_garbage_is_not_counted(processor: Processor) -> None:
    steps: list[float] = []
    callbacks = list(gc.callbacks)

    class Left:
        """Garbage in a cycle that takes half a second to collect."""

        def __init__(self) -> None:
            self.circle = self

        def __del__(self) -> None:
            processor.spend(0.5)

    async def work() -> None:
        processor.spend(0.25)
        Left()
        gc.collect()

    await StepMeter(steps.append).run(work())
    assert processor.used == 0.75
    assert steps == [0.25]
    assert gc.callbacks == callbacks


async def test_errors_and_cancellation_go_through_the_meter() -> None:
    meter, observed = StepMeter(lambda _: None), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            observed.append("cancelled")
            raise
        finally:
            observed.append("ended")

    task = asyncio.create_task(meter.run(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert observed == ["cancelled", "ended"]

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("so it is")

    with pytest.raises(ValueError, match="so it is"):
        await meter.run(fails())
    assert meter.step_seconds == 0.0


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_a_look_ends_though_the_loop_gives_nobody_a_turn(desk: Desk) -> None:
    ledger, figures = server_of(desk), AuditFigures()
    own = ledger.for_another_loop()
    looker = AuditReader(own, figures=figures)
    async with LoopThread("looks", closing=own.close) as thread:
        looking = asyncio.create_task(thread.run(looker.look()))
        await asyncio.sleep(0)
        deadline = time.monotonic() + 60.0
        while not figures.looks:
            assert time.monotonic() < deadline
            burn(0.01)
        assert not looking.done()
        assert await looking == []


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_the_thread_ends_with_its_work_and_closes_what_it_used() -> None:
    observed: list[str] = []

    async def closing() -> None:
        observed.append("closed")

    async def work(name: str) -> None:
        observed.append(f"{name} began")
        try:
            await asyncio.sleep(60.0)
        finally:
            observed.append(f"{name} ended")

    async with LoopThread("ends", closing=closing) as thread:
        first = asyncio.create_task(thread.run(work("first")))
        await until(lambda: len(observed) == 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await until(lambda: len(observed) == 2)
        second = asyncio.create_task(thread.run(work("second")))
        await until(lambda: len(observed) == 3)
    assert observed == ["first began", "first ended", "second began", "second ended", "closed"]
    assert not thread._thread.is_alive()
    with pytest.raises(asyncio.CancelledError):
        await second
