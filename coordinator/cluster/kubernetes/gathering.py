"""Gathering of watch events: they wait a moment to be stored together (decision 0111)."""

from __future__ import annotations

import asyncio
import math

GATHER_SECONDS = 0.02
"""A store in the ledger costs as much for one object as for ten, and each is an entry of the log
that every process reads. So few things are taken this long after the last ones, and at once where
nothing came for as long."""
FEW = 16
"""From so many on, nothing is won by waiting for more."""


class EventGathering:
    """Paces whoever takes: one task, which calls :meth:`pause` before it does."""

    def __init__(self) -> None:
        self._taken_at = -math.inf

    async def pause(self, waiting: int) -> None:
        """``waiting``: how many things there are to take."""
        loop = asyncio.get_running_loop()
        left = self._taken_at + GATHER_SECONDS - loop.time()
        if waiting < FEW and left > 0:
            await asyncio.sleep(left)
        self._taken_at = loop.time()
