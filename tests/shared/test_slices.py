"""Long work in slices: others run in between, and nothing of the result depends on it."""

from __future__ import annotations

import asyncio
import time

import pytest

from shared.slices import SLICE_SECONDS, GiveWay, Steps, at_once, in_slices


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def work(steps: int, seconds: float) -> Steps[int]:
    for _ in range(steps):
        spin(seconds)
        yield
    return steps


async def rounds(steps: Steps[int], *, seconds: float = SLICE_SECONDS) -> int:
    """How often another task had its turn meanwhile."""
    count, ended = 0, asyncio.Event()

    async def other() -> None:
        nonlocal count
        while not ended.is_set():
            count += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await asyncio.sleep(0)
    await in_slices(steps, seconds=seconds)
    ended.set()
    await beside
    return count


async def test_others_have_their_turn_after_each_slice() -> None:
    assert await rounds(work(20, 0.002), seconds=0.003) >= 9


async def test_short_work_is_done_in_one_go() -> None:
    assert await rounds(work(10, 0.0001), seconds=0.1) <= 2


async def test_time_that_the_thread_did_not_have_is_not_counted() -> None:
    def waits() -> Steps[int]:
        for _ in range(10):
            time.sleep(0.005)
            yield
        return 0

    assert await rounds(waits(), seconds=0.02) <= 3


async def test_the_result_is_the_same() -> None:
    assert await in_slices(work(3, 0.0)) == at_once(work(3, 0.0)) == 3


async def test_an_error_reaches_the_waiting_caller() -> None:
    def fails() -> Steps[None]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_slices(fails())


async def test_many_short_pieces_in_a_row_give_way_too() -> None:
    """Ten pieces of 2 ms, none of which is cut: others have their turn after about every second.
    A piece may be cut only after a minute: however long the machine makes one of them."""

    async def pieces(give_way: GiveWay | None) -> int:
        count, ended = 0, asyncio.Event()

        async def other() -> None:
            nonlocal count
            while not ended.is_set():
                count += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        for _ in range(10):
            await in_slices(work(1, 0.002), seconds=60.0)
            if give_way is not None:
                await give_way.between()
        ended.set()
        await beside
        return count

    assert await pieces(None) == 0
    assert await pieces(GiveWay(seconds=0.004)) >= 4
