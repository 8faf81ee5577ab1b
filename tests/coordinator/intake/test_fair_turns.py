"""Turns shared by time: who was served least goes first, and nobody saves up turns."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.intake.fair_queue import LineFull
from coordinator.intake.fair_turns import FairTurns


class ServedCallers:
    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.order: list[str] = []

    async def one(self, who: str, seconds: float) -> None:
        await self.turns.take(who)
        self.order.append(who)
        await asyncio.sleep(0)
        self.turns.give_back(who, seconds)


async def test_the_costly_one_waits_for_the_cheap_one() -> None:
    """For each second of the one the other has its ten requests of 0.1 s."""
    served = ServedCallers(FairTurns(slots=1, size=100))
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(served.one("costly", 1.0))
        for _ in range(20):
            group.create_task(served.one("cheap", 0.1))
    assert served.order[:2] == ["costly", "cheap"]
    assert served.order[:13].count("cheap") >= 10
    assert served.order[-5:] == ["costly"] * 5


async def test_an_idle_caller_saves_up_no_time() -> None:
    served = ServedCallers(FairTurns(slots=1, size=100))
    for _ in range(50):
        await served.one("busy", 1.0)
    served.order.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(served.one("busy", 1.0))
        for who in ("busy", "idle") * 10:
            group.create_task(served.one(who, 1.0))
    assert 4 <= served.order[:10].count("busy") <= 6


async def test_a_line_takes_no_more_than_the_room_that_is_left() -> None:
    turns = FairTurns(slots=1, size=4)
    await turns.take("a")
    waiting = [asyncio.create_task(turns.take("a")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(LineFull):
        await turns.take("a")
    other = asyncio.create_task(turns.take("b"))
    await asyncio.sleep(0)
    turns.give_back("a", 1.0)
    await asyncio.wait_for(other, 60.0)
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert turns.waiting == 0
    turns.give_back("b", 0.0)
    await asyncio.wait_for(turns.take("c"), 60.0)


async def test_called_up_and_cancelled_at_once_its_turn_goes_on() -> None:
    turns = FairTurns(slots=1, size=4)
    await turns.take("a")
    first, second = (asyncio.create_task(turns.take(who)) for who in "bc")
    await asyncio.sleep(0)
    turns.give_back("a", 0.0)
    first.cancel()
    await asyncio.wait_for(second, 60.0)
