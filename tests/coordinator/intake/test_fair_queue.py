"""The waiting room: a share for each line, served in turn."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.intake.fair_queue import FairQueue, LineFull


def fill(queue: FairQueue[str], line: str) -> int:
    """Put until the line is full; how many went in."""
    count = 0
    while True:
        try:
            queue.put_nowait(line, line)
        except LineFull:
            return count
        count += 1


def test_a_line_alone_gets_half_and_whoever_comes_still_finds_room() -> None:
    queue: FairQueue[str] = FairQueue(16)
    assert fill(queue, "a") == 8
    assert fill(queue, "b") == 4
    assert fill(queue, "c") == 2
    with pytest.raises(LineFull, match="8 requests wait"):
        queue.put_nowait("a", "a")


def test_lines_are_served_in_turn_and_each_in_its_own_order() -> None:
    queue: FairQueue[str] = FairQueue(64)
    for i in range(4):
        queue.put_nowait(f"a{i}", "a")
    for i in range(2):
        queue.put_nowait(f"b{i}", "b")
    queue.put_nowait("c0", "c")
    served = [queue.get_nowait() for _ in range(7)]
    assert served == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    with pytest.raises(IndexError):
        queue.get_nowait()


def test_room_that_is_given_back_is_there_again() -> None:
    queue: FairQueue[str] = FairQueue(4)
    assert fill(queue, "a") == 2
    queue.get_nowait()
    queue.put_nowait("a", "a")
    assert (len(queue), queue.waiting("a"), queue.waiting("b")) == (2, 2, 0)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=200))
def test_at_any_moment_a_newcomer_finds_room_and_nothing_is_lost(
    steps: list[tuple[str, bool]],
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(64)
    inside: dict[str, list[int]] = {}
    for i, (line, put) in enumerate(steps):
        if put:
            try:
                queue.put_nowait((line, i), line)
            except LineFull:
                assert inside.get(line), "a line of which nobody waits is never full"
            else:
                inside.setdefault(line, []).append(i)
        elif len(queue):
            served, number = queue.get_nowait()
            assert inside[served].pop(0) == number
    assert len(queue) == sum(map(len, inside.values())) < 64


async def test_who_cannot_be_turned_away_waits_for_room() -> None:
    queue: FairQueue[str] = FairQueue(2)
    await queue.put("first", "own")
    waiting = asyncio.create_task(queue.put("second", "own"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await queue.get() == "first"
    await asyncio.wait_for(waiting, 60.0)
    assert await queue.get() == "second"


async def test_a_reader_waits_for_a_request() -> None:
    queue: FairQueue[str] = FairQueue(2)
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not reading.done()
    queue.put_nowait("x", "a")
    assert await asyncio.wait_for(reading, 60.0) == "x"
