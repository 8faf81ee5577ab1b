"""An event loop in virtual time: the service's own coroutines run in a seeded run.

It has what coroutines need: callbacks, timers, futures and tasks, in the order in which they became
ready. Work for a thread is done at once. Everything else (sockets, subprocesses, files, signals)
raises NotImplementedError, as each method of ``AbstractEventLoop`` does, so a run cannot depend on
it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple, Unpack

from laboratory.simulation.process import FAR_SECONDS, Process
from shared.slices import SLICE_CLOCK, SliceClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CLOSED = (inspect.CORO_CLOSED, inspect.CORO_RUNNING)

STEP_SECONDS = 0.001
"""Mean time that one step of long work seems to take: some slices have one step, some a dozen."""


_BACKGROUND: contextvars.ContextVar[bool] = contextvars.ContextVar("background", default=False)
"""Whether what runs keeps a run going. Each task has it from where it was created: callbacks of
both kinds are ready at the same time."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one process: it stands still while the process is paused, and ends with it.

    An exception that nobody awaits ends the run: it is raised from the event that led to it.
    """

    def __init__(self, process: Process, *, seed: int) -> None:
        self._process = process
        self._ready: deque[tuple[asyncio.Handle, bool]] = deque()
        """Handles to call, and whether in the background."""
        self._scheduled = False
        self._failure: BaseException | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order in which they began: a set's would be another one in every process."""
        context = contextvars.copy_context()
        context.run(SLICE_CLOCK.set, seeded_slices(seed))
        self._foreground, self._background = context, context.copy()
        """Contexts of callbacks from outside: copied for each of them."""
        self._background.run(_BACKGROUND.set, True)

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine as a task whose error ends the run."""
        self.create_task(main).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = the_one(error)

    def abandon(self) -> None:
        """The process died: nothing that its coroutines still do has an effect on others.

        They are closed here, in their order. Left to the garbage collector, they would be closed
        at a moment that is not the seed's.
        """
        tasks, self._tasks = list(self._tasks), {}
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in tasks:
                close(task)
        finally:
            asyncio._set_running_loop(outer)

    # --- callbacks and timers -------------------------------------------------------------------

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        context = context or self._inherited()
        handle = asyncio.Handle(callback, args, self, context)
        if self._process.alive:
            self._ready.append((handle, context.get(_BACKGROUND, False)))
            self._schedule()
        return handle

    call_soon_threadsafe = call_soon  # there are no threads: nothing happens at the same time

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._process.timeline.now + delay, callback, *args, context=context)

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
            if not handle.cancelled():
                self._ready.append((handle, inherited.get(_BACKGROUND, False)))
            self._run_ready()

        delay = when - self._process.timeline.now
        if not self._process.alive:
            pass
        elif delay < FAR_SECONDS:
            self._process.after(delay, due)
        else:  # a loop's pause, or a deadline: what is left to do is known otherwise
            self._process.round(delay, due, background=True)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer stays in the heap and has no effect when it is due."""

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._process.after(0.0, self._run_ready)

    def _run_ready(self) -> None:
        """Run all callbacks that are ready, and those that become ready meanwhile."""
        self._scheduled = True  # what becomes ready meanwhile is run here
        ready, process, timeline = self._ready, self._process, self._process.timeline
        before, outer = timeline.in_background, asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            # Asked before each: a callback may end the process, or be its last one.
            while ready and process.alive and self._failure is None:
                handle, timeline.in_background = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(outer)
            timeline.in_background = before
            self._scheduled = False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _inherited(self) -> contextvars.Context:
        """The context of the running callback; the loop's own for a call from outside."""
        if asyncio._get_running_loop() is self:
            return contextvars.copy_context()
        outside = self._background if self._process.timeline.in_background else self._foreground
        return outside.copy()

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
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run it at once: nothing of a seeded run happens beside it."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback failed, or nobody took a task's error: that ends the run, unless the process
        is dead and has lost its tasks."""
        if self._process.alive:
            self._failure = context.get("exception") or RuntimeError(context["message"])


def virtual_loop(process: Process, *, seed: int) -> VirtualLoop:
    # Abstract to the type checker; what is not here raises when it is called.
    return VirtualLoop(process, seed=seed)  # type: ignore[abstract]


def close(task: asyncio.Task[Any]) -> None:
    """Close the task's coroutine, unless it is the one that runs now."""
    coroutine = task.get_coro()
    if not inspect.iscoroutine(coroutine):
        return
    while inspect.getcoroutinestate(coroutine) not in _CLOSED:
        # A task group waits for its tasks, which never end, or passes its closing on as an error.
        with suppress(RuntimeError, BaseExceptionGroup):
            coroutine.close()


def seeded_slices(seed: int) -> SliceClock:
    """A slice clock that advances by a random step at every reading, so that the seed decides when
    sliced work gives way."""
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
