"""One run of faults on real processes: start, load, blows, quiet, and what the history says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from coordinator.chaos.evidence import Evidence, read_evidence
from coordinator.chaos.load import Load, Operation, Submit, queues
from coordinator.chaos.plan import RAY, REDIS, STANDBY, Blow
from coordinator.chaos.report import ChaosReport, RunFailed
from coordinator.chaos.strike import Status, Striker, Struck, role_of
from coordinator.chaos.timeline import Timeline
from coordinator.checker import check
from coordinator.client import ApiClient, ApiError, describe
from coordinator.cluster.client import SocketCluster
from coordinator.cluster.protocol import ClusterTimeout
from coordinator.keeper import Back, Keeper, Told
from coordinator.supervisor import CLUSTER, Supervisor
from coordinator.workloads import Item, Shape, lists, node_items
from shared.ledger.errors import LedgerError
from shared.ledger.redis_ledger import RedisLedger
from shared.settings import Settings

STEP_SECONDS = 0.2
"""Between two steps of the load."""
ATTEMPT_SECONDS = 4.0
"""A coordinator that is paused takes connections and does not answer: then another is asked."""
PATIENCE_SECONDS = 60.0
"""After so long without an answer of anybody the run has failed."""
READY_SECONDS = 60.0
QUIET_SECONDS = 90.0
"""How long everything may take to finish once no more faults strike."""
FOLLOW_SECONDS = 30.0
"""How long the history may take to hold all of the log after that."""
_POLL = 0.1

_PROCESSES = (STANDBY, RAY, REDIS, CLUSTER)
"""Those whose return is also told for the process alone, beside that of its work."""


@dataclass(slots=True)
class Chaos:
    """A run and what is known of it. Call :meth:`run` once."""

    settings: Settings
    shape: Shape
    seed: int
    duration: float
    """Seconds of load."""
    blows: list[Blow]
    timeline: Timeline
    report: ChaosReport = field(default_factory=lambda: ChaosReport(seeds=1))
    created: set[str] = field(default_factory=set)
    """Keys of jobs whose creation was acknowledged."""
    deleted: set[str] = field(default_factory=set)
    struck: list[Struck] = field(default_factory=list)
    status: Status = field(default_factory=dict)
    """The last that the leader told."""

    async def run(self) -> ChaosReport:
        """Raises RunFailed; ApiError for load that is refused; ChildDied (in a group) for a process
        that does not stay alive."""
        parts = Supervisor(self.settings, on_phase=self._phase)
        async with parts:
            await self._with(parts)
            self.timeline.note("stopping all processes")
        if parts.exit_codes.get(CLUSTER) != 0:
            raise RunFailed("the cluster process could not complete the history; see its log")
        await asyncio.to_thread(self._judge)
        return self.report

    async def _with(self, parts: Supervisor) -> None:
        striker = Striker(parts, self.timeline, status=lambda: self.status)
        client = ApiClient(*parts.urls, timeout=ATTEMPT_SECONDS, patience=PATIENCE_SECONDS)
        async with client as api, _beside(Keeper(parts, tell=self._kept).run(), self._watch(api)):
            load = await self._prepare(api)
            self.timeline.begin()
            self.timeline.note("load and faults begin")
            try:
                await self._storm(api, load, striker)
            finally:
                striker.release()
                self.struck = striker.struck
            self.timeline.note("no more faults")
            await self._do(api, load.ending())
            await self._finished()
            await _followed(parts.settings)

    def _phase(self, text: str) -> None:
        self.timeline.note(text)

    def _kept(self, told: Told) -> None:
        self.timeline.note(str(told))
        if isinstance(told, Back) and told.role in _PROCESSES:
            self.report.recovered(f"{told.role} process", told.seconds)

    async def _watch(self, api: ApiClient) -> None:
        while True:
            self.status = await api.status()
            await asyncio.sleep(_POLL)

    # --- load and faults ----------------------------------------------------------------------

    async def _prepare(self, api: ApiClient) -> Load:
        """The cluster and its queues; every shard has its nodes when this returns."""
        nodes = list(node_items(self.shape))
        for items in (nodes, queues(self.shape)):
            await self._submit(api, items)
        await self._until(self._shared_out, READY_SECONDS, "the nodes are not shared out")
        return Load(self.seed, self.shape, shards=self.settings.shards, nodes=nodes)

    def _shared_out(self) -> bool:
        shards = self.status.get("shards", [])
        owned = sum(int(shard["nodes"]) for shard in shards)
        return owned == self.shape.nodes and all(shard["up"] for shard in shards)

    async def _storm(self, api: ApiClient, load: Load, striker: Striker) -> None:
        """Blows at their times, whether or not earlier ones are overcome; load beside them."""
        async with asyncio.TaskGroup() as group:
            for blow in self.blows:
                group.create_task(_at(blow, striker))
            group.create_task(self._burden(api, load))

    async def _burden(self, api: ApiClient, load: Load) -> None:
        started = time.monotonic()
        for operations in load.steps():
            left = started + self.duration - time.monotonic()
            if left <= 0:
                return
            await self._do(api, operations)
            await asyncio.sleep(min(STEP_SECONDS, left))

    async def _do(self, api: ApiClient, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Submit):
                await self._submit(api, operation.items)
            elif await api.delete(operation.path):
                self.deleted.add(f"default/{operation.job}")

    async def _submit(self, api: ApiClient, items: list[Item]) -> None:
        for body in lists(items):
            reply = await api.submit(orjson.dumps(body))
            if reply.refused:
                raise ApiError(f"the load is refused: {describe(reply.refused[0])}")
        self.created.update(
            f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            for item in items
            if item["kind"] == "Job"
        )

    # --- quiet --------------------------------------------------------------------------------

    async def _finished(self) -> None:
        """Wait for the end of everything. Where it does not come the history will tell why."""
        try:
            await self._until(self._settled, QUIET_SECONDS, "not everything finishes")
            self.timeline.note("everything is finished")
        except RunFailed as error:
            self.timeline.note(str(error))
            self.report.violation(promise=8, message=str(error), seed=self.seed)

    def _settled(self) -> bool:
        jobs, tasks = self.status.get("jobs", {}), self.status.get("tasks", {})
        finished = jobs.get("finished", 0) == jobs.get("submitted", -1)
        return finished and not tasks.get("running", 0) and not self.status.get("open_turns", 0)

    async def _until(self, done: Any, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                told = {key: self.status.get(key) for key in ("jobs", "tasks", "pending_reasons")}
                raise RunFailed(f"{what} within {seconds:g} s: {told}")
            await asyncio.sleep(_POLL)

    # --- judged -------------------------------------------------------------------------------

    def _judge(self) -> None:
        """The checker's word, and what only this run can know: whom users were told."""
        result = check(self.settings.history, closed=True)
        self.report.tasks_bound = result.summary.tasks_bound
        told = {violation.promise for violation in result.violations}
        for violation in result.violations:
            self.report.violation(promise=violation.promise, message=str(violation), seed=self.seed)
        for promise, count in result.broken.items():
            rest = count - sum(v.promise == promise for v in result.violations)
            if rest > 0 and promise in told:
                self.report.violated += rest
        evidence = read_evidence(self.settings.history)
        for message in evidence.void:
            self.report.violation(promise=4, message=message, seed=self.seed)
        for message in evidence.lost(sorted(self.created), sorted(self.deleted)):
            self.report.violation(promise=6, message=message, seed=self.seed)
        self._tell(evidence)

    def _tell(self, evidence: Evidence) -> None:
        for struck in self.struck:
            self.report.fault(struck.blow.name)
            seconds = evidence.recovery(struck)
            if seconds is not None:
                self.report.recovered(role_of(struck), seconds)
                text = f"{struck.what} works again, {seconds:.2f} s after the {struck.blow.kind}"
                self.timeline.insert(struck.at + seconds, text)


async def _at(blow: Blow, striker: Striker) -> None:
    await asyncio.sleep(blow.at)
    await striker.strike(blow)


async def _followed(settings: Settings) -> None:
    """Wait until the history holds what the log holds now. Raises RunFailed."""
    ledger = RedisLedger(settings.access())
    cluster = SocketCluster(settings.cluster_socket or "")
    try:
        async with asyncio.timeout(FOLLOW_SECONDS):
            tail = _number(await ledger.log_tail())
            while _number(await cluster.history_position()) < tail:  # noqa: ASYNC110 - it is remote
                await asyncio.sleep(_POLL)
    except (TimeoutError, LedgerError, ClusterTimeout) as error:
        raise RunFailed(f"the history does not follow the ledger's log: {error!r}") from None
    finally:
        await cluster.close()
        await ledger.close()


def _number(log_id: str) -> tuple[int, int]:
    head, _, tail = log_id.partition("-")
    return int(head), int(tail or 0)


@contextlib.asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do this until the body is done; where it fails, so does the body."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        yield
        for task in tasks:
            task.cancel()
