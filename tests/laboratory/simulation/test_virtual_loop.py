"""Coroutines in virtual time: in order, at their time, as long as their process lives."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laboratory.simulation.process import Process
from laboratory.simulation.virtual_loop import VirtualLoop, virtual_loop
from laboratory.simulation.virtual_time import CALM, Timeline
from shared.slices import GiveWay, Steps, in_slices


class LoopStage:
    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline(seed, CALM)
        self.process = Process(self.timeline)
        self.loop: VirtualLoop = virtual_loop(self.process, seed=seed)
        self.seen: list[tuple[str, float]] = []

    def note(self, what: str) -> None:
        self.seen.append((what, round(self.timeline.now - 1_000, 3)))

    def run(self) -> list[tuple[str, float]]:
        while (result := self.timeline.next_event(2_000.0)) is not None:
            result[1]()
        return self.seen


def test_sleeps_end_at_their_virtual_time_and_in_their_order() -> None:
    stage = LoopStage()

    async def sleeping(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        stage.note(name)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, seconds in (("late", 3.0), ("first", 0.5), ("second", 0.5)):
                group.create_task(sleeping(name, seconds))
        stage.note("all")

    stage.loop.start(main())
    assert stage.run() == [("first", 0.5), ("second", 0.5), ("late", 3.0), ("all", 3.0)]


def test_a_timeout_is_virtual_too() -> None:
    stage = LoopStage()

    async def main() -> None:
        try:
            async with asyncio.timeout(7.0):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            stage.note("given up")

    stage.loop.start(main())
    assert stage.run() == [("given up", 7.0)]


def test_a_paused_process_goes_on_after_its_pause() -> None:
    stage = LoopStage()

    async def main() -> None:
        await asyncio.sleep(0.1)
        stage.note("awake")

    stage.loop.start(main())
    stage.process.pause(5.0)
    assert stage.run() == [("awake", 5.1)]


def test_nothing_of_a_dead_process_has_an_effect() -> None:
    stage = LoopStage()

    async def main() -> None:
        try:
            await asyncio.sleep(1.0)
            stage.note("awake")
        finally:
            asyncio.get_running_loop().call_soon(stage.note, "cleaned up")

    def die() -> None:
        stage.loop.create_task(main())  # has not begun: it is not to be complained about either
        stage.process.alive = False
        stage.loop.abandon()

    stage.loop.start(main())
    stage.timeline.after(0.5, die)
    assert stage.run() == []


def test_a_task_group_of_a_dead_process_is_closed_with_its_tasks() -> None:
    stage = LoopStage()

    async def member(name: str) -> None:
        try:
            await asyncio.sleep(1.0)
        finally:
            stage.note(name)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name in ("first", "second"):
                group.create_task(member(name))
            await asyncio.sleep(1.0)

    def die() -> None:
        stage.process.alive = False
        stage.loop.abandon()

    stage.loop.start(main())
    stage.timeline.after(0.25, die)
    assert stage.run() == [("first", 0.25), ("second", 0.25)]


def test_a_pause_of_a_loop_does_not_keep_a_run_going() -> None:
    stage = LoopStage()

    async def main() -> None:
        await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
        stage.note("awake")

    stage.loop.start(main())
    quiet = []
    while (result := stage.timeline.next_event(2_000.0)) is not None:
        result[1]()
        quiet.append((round(stage.timeline.now - 1_000, 3), stage.timeline.quiet()))
    assert quiet == [(0.0, False), (0.1, True), (5.1, True)]
    assert stage.seen == [("awake", 5.1)]


def test_work_for_a_thread_is_done_at_once() -> None:
    stage = LoopStage()

    async def main() -> None:
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        stage.note("done")

    stage.loop.start(main())
    assert stage.run() == [("done", 0.0)]


def test_an_error_that_nobody_takes_ends_the_run() -> None:
    stage = LoopStage()

    async def failing() -> None:
        await asyncio.sleep(0.5)
        raise ValueError("seen")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())

    stage.loop.start(main())
    with pytest.raises(ValueError, match="seen"):
        stage.run()


@pytest.mark.parametrize("what", ["socket", "signal"])
def test_sockets_and_signal_handlers_are_refused(what: str) -> None:
    stage = LoopStage()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        if what == "socket":
            await asyncio.open_connection("localhost", 1)
        else:
            loop.add_signal_handler(15, print)

    stage.loop.start(main())
    with pytest.raises(NotImplementedError):
        stage.run()


def test_the_seed_decides_the_order_of_slices() -> None:
    def orders(seed: int) -> list[tuple[str, float]]:
        stage = LoopStage(seed)

        def steps(name: str) -> Steps[None]:
            for _ in range(20):
                stage.note(name)
                yield

        async def pieces() -> None:
            give_way = GiveWay()
            for _ in range(20):
                await give_way.between()
                stage.note("piece")

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(in_slices(steps("a")))
                group.create_task(in_slices(steps("b")))
                group.create_task(pieces())

        stage.loop.start(main())
        return stage.run()

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert orders(1) != sorted(orders(1))
