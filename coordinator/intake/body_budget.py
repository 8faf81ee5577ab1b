"""Memory for request bodies that are being read or stored, shared fairly among the callers.

The rule of :mod:`coordinator.intake.fair_queue`, in bytes: a single caller gets half of the room,
and a caller that holds nothing is always admitted.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from coordinator.errors import Problem

BYTES = 96 << 20
"""Less than all endpoints together let wait, so that this limit refuses first."""

LARGEST = 16 << 20
"""Assumed size of a body without Content-Length: the most that an endpoint accepts."""

RETRY_SECONDS = 1.0


class BodyRoom:
    def __init__(self, size: int = BYTES) -> None:
        self._size = size
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, caller: str, request: web.Request) -> Iterator[None]:
        """Reserve memory for the body of a request until it is answered. Raises Problem (429)."""
        if not request.can_read_body:
            yield
            return
        declared = request.content_length
        size = LARGEST if declared is None else declared
        held_bytes = self._held[caller]
        if held_bytes and held_bytes + size > self._size - self._held.total():
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
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
