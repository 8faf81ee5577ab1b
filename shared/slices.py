"""Long work in slices: a generator that yields after bounded work, run beside other tasks.

The core writes such work once (``yield`` where others may run); the service runs it in slices, code
without an event loop (the simulation, replay) in one go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that yields at the latest after a few milliseconds, and returns its result."""

SLICE_SECONDS = 0.004
"""One slice: a fifth of what a callback may take, since the last step of a slice may be as long as
a step can be, and a callback has other things to do besides. Counted in processor time: where the
machine is busy, a slice that was interrupted is no longer one, and giving way more often would
leave less to whoever works in slices than to everybody else."""


@dataclass(frozen=True, slots=True)
class SliceClock:
    """How long a slice takes: both in seconds since any moment."""

    passed: Callable[[], float]
    """Looked at after each step, since it is ten times as cheap."""
    used: Callable[[], float]
    """Clock of the used time."""


MACHINE = SliceClock(passed=time.perf_counter, used=time.thread_time)

SLICE_CLOCK: ContextVar[SliceClock] = ContextVar("slice_clock", default=MACHINE)
"""Another one in a seeded run, where nothing may depend on how fast the machine is."""


def at_once(steps: Steps[T]) -> T:
    """Run to the end without giving way."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The work is over."""

    result: T


def one_slice(steps: Steps[T], *, seconds: float = SLICE_SECONDS) -> Ended[T] | None:
    """Run on for a slice; None while there is more to do."""
    used = SLICE_CLOCK.get().used
    most = used() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return Ended(done.value)
        if used() >= most:
            return None


def _nothing() -> None: ...


async def in_slices(
    steps: Steps[T], *, seconds: float = SLICE_SECONDS, sliced: Callable[[], None] = _nothing
) -> T:
    """Run to the end; after each slice let everything else run that is ready. ``sliced`` is called
    each time, for whoever counts what the work takes."""
    clock = SLICE_CLOCK.get()
    passed, used = clock.passed, clock.used
    end, most = passed() + seconds, used() + seconds
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if passed() < end:
            continue
        # Processor time decides, elapsed time only says when to look: on a busy machine a slice
        # that was interrupted goes on for what it has left.
        if (remaining := most - used()) <= 0:
            sliced()
            await asyncio.sleep(0)
            remaining, most = seconds, used() + seconds
        end = passed() + remaining


class GiveWay:
    """Gives way to other tasks between many short pieces of work. :func:`in_slices` measures each
    piece by itself, so that without this a row of short ones would be one long callback."""

    def __init__(self, *, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._used = SLICE_CLOCK.get().used
        self._since = self._used()

    async def between(self) -> None:
        """Let everything else run that is ready, once a slice was used since the last time."""
        if self._used() - self._since >= self._seconds:
            await asyncio.sleep(0)
            self._since = self._used()
