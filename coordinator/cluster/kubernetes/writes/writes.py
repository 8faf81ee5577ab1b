"""Bindings and evictions, written to the API server by few workers over many connections."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.client import ApiError, ApiReader, KindMissing
from coordinator.cluster.kubernetes.api.concurrency import RequestLimit
from coordinator.cluster.kubernetes.api.objects import pod_of, resources_of, status_of
from coordinator.cluster.kubernetes.api.pool import (
    CONNECTIONS,
    JSON,
    STRATEGIC_PATCH,
    HttpAnswer,
    NoAnswer,
    NotSent,
    WritePool,
)
from coordinator.cluster.kubernetes.state.mirror import NODE, Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import STATEMENT, PodRow
from coordinator.cluster.kubernetes.writes.bind_call import NO_NODE, BindCall
from coordinator.cluster.kubernetes.writes.cluster_lease import ClusterLeases
from coordinator.cluster.kubernetes.writes.verdict import (
    BindRefusal,
    NextStep,
    PodVerdict,
    of_answer,
    of_pod,
)
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    ClusterTimeout,
)
from shared.model.kai_devices import labels_of, received, shared_groups
from shared.model.named_devices import ASSIGNED_DEVICES, written_devices
from shared.units.things import Things

TRIES = 3
"""Bindings of one pod in one call: its version may move between a look and the next try."""
LONGEST_SECONDS = 5.0
"""How long one write may take, where the lease leaves as much."""
_SHARE = 0.8
"""Fraction of the lease's rest to wait for an answer: the server gives a write up before somebody
else may lead."""
_LEAST_SECONDS = 0.05
BIND_FAILED = "SchedulerError"
"""Reason of a condition: kube-scheduler's word for a binding that failed."""
_OVERLOAD = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WriteLeadership:
    """For whom is written, and for how long it is certain."""

    statement: str = ""
    """Cluster and epoch, for the annotation of bound pods."""
    remaining: Callable[[], float] = lambda: LONGEST_SECONDS
    """Seconds until the lease runs out."""

    @property
    def ledger(self) -> str:
        return self.statement.partition("/")[0]


@dataclass(slots=True)
class WriteCounts:
    bindings: int = 0
    looks: int = 0
    fences: int = 0
    without_answer: int = 0
    evictions: int = 0
    budget_refusals: int = 0


def _marks(node: str, devices: Things) -> Mapping[str, str]:
    del node
    return {ASSIGNED_DEVICES: written_devices(devices)} if devices else {}


