"""Token and access reviews: ask a Kubernetes API server who sent a token and whether they may.

Answers count for :data:`CACHE_SECONDS`, which bounds how long a revoked token or right is still
good. No answer is never a yes. Who sends many bad tokens is turned away before the API server is
asked (decision 0093).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from coordinator.api.auth.access import Access
from coordinator.api.auth.expiring_cache import CachedValue, Clock, ExpiringCache, FailureBudget
from coordinator.intake.fair_queue import LineFull
from coordinator.intake.fair_turns import FairTurns
from shared.telemetry.histogram import Histogram, exponential

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
"""Requests that wait for one of them, each in its user's line. A line as long as the room that is
left takes no more, so that the questions of one user refuse nobody else's."""
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
    """User of a token, as the API server reports it."""

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
class ReviewedUser:
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


class ReviewKind(StrEnum):
    """Kind of review that the API server is asked for."""

    TOKEN = "token"
    ACCESS = "access"


class ReviewAnswer(StrEnum):
    YES = "yes"
    NO = "no"
    REMEMBERED = "remembered"
    """It was not asked: its last answer still counts."""
    NONE = "none"
    """It did not answer, or was not asked because it did not answer just before."""
    TURNED_AWAY = "turned_away"
    """It was not asked: too many bad tokens came."""


REVIEW_SECONDS = exponential(0.001, 2, 14)


@dataclass(slots=True)
class ReviewCounts:
    """Counts of review answers since the start of this process."""

    answers: Counter[tuple[ReviewKind, ReviewAnswer]] = field(
        default_factory=Counter[tuple[ReviewKind, ReviewAnswer]]
    )
    seconds: Histogram = field(default_factory=lambda: Histogram(REVIEW_SECONDS))
    """How long the API server took, where it answered."""


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
        self.counts = ReviewCounts()
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
        self._turns = FairTurns(slots=AT_ONCE, size=MOST_WAITING)
        self._silent_until = float("-inf")
        self.error = ""
        """Why the last question had no answer; "" if it had one."""

    @property
    def waiting(self) -> int:
        """Questions that wait for their turn."""
        return self._turns.waiting

    async def judge(self, token: str, access: Access | None, *, source: str = "") -> ReviewedUser:
        """Return the token's user if they may access; with ``access`` None every known user may.
        ``source``: the client's address, to which bad tokens are counted.

        Raises TokenUnknown, AccessRefused, TooManyBadTokens; ReviewFailed where nobody knows.
        """
        user = await self._user_of(token, source)
        if access is None:
            return ReviewedUser(user.value, user.until)
        verdict = await self._verdict(user.value, access)
        if not verdict.value.allowed:
            raise AccessRefused(user.value, verdict.value.reason)
        return ReviewedUser(user.value, min(user.until, verdict.until))

    async def _user_of(self, token: str, source: str) -> CachedValue[ClusterUser]:
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        async with self._alone(key):
            if (cached := self._users.find(key)) is not None:
                self._count(ReviewKind.TOKEN, ReviewAnswer.REMEMBERED)
                return cached
            if self._bad.find(key) is not None:
                self._count(ReviewKind.TOKEN, ReviewAnswer.REMEMBERED)
                raise TokenUnknown
            wait = max(self._of_address.wait(source), self._of_all.wait(""))
            if wait > 0:
                self._count(ReviewKind.TOKEN, ReviewAnswer.TURNED_AWAY)
                raise TooManyBadTokens(wait)
            user = await self._ask(ReviewKind.TOKEN, source, lambda: self._server.user_of(token))
            self._count(ReviewKind.TOKEN, ReviewAnswer.NO if user is None else ReviewAnswer.YES)
            if user is not None:
                return self._users.store(key, user)
            self._bad.store(key, None)
            self._of_address.spend(source)
            self._of_all.spend("")
            raise TokenUnknown

    async def _verdict(self, user: ClusterUser, access: Access) -> CachedValue[AccessVerdict]:
        key = (user, access)
        async with self._alone(key):
            if (cached := self._verdicts.find(key)) is not None:
                self._count(ReviewKind.ACCESS, ReviewAnswer.REMEMBERED)
                return cached
            verdict = await self._ask(
                ReviewKind.ACCESS, user.name, lambda: self._server.verdict(user, access)
            )
            self._count(ReviewKind.ACCESS, ReviewAnswer.YES if verdict.allowed else ReviewAnswer.NO)
            return self._verdicts.store(key, verdict)

    def _count(self, question: ReviewKind, answer: ReviewAnswer) -> None:
        self.counts.answers[question, answer] += 1

    async def _ask(self, question: ReviewKind, caller: str, ask: Callable[[], Awaitable[T]]) -> T:
        """``caller``: the user, or an unknown one's address, in whose line the question waits."""
        try:
            return await self._ask_once(caller, ask)
        except ReviewFailed:
            self._count(question, ReviewAnswer.NONE)
            raise

    async def _ask_once(self, caller: str, ask: Callable[[], Awaitable[T]]) -> T:
        async with self._slot(caller):
            if self.clock() < self._silent_until:
                raise ReviewFailed(self.error)
            began = self.clock()
            try:
                answer = await ask()
            except ReviewFailed as failure:
                self.error = str(failure)
                self._silent_until = self.clock() + SILENT_SECONDS
                raise
            self.counts.seconds.observe(self.clock() - began)
            self.error = ""
            return answer

    @contextlib.asynccontextmanager
    async def _slot(self, caller: str) -> AsyncIterator[None]:
        try:
            await self._turns.take(caller)
        except LineFull as error:
            raise ReviewFailed(f"{error} for the API server's word already") from error
        try:
            yield
        finally:
            self._turns.give_back(caller, 1.0)  # counted in questions: users take turns

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
