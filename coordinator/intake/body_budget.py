"""Memory for bodies that are being read or stored, shared fairly among those who send them.

The same rule as in :mod:`coordinator.intake.fair_queue`, in bytes: one who sends alone gets half of
the room, and whoever holds nothing yet is always let in.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from coordinator.errors import Problem

BYTES = 96 << 20
"""Less than what the doors let wait together, so that this one says no first."""

LARGEST = 16 << 20
"""What a body counts that does not say its size: as much as a door takes."""

RETRY_SECONDS = 1.0


class BodyRoom:
    def __init__(self, size: int = BYTES) -> None:
        self._size = size
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, caller: str, request: web.Request) -> Iterator[None]:
        """Room for the body of a request until it is answered. Raises Problem (429)."""
        if not request.can_read_body:
            yield
            return
        declared = request.content_length
        size = LARGEST if declared is None else declared
        held_bytes = self._held[caller]
        if held_bytes and held_bytes + size > self._size - self._held.total():
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                f"{held_bytes} bytes of requests of {caller} wait; send this one again after the "
                "time in Retry-After",
                retry_after=RETRY_SECONDS,
            )
        self._held[caller] += size
        try:
            yield
        finally:
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]
