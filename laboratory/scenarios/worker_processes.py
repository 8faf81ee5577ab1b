"""Process pools for runs side by side that end at once when the command is interrupted."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from shared.die_with_parent import die_with_parent


def _nothing() -> None:
    """Prepares nothing; a lambda could not be sent to a process that is spawned."""


@contextmanager
def worker_processes(
    count: int, prepare: Callable[[], None] = _nothing
) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, each of which calls ``prepare`` first. What raises inside ends them in
    the middle of their work: a run takes minutes, and an executor left to itself waits for all that
    have begun."""
    with ProcessPoolExecutor(count, initializer=_begin, initargs=(prepare,)) as pool:
        try:
            yield pool
        except BaseException:
            # Not cancelled, nor shut down before: the pool's own thread fails what was open as soon
            # as a process has ended. A future that is cancelled by then makes it print a traceback;
            # so does an interpreter that ends before this thread, for which leaving the pool waits.
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _begin(prepare: Callable[[], None]) -> None:
    """Leave Ctrl-C, which reaches every process of a terminal, to the command; end with it."""
    # Loaded modules are not walked at each full collection, and young objects more rarely: both
    # were a twentieth of the time of seeds.
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent = die_with_parent()
    if end_with_parent is not None:
        end_with_parent()
    prepare()
