"""The waiting room: a share for each line, served in turn."""

from __future__ import annotations

import asyncio
from collections import Counter

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


def test_a_single_line_gets_half_and_leaves_room_for_others() -> None:
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


async def test_put_waits_for_room_in_a_full_queue() -> None:
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


def test_a_caller_that_used_less_time_is_served_first() -> None:
    """The number of lines does not matter: a tenant has two queues and large Lists in both."""
    queue: FairQueue[str] = FairQueue(64)
    for i in range(4):
        queue.put_nowait(f"large {i}", f"queue {i % 2}", "tenant")
    for i in range(6):
        queue.put_nowait(f"small {i}", "other", "user")
    served = []
    while len(queue):
        served.append(queue.get_nowait())
        caller, cost = ("tenant", 0.1) if served[-1].startswith("large") else ("user", 0.03)
        queue.charge(caller, cost)
    assert served[:5] == ["large 0", "small 0", "small 1", "small 2", "small 3"]
    assert served[5] == "large 1"


def test_idling_saves_nothing_up() -> None:
    queue: FairQueue[str] = FairQueue(64)
    for i in range(3):
        queue.put_nowait(f"a{i}", "a", "busy")
        queue.get_nowait()
        queue.charge("busy", 1.0)
    for i in range(3):
        queue.put_nowait(f"a{i}", "a", "busy")
        queue.put_nowait(f"b{i}", "b", "late")
    served = []
    while len(queue):
        served.append(queue.get_nowait())
        queue.charge("busy" if served[-1].startswith("a") else "late", 1.0)
    assert served == ["b0", "a0", "b1", "a1", "b2", "a2"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=60))
def test_waiting_users_differ_by_one_request_at_most(
    costs: list[tuple[str, int]],
) -> None:
    """Two callers who wait all the time stay within one request of each other, whatever their
    requests cost."""
    queue: FairQueue[tuple[str, int]] = FairQueue(1000)
    for i, (caller, cost) in enumerate(costs):
        queue.put_nowait((caller, cost), f"{caller}{i % 3}", caller)
    used = dict.fromkeys("abcd", 0)
    left = Counter(caller for caller, _ in costs)
    while all(left[caller] for caller in {c for c, _ in costs}):
        caller, cost = queue.get_nowait()
        queue.charge(caller, cost)
        used[caller] += cost
        left[caller] -= 1
        waiting = [used[c] for c in left]
        assert max(waiting) - min(waiting) <= 9
