"""Who a bearer token is, and whether they may: asked of a Kubernetes API server.

Answers count for :data:`CACHE_SECONDS`, which bounds how long a revoked token or right is still
good. No answer is never a yes. Who sends many bad tokens is turned away before the API server is
asked (decision 0093).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from coordinator.api.auth.access import Access
from coordinator.api.auth.expiring_cache import Clock, Dated, ExpiringCache, FailureBudget

CACHE_SECONDS = 10.0
"""As aggregated API servers keep both answers (k8s.io/apiserver's DelegatingAuthenticationOptions
and DelegatingAuthorizationOptions)."""
MOST_USERS = 4096
MOST_VERDICTS = 16384
MOST_BAD_TOKENS = 1024
"""Apart from the good ones, which they must not push out."""
AT_ONCE = 8
"""Questions without an answer yet."""
MOST_WAITING = 256
"""Requests that wait for one of them; those beyond are refused."""
SILENT_SECONDS = 1.0
"""After a question without an answer, none is asked for so long: whoever comes is refused."""

FAILURES_PER_SECOND = 5.0
FAILURES_AT_ONCE = 20.0
ALL_FAILURES_PER_SECOND = 50.0
ALL_FAILURES_AT_ONCE = 100.0
"""Bad tokens that are asked about: of one address, and of all. Users behind the API server's proxy
have its address in common, so that the bound of one address has to let ordinary mistakes pass."""
MOST_SOURCES = 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """Who a token is, by the API server."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    allowed: bool
    reason: str = ""
    """The authorizer's own words; often "" for a refusal."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A user who may do what they ask for, until this verdict has to be asked for again."""

    user: ClusterUser
    until: float


class ReviewFailed(Exception):
    """There is no answer. The message says why, and the remedy."""


class TokenUnknown(Exception):
    """The API server does not accept the token."""


class TooManyBadTokens(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many bad tokens; again in {seconds:.1f} s")
        self.seconds = seconds


class AccessRefused(Exception):
    def __init__(self, user: ClusterUser, reason: str) -> None:
        super().__init__(reason)
        self.user, self.reason = user, reason


class ReviewServer(Protocol):
    """Asks once. Raises ReviewFailed."""

    async def user_of(self, token: str) -> ClusterUser | None:
        """None: the token is not accepted."""
        ...

    async def verdict(self, user: ClusterUser, access: Access) -> AccessVerdict: ...

    async def close(self) -> None: ...


class Reviews:
    """The answers, asked for once for all that need one at the same time."""

    def __init__(self, server: ReviewServer, *, clock: Clock = time.monotonic) -> None:
        self._server, self.clock = server, clock
        self._users: ExpiringCache[bytes, ClusterUser] = ExpiringCache(
            size=MOST_USERS, seconds=CACHE_SECONDS, clock=clock
        )
        self._bad: ExpiringCache[bytes, None] = ExpiringCache(
            size=MOST_BAD_TOKENS, seconds=CACHE_SECONDS, clock=clock
        )
        self._verdicts: ExpiringCache[tuple[ClusterUser, Access], AccessVerdict] = ExpiringCache(
            size=MOST_VERDICTS, seconds=CACHE_SECONDS, clock=clock
        )
        self._of_address = FailureBudget(
            per_second=FAILURES_PER_SECOND,
            burst=FAILURES_AT_ONCE,
            sources=MOST_SOURCES,
            clock=clock,
        )
        self._of_all = FailureBudget(
            per_second=ALL_FAILURES_PER_SECOND,
            burst=ALL_FAILURES_AT_ONCE,
            sources=1,
            clock=clock,
        )
        self._flights: dict[Hashable, _Flight] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._silent_until = float("-inf")
        self.error = ""
        """Why the last question had no answer; "" if it had one."""

    async def judge(self, token: str, access: Access | None, *, source: str = "") -> Judged:
        """Who sent the token, if they may. ``access`` None: whoever is known may. ``source``: the
        client's address, to which bad tokens are counted.

        Raises TokenUnknown, AccessRefused, TooManyBadTokens; ReviewFailed where nobody knows.
        """
        user = await self._user_of(token, source)
        if access is None:
            return Judged(user.value, user.until)
        verdict = await self._verdict(user.value, access)
        if not verdict.value.allowed:
            raise AccessRefused(user.value, verdict.value.reason)
        return Judged(user.value, min(user.until, verdict.until))

    async def _user_of(self, token: str, source: str) -> Dated[ClusterUser]:
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        async with self._alone(key):
            if (known := self._users.find(key)) is not None:
                return known
            if self._bad.find(key) is not None:
                raise TokenUnknown
            wait = max(self._of_address.wait(source), self._of_all.wait(""))
            if wait > 0:
                raise TooManyBadTokens(wait)
            user = await self._ask(lambda: self._server.user_of(token))
            if user is not None:
                return self._users.store(key, user)
            self._bad.store(key, None)
            self._of_address.spend(source)
            self._of_all.spend("")
            raise TokenUnknown

    async def _verdict(self, user: ClusterUser, access: Access) -> Dated[AccessVerdict]:
        key = (user, access)
        async with self._alone(key):
            if (known := self._verdicts.find(key)) is not None:
                return known
            verdict = await self._ask(lambda: self._server.verdict(user, access))
            return self._verdicts.store(key, verdict)

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        async with self._slot():
            if self.clock() < self._silent_until:
                raise ReviewFailed(self.error)
            try:
                answer = await question()
            except ReviewFailed as failure:
                self.error = str(failure)
                self._silent_until = self.clock() + SILENT_SECONDS
                raise
            self.error = ""
            return answer

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._waiting >= MOST_WAITING:
            raise ReviewFailed(f"{MOST_WAITING} requests wait for the API server's word already")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    @contextlib.asynccontextmanager
    async def _alone(self, key: Hashable) -> AsyncIterator[None]:
        """One at a time for each key: who comes second finds the answer of the first. A lock and no
        shared future: if the first one's client leaves, the second asks by itself."""
        flight = self._flights.setdefault(key, _Flight(asyncio.Lock()))
        flight.users += 1
        try:
            async with flight.lock:
                yield
        finally:
            flight.users -= 1
            if not flight.users:
                del self._flights[key]


@dataclass(slots=True)
class _Flight:
    lock: asyncio.Lock
    users: int = 0
