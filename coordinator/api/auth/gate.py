"""Which authenticators are on: a file of tokens, a Kubernetes API server, both, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.api.auth.rechecks import Rechecks
from coordinator.api.auth.reviews import Reviews, ReviewServer
from coordinator.api.auth.token_file import TokenFile
from coordinator.api.http.health import HealthCheck


class Gate:
    """Authentication and authorization of requests. Without any authenticator everything is
    allowed."""

    def __init__(self, tokens: TokenFile | None, server: ReviewServer | None = None) -> None:
        self.tokens = tokens
        self._server = server
        self.rechecks = None if server is None else Rechecks(Reviews(server))
        """Reviews, and the requests that they are repeated for."""

    @property
    def open(self) -> bool:
        return self.tokens is None and self.rechecks is None

    async def follow_forever(self) -> None:
        """Follow the file, and judge requests that last again."""
        try:
            async with asyncio.TaskGroup() as group:
                if self.tokens is not None:
                    group.create_task(self.tokens.follow_forever())
                if self.rechecks is not None:
                    group.create_task(self.rechecks.run_forever())
        finally:
            if self._server is not None:
                await self._server.close()

    def checks(self) -> list[HealthCheck]:
        """Health checks of the configured authenticators."""
        checks: list[HealthCheck] = []
        if (tokens := self.tokens) is not None:
            checks.append(_check("tokens", lambda: _of_file(tokens.error)))
        if (rechecks := self.rechecks) is not None:
            checks.append(_check("access_reviews", lambda: rechecks.reviews.error))
        return checks


def _check(name: str, look: Callable[[], str]) -> HealthCheck:
    return HealthCheck(name, look, needed=False)


def _of_file(error: str) -> str:
    return f"older tokens count, the file is bad: {error}" if error else ""
