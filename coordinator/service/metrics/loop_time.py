"""How long each callback of the event loop keeps its thread busy, and the garbage collector too.

A long callback delays everything else in this process: turns, binds, probes. Each callback is
measured in processor time of the loop's thread, which does not grow when the machine is busy with
something else.

Reading the thread's clock is a system call (0.45 us on the machine of decision 0042), reading the
wall clock is not (0.04 us). A callback cannot use more processor time than wall time, so the
thread's clock is read only after a callback that was long by the wall clock: 0.2 us a callback
instead of 1.4.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from types import CoroutineType
from typing import Any

import structlog

from shared.telemetry.histogram import Histogram

CALLBACK_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
LONG_SECONDS = 0.02
"""Duration that no callback may exceed: a fiftieth of the time in which a lease of 2 s has to be
renewed, and ten of them in a row are still a tenth of what a client waits for before it counts as
slow."""
_SHORT = CALLBACK_SECONDS[0]
_SAY_SECONDS = 1.0
"""One log line about long callbacks in so much time: what makes one makes many."""

log = structlog.get_logger(__name__)


class LoopTime:
    """Counts of one loop, from :meth:`watch` on."""

    def __init__(self) -> None:
        self.callbacks = Histogram(CALLBACK_SECONDS)
        """Processor seconds of each callback. Those shorter than a millisecond count with their
        time on the wall clock, which is no less; longer ones may count with up to a millisecond of
        the short ones before them. Collections of garbage are apart."""
        self.collections = Histogram(CALLBACK_SECONDS)
        """Processor seconds of each collection of garbage in the loop's thread."""
        self.longest = 0.0
        """Seconds of the longest callback."""
        self._thread = 0
        self._read_at = 0.0
        self._read = 0.0
        """The thread's clock, and when it was read."""
        self._collecting = 0.0
        self._collected = 0.0
        """Seconds of collections since the thread's clock was read."""
        self._said = 0.0

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count from now on. Call it in the thread that runs the loop, once in a process: the loop
        has no place to hook into, so that the method is replaced that runs every callback."""
        self._thread = threading.get_ident()
        run, clock = asyncio.Handle._run, time.perf_counter
        counts = self.callbacks.counts

        def timed(handle: Any) -> None:
            # The method is that of all loops of the process: the audit's thread has one of its own.
            if handle._loop is not loop:
                run(handle)
                return
            began = clock()
            if began - self._read_at > _SHORT:
                self._begin(began)
            run(handle)
            took = clock() - began
            if took < _SHORT:
                counts[0] += 1
                self.callbacks.sum += took
            else:
                self._count(handle, began + took)

        asyncio.Handle._run = timed  # type: ignore[assignment, method-assign]
        gc.callbacks.append(self._collects)

    def _begin(self, now: float) -> None:
        self._read_at, self._read = now, time.thread_time()
        self._collected = 0.0

    def _count(self, handle: Any, now: float) -> None:
        read = time.thread_time()
        seconds = max(0.0, read - self._read - self._collected)
        self._read_at, self._read = now, read
        self._collected = 0.0
        self.callbacks.observe(seconds)
        self.longest = max(self.longest, seconds)
        if seconds > LONG_SECONDS and now - self._said >= _SAY_SECONDS:
            self._said = now
            log.warning(
                "A callback held the event loop", seconds=round(seconds, 4), where=where(handle)
            )

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        elif self._collecting:
            seconds = time.thread_time() - self._collecting
            self._collected += seconds
            self.collections.observe(seconds)


def where(handle: Any) -> str:
    """Owner of a callback: the coroutine of its task, and the await at which it stopped."""
    task = getattr(handle._callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return getattr(handle._callback, "__qualname__", type(handle._callback).__name__)
    outer: Any = task.get_coro()
    name = getattr(outer, "__qualname__", "?")
    place, inner = "its end", outer
    while isinstance(inner, CoroutineType) and inner.cr_frame is not None:
        place = f"{inner.cr_frame.f_code.co_qualname}:{inner.cr_frame.f_lineno}"
        inner = inner.cr_await
    return f"{name}, up to {place}"