class ApiWrites:
    def __init__(
        self,
        reader: ApiReader,
        mirror: Mirror,
        *,
        schedulers: Set[str] = frozenset({"quadrant"}),
        connections: int = CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``schedulers``: for which names a Lease is held."""
        self.leadership = WriteLeadership()
        self.leases = ClusterLeases(self, schedulers, clock=clock)
        self.counts = WriteCounts()
        self.device_marks: Callable[[str, Things], Mapping[str, str]] = _marks
        """(node, devices of a pod there) -> annotations that tell them; replaced by who knows the
        nodes."""
        self._fencing = asyncio.Lock()
        self._fenced = False
        """No binding of another ledger can land any more."""
        self.limit = RequestLimit(connections)
        self._reader = reader
        self._mirror = mirror
        self._pool = WritePool(reader.server, connections=connections)
        self._clock = clock

    async def close(self) -> None:
        await self._pool.close()

    # --- bindings -------------------------------------------------------------------------------

    async def bind(self, requests: BindRequests, rows: Sequence[PodRow | None]) -> BindAnswers:
        """Raises ClusterTimeout where the lease leaves no time for any write, or another Quadrant
        has the cluster's."""
        await self.fence_waiting()
        call = BindCall(requests, rows)
        pending = deque(i for i in range(len(rows)) if not call.answered_by_watch(i))
        await self.each(pending, lambda i: self._bind_one(call, i))
        return call.result()

    async def _bind_one(self, call: BindCall, i: int) -> None:
        row, node = call.rows[i], call.requests.nodes[i]
        assert row is not None
        entry = call.entry(i)
        if not self._mirror.exists(ObjectKey(NODE, "", node)):
            # The server does not look: it would answer 201, and the pod would wait for ever.
            await self._refuse(call, i, row, BindRefusal(NO_NODE, f"there is no node {node}"))
            return
        version = row.version
        for _ in range(TRIES):
            self.counts.bindings += 1
            path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}/binding"
            body = self._binding(row, node, version, entry, call.devices(i))
            answer = await self._write("POST", path, body)
            judged = NextStep.LOOK if answer is None else of_answer(answer.code, answer.body)
            match judged:
                case BindRefusal():
                    await self._refuse(call, i, row, judged)
                    return
                case BindAnswer():
                    self._answered(call, i, row, PodVerdict(judged, node))
                    return
                case NextStep.WAIT:
                    return  # unknown to the binder, which asks again
                case NextStep.LOOK:
                    looked = await self.look(row, node)
            if looked is None:
                return
            if looked.answer is BindAnswer.ELSEWHERE and not row.node:
                return  # unknown until the watch has it too, which tells its devices
            if looked.answer is not None:
                self._answered(call, i, row, looked)
                return
            version = looked.version

    async def _refuse(self, call: BindCall, i: int, row: PodRow, why: BindRefusal) -> None:
        """Have the place given back, once no earlier binding to it can land any more: one without
        an answer, of ours or of a deposed leader's, may still be on its way."""
        node = call.requests.nodes[i]
        fenced = await self._fence(row, f"the binding to {node} was refused: {why.message}", node)
        if fenced is None or (fenced.answer is BindAnswer.ELSEWHERE and not row.node):
            return  # as in _bind_one
        if fenced.node:
            self._answered(call, i, row, fenced)
            return
        call.refuse(i, why.reason)
        log.warning("A binding is refused", pod=row.name, why=why.message)

    async def fence_waiting(self) -> None:
        """Once, before the first binding by a ledger that is not the last one's: nobody knows any
        more what that one's leader sent, so no pod may be bound by it from now on. Raises
        ClusterTimeout where that is not certain yet."""
        async with self._fencing:
            if not self._fenced and self.leases.held:
                await self._fence_each_waiting()
                self._fenced = True

    async def _fence_each_waiting(self) -> None:
        before = self.leases.before
        if not before:
            return
        waiting = [row for row in self._mirror.pods if row.ours and not (row.node or row.ended)]
        log.warning("Another ledger had this cluster", ledger=before, waiting=len(waiting))
        why = f"what ledger {before} decided about it is void"
        left: list[str] = []

        async def one(i: int) -> None:
            if await self._fence(waiting[i], why) is None:
                left.append(waiting[i].name)

        await self.each(deque(range(len(waiting))), one)
        if left:
            raise ClusterTimeout(f"{len(left)} pods may be bound by ledger {before} yet")
        self.leases.settle(before)

    async def _fence(self, row: PodRow, why: str, node: str = "") -> PodVerdict | None:
        """Move the pod's version, which every binding on its way names; by what kube-scheduler says
        of a pod whose binding failed. Of a pod that is bound or gone nothing is written. Returns
        the pod's state, ``node`` being where it should be; None where that is not certain: the
        binder asks again."""
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}/status"
        version = row.version
        for _ in range(TRIES):
            # The number makes each message another one: a write of the same moves nothing.
            self.counts.fences += 1
            message = f"{why} ({self.leadership.statement}, write {self.counts.fences})"
            failed = {"type": "PodScheduled", "status": "False", "reason": BIND_FAILED}
            body = {
                "metadata": {"uid": row.uid, "resourceVersion": version},
                "status": {"conditions": [failed | {"message": message}]},
            }
            answer = await self._write("PATCH", path, msgspec.json.encode(body), STRATEGIC_PATCH)
            match None if answer is None else answer.code:
                case HTTPStatus.OK:
                    return PodVerdict(None)
                case HTTPStatus.NOT_FOUND:
                    return PodVerdict(BindAnswer.GONE)
                case HTTPStatus.CONFLICT:
                    looked = await self.look(row, node)
                case _:
                    return None
            if looked is None or looked.answer is not None:
                return looked
            version = looked.version
        return None

    def _answered(self, call: BindCall, i: int, row: PodRow, looked: PodVerdict) -> None:
        assert looked.answer is not None
        call.answer(i, looked.answer, looked.node)
        if looked.answer in (BindAnswer.OK, BindAnswer.ALREADY):
            self._mirror.bound(row, looked.node)

    async def look(self, row: PodRow, node: str) -> PodVerdict | None:
        """Read the pod, where an answer told too little or did not come; None where that cannot be
        read either."""
        self.counts.looks += 1
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}"
        try:
            pod = pod_of(await self._reader.get(path))
        except KindMissing:
            pod = None
        except ApiError as error:
            log.warning("Cannot look at a pod", pod=row.name, why=str(error))
            return None
        return of_pod(pod, uid=row.uid, node=node)

    def _binding(self, row: PodRow, node: str, version: str, entry: str, devices: Things) -> bytes:
        """Uid and version are enforced by the server; annotations and labels are merged into the
        pod in the same write, so that the pod itself says which statement bound it, and which
        devices it has."""
        statement = {STATEMENT: f"{self.leadership.statement}/{entry}"}
        marks = self.device_marks(node, devices)
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "name": row.name,
                    "namespace": row.namespace,
                    "uid": row.uid,
                    "resourceVersion": version,
                    "annotations": {**marks, **received(devices), **statement},
                    "labels": labels_of(shared_groups(devices, node)),
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
        )

    # --- evictions ------------------------------------------------------------------------------

    async def evict(self, rows: Sequence[PodRow]) -> list[PodRow]:
        """Evict by the eviction subresource, so that disruption budgets count. Returns the pods to
        ask for again. Raises ClusterTimeout where no write is possible."""
        pending: list[PodRow] = []

        async def one(i: int) -> None:
            if not await self._evict_one(rows[i]):
                pending.append(rows[i])

        await self.each(deque(i for i, row in enumerate(rows) if not row.leaving), one)
        return pending

    async def _evict_one(self, row: PodRow) -> bool:
        """False where the server refuses, or did not answer."""
        self.counts.evictions += 1
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": row.name, "namespace": row.namespace},
            "deleteOptions": {"preconditions": {"uid": row.uid}},
        }
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}/eviction"
        answer = await self._write("POST", path, msgspec.json.encode(body))
        if answer is None:
            return False
        # 404 and 409: that pod is gone, or another has its name.
        over = (HTTPStatus.CREATED, HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
        if answer.code in over:
            return True
        # Its 429 is not load: a budget of the pod's does not allow it now.
        self.counts.budget_refusals += answer.code == HTTPStatus.TOO_MANY_REQUESTS
        why = status_of(answer.body, answer.code).whole_message
        if self._mirror.leaving.refused(row, why, self._mirror.now):
            log.warning("An eviction is refused", pod=row.name, why=why)
        return False

    # --- what objects are told --------------------------------------------------------------------

    async def report(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """Write a condition, a status, an event or a claim; None where there is no answer, or the
        cluster's lease is not ours."""
        return await self._write(method, path, body, JSON if method == "POST" else form)

    async def claim(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """Ask about the Lease of the cluster, or write it; None where there is no answer."""
        return await self._send(method, path, body, form, seconds=self._leadership_seconds())

    async def read(self, path: str) -> dict[str, Any] | None:
        """An object as it is now; None where it does not exist. Raises ApiError."""
        try:
            body: dict[str, Any] = msgspec.json.decode(await self._reader.get(path))
        except KindMissing:
            return None
        return body

    async def resources(self, api_version: str) -> frozenset[str]:
        """The names of resources and sub resources of a version. Raises ApiError."""
        return resources_of(await self._reader.get(f"/apis/{api_version}"))

    # --- one write ------------------------------------------------------------------------------

    async def each(self, left: deque[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Do the work for each number, as many at once as the server takes."""
        if not left:
            return
        if self._seconds() < _LEAST_SECONDS:
            raise ClusterTimeout(self.leases.why or "the lease runs out")

        async def worker(number: int) -> None:
            while left and number < self.limit.allowed:
                await work(left.popleft())

        while left:  # again where workers ended because the limit shrank
            count = min(len(left), self.limit.allowed)
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(worker(number))

    def _seconds(self) -> float:
        """How long a write may take that begins now: within our leadership, and the cluster's
        lease."""
        return min(self._leadership_seconds(), self.leases.remaining() * _SHARE)

    def _leadership_seconds(self) -> float:
        return min(LONGEST_SECONDS, self.leadership.remaining() * _SHARE)

    async def _write(
        self, method: str, path: str, body: bytes, form: str = JSON
    ) -> HttpAnswer | None:
        """One write within both leases; None where there is no answer."""
        if (pause := self.limit.paused_until - self._clock()) > 0:
            await asyncio.sleep(pause)
        return await self._send(method, path, body, form, seconds=self._seconds())

    async def _send(
        self, method: str, path: str, body: bytes, form: str, *, seconds: float
    ) -> HttpAnswer | None:
        if seconds < _LEAST_SECONDS:
            return None
        try:
            path = f"{path}?timeout={seconds * 1000:.0f}ms"
            answer = await self._pool.send(method, path, body, seconds=seconds, form=form)
        except (NoAnswer, NotSent) as error:
            self.counts.without_answer += 1
            self.limit.overloaded(self._clock())
            log.warning("No answer to a write", why=str(error))
            return None
        # An eviction that a budget forbids has the code of load, too.
        if answer.code in _OVERLOAD and "/eviction?" not in path:
            self.limit.overloaded(self._clock(), retry_after=answer.retry_after)
        else:
            self.limit.served()
        return answer
