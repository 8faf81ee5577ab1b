"""BindRequests that nobody wants: of a deposed leader, or of a pod that is gone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook, KnownRequest
from coordinator.cluster.kubernetes.bind_requests.objects import (
    BindPhase,
    BindRequest,
    read_statement,
)
from coordinator.cluster.kubernetes.bind_requests.server import DeletionResult, RequestServer
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.cluster.protocol import ClusterTimeout

STRAY_SECONDS = 20.0
"""A request for which no bind was asked in this time is not wanted: a bind under way waits for its
outcome, with short pauses. Where one was wanted after all it is written again."""
SWEEP_SECONDS = 5.0
SWEPT_AT_ONCE = 2000
"""Requests of one step of the loop: a running pod has one, too."""

log = structlog.get_logger(__name__)


class StrayRequests:
    def __init__(
        self,
        writes: ApiWrites,
        mirror: Mirror,
        book: BindRequestBook,
        server: RequestServer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deleted = 0
        self._writes = writes
        self._mirror = mirror
        self._book = book
        self._server = server
        self._clock = clock

    async def delete_forever(self) -> None:
        """Delete what a deposed leader wrote and the ledger does not want, and what pods left that
        are gone."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            if not self._book.complete or not self._mirror.accounts_for_all:
                continue
            every = list(self._book)
            for at in range(0, len(every), SWEPT_AT_ONCE):
                part = every[at : at + SWEPT_AT_ONCE]
                await self._sweep([count.request for count in part if self._is_stray(count)])
                await asyncio.sleep(0)

    async def _sweep(self, strays: Sequence[BindRequest]) -> None:
        async def one(i: int) -> None:
            await self._end_stray(strays[i])

        with contextlib.suppress(ClusterTimeout):  # the next look finds them again
            await self._writes.each(deque(range(len(strays))), one)

    def _is_stray(self, known: KnownRequest) -> bool:
        request, key = known.request, known.request.key
        row = self._mirror.pods.by_key.get(key)
        if row is not None and request.is_of(row) and _is_done(request, row):
            # It stays as long as the pod: it says which statement bound it, and the binder keeps
            # the reservations of its devices by it. Almost all are such.
            return False
        last = max(known.since, self._book.asked_at(key))
        if self._clock() - last < STRAY_SECONDS or self._book.is_awaited(key):
            return False
        return bool(request.statement.ledger)  # KAI's own requests are its binder's to do

    async def _end_stray(self, request: BindRequest) -> None:
        if await self._server.delete(request) is DeletionResult.DONE:
            self.deleted += 1
            ours = read_statement(self._writes.leadership.statement)
            say = log.info if request.statement.is_of_the_leader_of(ours) else log.warning
            say(
                "A BindRequest that nobody wants was deleted",
                pod="/".join(request.key),
                node=request.spec.selected_node,
                leader=request.statement.leader,
            )


def _is_done(request: BindRequest, row: PodRow) -> bool:
    return bool(row.node) or row.ended or request.phase is BindPhase.SUCCEEDED
