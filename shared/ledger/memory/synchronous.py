"""Calling a ledger that never waits (one in memory) from code without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end; it may give way. RuntimeError where it waits."""
    try:
        while call.send(None) is None:
            pass
    except StopIteration as stop:
        result: T = stop.value
        return result
    call.close()
    raise RuntimeError("this ledger waits: call it from an event loop")
