"""Calling a ledger that never waits (the double) from code without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end. RuntimeError where it does wait."""
    try:
        call.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    call.close()
    raise RuntimeError("this ledger waits: call it from an event loop")
