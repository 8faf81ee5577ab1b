"""Client for what-if inquiries to shard workers, limited in number and time; a failed one never
gives a worker up.

A worker that answers an inquiry places no turns meanwhile, so only a few are under way at once;
more are refused with 429.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

from coordinator.dispatch.worker_client import Shards, WorkerLost
from coordinator.errors import Problem
from shard_worker.inquiry.findings import InquiryFindings
from shard_worker.inquiry.inquiry import Inquiry

AT_ONCE = 4
"""Limit on concurrent inquiries."""
SECONDS = 3.0
"""Deadline of one worker's answer."""
RETRY_AFTER = 1.0


class InquiryUnanswered(Exception):
    """No worker answered; the text lists those asked and their errors."""


class Inquiries:
    def __init__(self, shards: Shards, *, at_once: int = AT_ONCE, seconds: float = SECONDS) -> None:
        self._shards = shards
        self._at_once = at_once
        self._seconds = seconds
        self._held: Counter[str] = Counter()
        """Inquiries under way, by caller."""

    @contextlib.contextmanager
    def turnstile(self, caller: str = "") -> Iterator[None]:
        """Raises Problem (429) where the caller's share of the inquiries is used up: half of those
        that others leave, and one in any case. Without a name: all of them."""
        # Refused, not queued: a worker places nothing while it answers, and a queue would keep it
        # from placing for as long as anybody asks.
        own, free = self._held[caller], self._at_once - self._held.total()
        if free <= 0 if not caller else own >= max(1, free):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{self._held.total()} questions are being answered, {own} of them yours; "
                "ask again in a moment",
                retry_after=RETRY_AFTER,
            )
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]

    async def ask(self, shard: int, inquiry: Inquiry) -> InquiryFindings:
        """One finding per turn. Raises NoAnswer."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._shards.inquire(shard, inquiry)
        except TimeoutError as error:
            raise InquiryUnanswered(
                f"shard {shard} gave no answer within {self._seconds:g} s"
            ) from error
        except WorkerLost as error:
            raise InquiryUnanswered(str(error)) from error

    async def ask_any(self, shards: list[int], inquiry: Inquiry) -> tuple[int, InquiryFindings]:
        """Ask these shards in order, two at most; returns the first that answers and its answer.
        Raises NoAnswer."""
        errors: list[str] = []
        for shard in shards[:2]:  # each may take its time
            try:
                return shard, await self.ask(shard, inquiry)
            except InquiryUnanswered as error:
                errors.append(str(error))
        raise InquiryUnanswered("; ".join(errors) or "no shard has a worker")
