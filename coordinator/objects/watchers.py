"""Who waits for something to change. The only part of the objects that knows an event loop."""

from __future__ import annotations

import asyncio

GATHER_SECONDS = 0.02
"""Watchers are woken this long after a change, so that what comes together is told together."""


class Expired(Exception):
    """What changed since that version is not known any more: list again."""


class Watchers:
    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self._waiting = 0
        self._due = False

    def notify(self) -> None:
        """Something changed. Costs next to nothing where nobody waits, or a call is due."""
        if self._waiting and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._wake)

    def _wake(self) -> None:
        self._due = False
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self) -> None:
        """Until something changes."""
        self._waiting += 1
        try:
            await self._moved.wait()
        finally:
            self._waiting -= 1
