"""Waiting for changes. The only module of the read model that depends on an event loop."""

from __future__ import annotations

import asyncio

GATHER_SECONDS = 0.02
"""Delay before watchers are woken, so that changes which come together are sent together."""


class WatchExpired(Exception):
    """Changes since that version are no longer known; the client must list again."""


class Watchers:
    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self._waiting = 0
        self._due = False

    def notify(self) -> None:
        """Wake the watchers soon. Costs next to nothing without watchers, or if a call is already
        due."""
        if self._waiting and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._wake)

    def _wake(self) -> None:
        self._due = False
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self) -> None:
        """Wait until something changes."""
        self._waiting += 1
        try:
            await self._moved.wait()
        finally:
            self._waiting -= 1
