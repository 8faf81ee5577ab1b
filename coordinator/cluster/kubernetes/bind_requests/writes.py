"""Binds by way of KAI's binder: one BindRequest a pod, written, followed, and taken back.

::

    placement --> BindRequest --> KAI's binder --> the pod has a node: its watch says so
                      |  +------> Failed: the request is deleted, and the bind is refused
                      +---------> no answer: the API server is asked, it is told, and waited on

The API server binds a pod once, whoever asks, so that nothing here can bind it twice. What can go
wrong is that a pod goes where its room was given to somebody else: a request that is not what the
ledger wants is deleted before another is made, and the pod is looked at in between (decision 0092).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.api.pool import JSON
from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook, KnownRequest
from coordinator.cluster.kubernetes.bind_requests.counts import RequestCounts
from coordinator.cluster.kubernetes.bind_requests.objects import (
    BindPhase,
    BindRequest,
    collection_of,
    read_statement,
    request_of,
    written_request,
)
from coordinator.cluster.kubernetes.bind_requests.server import DeletionResult, RequestServer
from coordinator.cluster.kubernetes.bind_requests.strays import StrayRequests
from coordinator.cluster.kubernetes.state.mirror import NODE, Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.bind_call import NO_NODE, BindCall
from coordinator.cluster.kubernetes.writes.verdict import BindRefusal, of_answer
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, ClusterTimeout
from shared.model.node_pool import NodePool

STEPS = 5
"""Reads and writes for one pod in one call: what another leader, or KAI, left may have to go first.
"""
WAIT_SECONDS = 5.0
"""How long a call waits whose binds all wait for the binder."""
GATHER_SECONDS = 0.05
"""After the first outcome: each look at a call is one at all its binds. The books hear of a success
by the watch of the pod, and not from here."""
SILENCE_SECONDS = 60.0
"""A request without an answer for longer is told of, and looked up on the API server, as often. The
binder gives up a reservation after 40 s."""
RETRY_SECONDS = 3.0
"""How long a failure is no end. The binder tries again by itself after a second, as most shares of
GPUs need: it looks for the ConfigMap that it has just written in a cache that lags."""
FAILED = "BinderFailed"
"""Reason of a refusal. The binder's own words, which name the pod, are in the pod's condition and
event of its making."""

log = structlog.get_logger(__name__)


class RequestWrites:
    """See :class:`~coordinator.cluster.kubernetes.cluster.PodWrites`. Evictions go as ever."""

    def __init__(
        self,
        writes: ApiWrites,
        mirror: Mirror,
        book: BindRequestBook,
        *,
        pool: NodePool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = RequestCounts()
        self._pool = {pool.label: pool.value} if pool is not None and pool.value else {}
        self.server = RequestServer(writes, book)
        self.strays = StrayRequests(writes, mirror, book, self.server, clock=clock)
        self._writes = writes
        self._mirror = mirror
        self._book = book
        self._clock = clock

    async def evict(self, rows: Sequence[PodRow]) -> list[PodRow]:
        return await self._writes.evict(rows)

    async def close(self) -> None:
        await self._writes.close()

    @property
    def problem(self) -> str:
        """Problem that the cluster's administrator has to look at; "" for none."""
        if self._book.missing:
            return (
                "the API server has no BindRequests of scheduling.run.ai/v1alpha2: install KAI's "
                "definitions, or unset QUADRANT_BINDER"
            )
        silent = [known for known in self._book.asked() if self._is_silent(known)]
        if not silent:
            return ""
        first = min(silent, key=lambda known: known.since)
        return (
            f"{len(silent)} BindRequests have had no answer for {SILENCE_SECONDS:.0f} s, "
            f"{'/'.join(first.request.key)} first: does KAI's binder run?"
        )

    def _is_silent(self, known: KnownRequest) -> bool:
        waits = known.request.phase is BindPhase.WAITING
        return waits and self._clock() - known.since >= SILENCE_SECONDS

    # --- binds ------------------------------------------------------------------------------------

    async def bind(self, requests: BindRequests, rows: Sequence[PodRow | None]) -> BindAnswers:
        """Answers PENDING for what the binder has to do yet. A call that finds nothing else, and
        has nothing to write, waits for the first outcome. Raises ClusterTimeout."""
        if not self._book.complete:
            raise ClusterTimeout(self.problem or "the BindRequests were not listed yet")
        await self._writes.fence_waiting()
        call, sent = BindCall(requests, rows), False

        async def one(i: int) -> None:
            nonlocal sent
            sent = await self._bind_one(call, i) or sent

        # Before anything is looked at: what comes in between is heard.
        with self._book.waiting([row.key for row in rows if row is not None]) as news:
            left = [i for i in range(len(rows)) if not call.answered_by_watch(i)]
            await self._writes.each(deque(left), one)
            await self._end_requests_of_gone_pods(call)
            self._note(call)
            if not sent and all(answer == BindAnswer.PENDING for answer in call.answers):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(WAIT_SECONDS):
                        await news.wait()
                    await asyncio.sleep(GATHER_SECONDS)
        return call.result()

    async def _end_requests_of_gone_pods(self, call: BindCall) -> None:
        """At once, and not with other strays: the binder goes by the name of a pod, and would bind
        the next one of that name by it."""
        left = deque(
            i
            for i, row in enumerate(call.rows)
            if call.answers[i] == BindAnswer.GONE and row is not None and self._is_open(row)
        )

        async def one(i: int) -> None:
            row = call.rows[i]
            request_state = None if row is None else self._book.of(row.key)
            if request_state is not None:
                await self.server.delete(request_state.request)

        await self._writes.each(left, one)

    def _is_open(self, row: PodRow) -> bool:
        request_state = self._book.of(row.key)
        if request_state is None or not request_state.request.is_of(row):
            return False
        return request_state.request.phase is BindPhase.WAITING

    def _note(self, call: BindCall) -> None:
        for row, answer in zip(call.rows, call.answers, strict=True):
            if row is not None:
                is_open = answer in (BindAnswer.PENDING, BindAnswer.UNKNOWN)
                self._book.note(row.key, is_open=is_open)

    async def _bind_one(self, call: BindCall, i: int) -> bool:
        """True where the API server was asked anything."""
        row = call.rows[i]
        assert row is not None
        for step in range(STEPS):
            request_state = self._book.of(row.key)
            if request_state is not None and self._waits(call, i, request_state):
                return step > 0
            again = await (
                self._write(call, i, row)
                if request_state is None
                else self._settle(call, i, row, request_state)
            )
            if not again:
                break
        return True

    def _waits(self, call: BindCall, i: int, known: KnownRequest) -> bool:
        """Whether the request is what is wanted, and there is nothing to do but to wait."""
        request, row, node = known.request, call.rows[i], call.requests.nodes[i]
        if not request.is_of(row) or self._has_failed(known):
            return False
        if not request.asks(node, call.devices(i)) or not self._has_node(node):
            return False
        last = max(known.since, known.looked)
        if self._clock() - last >= SILENCE_SECONDS:
            return False
        if self._book.asked_at(request.key) == 0 and self._is_of_another_leader(request):
            self.counts.adopted += 1
        call.answer(i, BindAnswer.PENDING)
        return True

    def _has_failed(self, known: KnownRequest) -> bool:
        failed = known.request.phase is BindPhase.FAILED
        return failed and self._clock() - known.failed >= RETRY_SECONDS

    async def _write(self, call: BindCall, i: int, row: PodRow) -> bool:
        """Write a request where there is none. True: decide anew."""
        node = call.requests.nodes[i]
        if not self._has_node(node):
            call.refuse(i, NO_NODE)
            return False
        statement = f"{self._writes.leadership.statement}/{call.entry(i)}"
        body = written_request(row, node, call.devices(i), statement=statement, pool=self._pool)
        self.counts.written += 1
        path = collection_of(row.namespace)
        answer = await self._writes.report("POST", path, msgspec.json.encode(body), JSON)
        if answer is None:
            return await self.server.reread(row.key)
        match answer.code:
            case HTTPStatus.CREATED:
                self._book.take(request_of(answer.body))
                call.answer(i, BindAnswer.PENDING)
                return False
            case HTTPStatus.CONFLICT:
                return await self.server.reread(row.key)
            case HTTPStatus.NOT_FOUND:  # the namespace, or the kind: a watch says which
                return False
            case _:
                pass
        judged = of_answer(answer.code, answer.body)
        if isinstance(judged, BindRefusal):
            call.refuse(i, judged.reason)
        why = status_of(answer.body, answer.code).message
        log.warning("A BindRequest is refused", pod=row.name, why=why)
        return False

    async def _settle(self, call: BindCall, i: int, row: PodRow, known: KnownRequest) -> bool:
        """Do what a request asks for that is there, and that is more than to wait. True: decide
        anew."""
        request, node = known.request, call.requests.nodes[i]
        spec = request.asks(node, call.devices(i))
        if not request.is_of(row):  # of an earlier pod of this name
            return await self.server.delete(request) is not DeletionResult.UNKNOWN
        if spec and request.phase is not BindPhase.FAILED and self._has_node(node):
            return await self._look_up(call, i, row, known)
        if request.phase is BindPhase.SUCCEEDED:  # the pod says where, or the request is not true
            looked = await self._look(call, i, row)
            return looked and await self.server.delete(request) is not DeletionResult.UNKNOWN
        if self._is_later(request, call.entry(i)):
            call.answer(i, BindAnswer.OVER)
            return False
        if request.phase is BindPhase.FAILED:
            return await self._take_back(call, i, row, request, refused=spec)
        self.counts.withdrawn += 1
        log.info("A BindRequest is withdrawn", pod=row.name, node=request.spec.selected_node)
        return await self._take_back(call, i, row, request, refused=False)

    async def _take_back(
        self, call: BindCall, i: int, row: PodRow, request: BindRequest, *, refused: bool
    ) -> bool:
        """Delete the request, and see what became of the pod. ``refused``: the binder could not
        do it."""
        deleted = await self.server.delete(request)
        if deleted is DeletionResult.UNKNOWN:
            return False
        if deleted is DeletionResult.CHANGED:
            return True
        # Its own error does not say that the pod is not bound: the answer to the binding may have
        # been lost.
        if not await self._look(call, i, row):
            return False
        if not refused or deleted is DeletionResult.GONE:
            return True
        self.counts.failed += 1
        log.warning("KAI's binder failed", pod=row.name, why=request.status.reason)
        call.refuse(i, FAILED)
        return False

    async def _look_up(self, call: BindCall, i: int, row: PodRow, known: KnownRequest) -> bool:
        """Ask the API server about a request that has had no answer for long."""
        request = known.request
        known.looked = self._clock()
        log.warning(
            "KAI's binder does not answer",
            pod=f"{row.namespace}/{row.name}",
            node=request.spec.selected_node,
            seconds=round(self._clock() - known.since),
        )
        if not await self.server.reread(row.key) or not await self._look(call, i, row):
            return False
        if request.phase is BindPhase.SUCCEEDED and self._book.of(row.key) is known:
            return await self.server.delete(known.request) is not DeletionResult.UNKNOWN
        return True

    async def _look(self, call: BindCall, i: int, row: PodRow) -> bool:
        """Read the pod; True where it is the same, and bound to nothing."""
        looked = await self._writes.look(row, call.requests.nodes[i])
        if looked is not None and looked.answer is not None:
            call.answer(i, looked.answer, looked.node)
        return looked is not None and looked.answer is None

    # --- whose it is ------------------------------------------------------------------------------

    def _has_node(self, node: str) -> bool:
        return self._mirror.exists(ObjectKey(NODE, "", node))

    def _is_of_another_leader(self, request: BindRequest) -> bool:
        ours = read_statement(self._writes.leadership.statement)
        return not request.statement.is_of_the_leader_of(ours)

    def _is_later(self, request: BindRequest, entry: str) -> bool:
        """Whether the request was decided after this entry: then the entry is over."""
        ours = read_statement(f"{self._writes.leadership.statement}/{entry}")
        return request.statement.is_after(ours)
