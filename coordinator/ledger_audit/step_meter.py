"""Measures the processor time of a coroutine, step by step.

A step runs from one suspension to the next. The thread's time cannot be used across an ``await``:
work of other tasks meanwhile would be counted too (measured under load: 500 ms of others' work, for
which the audit then rested four times as long).
"""

from __future__ import annotations

import gc
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class StepMeter:
    """Excludes garbage collections, as does :mod:`coordinator.service.metrics.loop_time`: whoever
    allocates next pays for what all others left."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        """``observe`` is called with the processor seconds of each step."""
        self._observe = observe
        self._finished = 0.0
        self._began: float | None = None
        """None while the coroutine is suspended."""
        self._thread = 0
        self._collecting = 0.0

    @property
    def step_seconds(self) -> float:
        """Seconds of the current step."""
        return 0.0 if self._began is None else time.thread_time() - self._began

    @property
    def seconds(self) -> float:
        """Seconds of all steps so far."""
        return self._finished + self.step_seconds

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """``await work``, measured. One at a time."""
        self._thread = threading.get_ident()
        gc.callbacks.append(self._collects)
        try:
            return await self._steps(work)
        finally:
            gc.callbacks.remove(self._collects)

    @types.coroutine
    def _steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        resume: Callable[[], Any] = partial(work.send, None)
        while True:
            self._began = time.thread_time()
            try:
                awaited = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                used, self._began = self.step_seconds, None
                self._finished += used
                self._observe(used)
            try:
                resume = partial(work.send, (yield awaited))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # the task was cancelled, or what it waited for failed
                resume = partial(work.throw, error)

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if self._began is None or threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._began += time.thread_time() - self._collecting
