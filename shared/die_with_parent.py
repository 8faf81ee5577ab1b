"""A child process that ends when its parent dies, however that dies (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """A function for the child to run before exec: it asks the kernel for this signal at the death
    of the thread that started it."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:  # one system call: nothing that could wait for another thread
        prctl(_PR_SET_PDEATHSIG, number)

    return ask
