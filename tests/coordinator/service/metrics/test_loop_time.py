"""Processor time of the event loop's thread is counted, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest
from structlog.typing import EventDict

from coordinator.service.metrics.loop_time import LONG_SECONDS, LoopTime, where


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo the changes that the process would keep for good."""
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks


def spin(seconds: float) -> None:
    """Use so much of this thread's processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def beyond(counted: LoopTime, seconds: float) -> int:
    """Callbacks that took longer than a bound of the histogram."""
    at = counted.callbacks.bounds.index(seconds)
    return sum(counted.callbacks.counts[at + 1 :])


def run(counted: LoopTime, *callbacks: object) -> None:
    """Each in a turn of its own."""

    async def main() -> None:
        for callback in callbacks:
            assert callable(callback)
            callback()
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        counted.watch(runner.get_loop())
        runner.run(main())


def test_processor_time_counts_and_waiting_does_not(unchanged: None) -> None:
    counted = LoopTime()
    run(counted, lambda: time.sleep(0.06), lambda: None)
    assert beyond(counted, LONG_SECONDS) == 0
    run(counted, lambda: spin(0.03), lambda: None, lambda: spin(0.03))
    assert beyond(counted, LONG_SECONDS) == 2
    assert counted.longest >= 0.03
    assert counted.callbacks.sum >= 0.06


def test_short_callbacks_before_a_long_one_do_not_make_it_longer(unchanged: None) -> None:
    """They are not read one by one; what they took together is known all the same."""
    counted = LoopTime()
    run(counted, *[lambda: spin(0.0005)] * 100, lambda: spin(0.002))
    assert beyond(counted, 0.01) == 0
    assert counted.callbacks.count >= 100
    assert counted.callbacks.sum >= 0.05


def test_collections_of_garbage_are_apart(unchanged: None) -> None:
    counted = LoopTime()
    heap = [[i] for i in range(2_000_000)]  # a walk of some 50 ms
    run(counted, gc.collect)
    assert sum(counted.collections.counts[5:]) >= 1
    assert beyond(counted, LONG_SECONDS) == 0
    del heap


def test_other_loops_are_not_counted(unchanged: None) -> None:
    counted = LoopTime()
    with asyncio.Runner() as runner:
        counted.watch(runner.get_loop())

        async def spins() -> None:
            spin(0.03)

        asyncio.run(spins())
    assert beyond(counted, LONG_SECONDS) == 0


def test_the_log_says_where_a_long_callback_stopped(
    unchanged: None, log_lines: list[EventDict]
) -> None:
    async def inner() -> None:
        spin(0.03)
        await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.create_task(inner())

    with asyncio.Runner() as runner:
        LoopTime().watch(runner.get_loop())
        runner.run(main())
    (line,) = log_lines
    assert line["event"] == "A callback held the event loop"
    assert "inner, up to" in line["where"]


def test_a_callback_that_is_no_task_has_its_own_name(unchanged: None) -> None:
    with asyncio.Runner() as runner:
        handle = runner.get_loop().call_soon(spin, 0.0)
        assert where(handle) == "spin"
