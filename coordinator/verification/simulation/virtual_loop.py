"""An event loop in virtual time: the service's own coroutines run in a seeded run.

It has what coroutines need: callbacks, timers, futures and tasks, in the order in which they became
ready. Everything else (sockets, threads, subprocesses, files, signals) raises NotImplementedError,
as each method of ``AbstractEventLoop`` does, so a run cannot depend on it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVarTuple, Unpack

from coordinator.verification.simulation.process import Process
from shared.slices import SLICE_CLOCK, SliceClock

CREATED = inspect.CORO_CREATED
Ts = TypeVarTuple("Ts")

STEP_SECONDS = 0.001
"""Mean time that one step of long work seems to take: some slices have one step, some a dozen."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one process: it stands still while the process is paused, and ends with it.

    An exception that nobody awaits ends the run: it is raised from the event that led to it.
    """

    def __init__(self, process: Process, *, seed: int) -> None:
        self._process = process
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled = False
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = contextvars.copy_context()
        self._context.run(SLICE_CLOCK.set, seeded_slices(seed))

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run it as a task whose error ends the run."""
        self.create_task(main).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = the_one(error)

    def abandon(self) -> None:
        """The process died: nothing of it runs any more, no ``finally`` either."""
        for task in self._tasks:
            coroutine = task.get_coro()
            if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == CREATED:
                coroutine.close()  # else Python warns that nobody awaited it
        self._tasks.clear()

    # --- callbacks and timers -------------------------------------------------------------------

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context or self._inherited())
        if self._process.alive:
            self._ready.append(handle)
            self._schedule()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        inherited = context or self._inherited()
        handle = asyncio.TimerHandle(when, callback, args, self, inherited)

        def due() -> None:
            self._ready.append(handle)
            self._run_ready()

        if self._process.alive:
            self._process.after(when - self.time(), due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays where it is, and does nothing when it is due."""

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._process.after(0.0, self._run_ready)

    def _run_ready(self) -> None:
        """Everything that is ready, and what becomes ready by that."""
        self._scheduled = True  # what becomes ready meanwhile is run here
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._ready and self._process.alive and self._failure is None:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(before)
            self._scheduled = False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _inherited(self) -> contextvars.Context:
        """That of the running callback; the loop's own for what comes from outside."""
        if asyncio._get_running_loop() is self:
            return contextvars.copy_context()
        return self._context.copy()

    # --- what coroutines ask for ----------------------------------------------------------------

    def time(self) -> float:
        return self._process.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self._process.alive

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context or self._inherited())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback failed, or nobody took a task's error. A dead process loses its tasks."""
        if self._process.alive:
            self._failure = context.get("exception") or RuntimeError(context["message"])


def virtual_loop(process: Process, *, seed: int) -> VirtualLoop:
    # Abstract to the type checker; what is not here raises when it is called.
    return VirtualLoop(process, seed=seed)  # type: ignore[abstract]


def seeded_slices(seed: int) -> SliceClock:
    """Each look at the clock finds some more time gone: who gives way when, is the seed's."""
    source = random.Random(seed)
    now = 0.0

    def look() -> float:
        nonlocal now
        now += source.expovariate(1 / STEP_SECONDS)
        return now

    return SliceClock(passed=look, used=look)


def the_one(error: BaseException) -> BaseException:
    """The first error of a task group, without the group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
