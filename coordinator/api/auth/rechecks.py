"""Requests that last (watches, streams) are judged again while they do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coordinator.api.auth.access import Access
from coordinator.api.auth.reviews import (
    CACHE_SECONDS,
    AccessRefused,
    ReviewedUser,
    ReviewFailed,
    Reviews,
    TokenUnknown,
    TooManyBadTokens,
)

LOOK_SECONDS = 1.0
GRACE_SECONDS = CACHE_SECONDS
"""How long a request goes on after its verdict ran out while the API server says nothing."""


@dataclass(eq=False, slots=True)
class _OpenRequest:
    token: str
    access: Access | None
    until: float
    """When the verdict has to be asked for again."""
    refused: bool = False


class Rechecks:
    def __init__(self, reviews: Reviews) -> None:
        self.reviews = reviews
        self._open: set[_OpenRequest] = set()

    @contextlib.contextmanager
    def opened(
        self, token: str, access: Access | None, judged: ReviewedUser
    ) -> Iterator[Callable[[], bool]]:
        """While a request is served; yields what tells whether it may go on."""
        request = _OpenRequest(token, access, judged.until)
        self._open.add(request)
        try:
            yield lambda: self._stands(request)
        finally:
            self._open.discard(request)

    def _stands(self, request: _OpenRequest) -> bool:
        return not request.refused and self.reviews.clock() < request.until + GRACE_SECONDS

    async def run_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Judge those again whose verdict ran out."""
        now = self.reviews.clock()
        due = [r for r in self._open if r.until <= now and not r.refused]
        for request in due:
            try:
                judged = await self.reviews.judge(request.token, request.access)
            except (TokenUnknown, AccessRefused):
                request.refused = True
            except (ReviewFailed, TooManyBadTokens):
                continue  # nobody knows: it ends with its grace
            else:
                request.until = judged.until
