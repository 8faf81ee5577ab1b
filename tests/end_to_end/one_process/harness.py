"""A whole service in one event loop: real ledger, real HTTP, kubelets and workers in process.

What it leaves out is Ray and the other processes (tests/end_to_end/real_processes and
tests/laboratory/chaos have those), so that a test of the service starts in a tenth of
a second and can look inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson

from coordinator.cluster.events import ReportedUsage
from coordinator.cluster.protocol import (
    BindAnswers,
    BindRequests,
    Foreign,
    Listed,
    Reports,
    StopAnswers,
)
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.dispatch.worker_client import WorkerLost
from coordinator.service.metrics.loop_time import LoopTime
from coordinator.service.observed.observed import ObservedCluster
from coordinator.service.service import Service
from coordinator.supervisor.readiness import quiet_port
from laboratory.cli.stack import Sender
from laboratory.workloads.bulk_client import BulkClient
from shard_worker.inquiry.findings import FINDINGS, InquiryFindings
from shard_worker.inquiry.inquiry import INQUIRY, Inquiry
from shard_worker.worker.debugging import DebugRequest, DebugVerb, answer_of_process
from shard_worker.worker.server import ShardServer
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.ledger.errors import LedgerError
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import TaskState, Turn
from shared.settings.settings import Settings, load_settings

PATIENCE = 60.0
"""Seconds that what has to happen may take: the machine may stand still for some of them. What must
be quick is held to a time of its own."""


class DirectShards:
    """Workers in the service's own loop, one call at a time each, as an actor serves them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open: set[RedisLedger] = set()
        """Connections to be closed: the end of a service may cancel whoever was about to."""
        self._servers: dict[int, tuple[ShardServer, RedisLedger, asyncio.Lock]] = {}
        self._left: dict[int, ShardServer] = {}
        """The last server of each shard that was given up alive."""
        self.deaf: set[int] = set()
        """Shards whose worker is 'dead': calls to it fail until it is started anew."""
        self.mute = False
        """Whether inquiries get no answer."""

    async def keep_joined(self) -> None:
        """They run here."""

    async def inherit(self, shards: int) -> None:
        """Nobody leaves one here."""

    async def check(self) -> None:
        """Do nothing: this process starts the workers itself."""

    async def start(self, config: WorkerConfig) -> int:
        ledger = RedisLedger(self._url)
        self._open.add(ledger)
        before = self._left.pop(config.shard, None) if config.keeps_view else None
        server = ShardServer(config, ledger, before=before)
        try:
            await server.load()
        except LedgerError as error:
            await self._disconnect(ledger)
            raise WorkerLost(f"shard {config.shard}: {error}") from error
        self._servers[config.shard] = (server, ledger, asyncio.Lock())
        self.deaf.discard(config.shard)
        return os.getpid()

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        if shard not in self._servers:
            raise WorkerLost(f"shard {shard} has no worker")
        server, _, lock = serving = self._servers[shard]
        async with lock:
            if self._servers.get(shard) is not serving:
                raise WorkerLost(f"shard {shard} was given up")
            if shard in self.deaf:
                raise WorkerLost(f"shard {shard} is deaf")
            try:
                outcomes = await server.serve(turns)
            except LedgerError as error:  # its call failed, as Ray would tell it
                raise WorkerLost(f"shard {shard}: {error}") from error
            if shard in self.deaf:
                raise WorkerLost(f"shard {shard} died after its work")
            figures = server.take_figures() if turns or server.drifted else None
        return PlaceReply(outcomes, server.log_id, figures=figures)

    async def inquire(self, shard: int, inquiry: Inquiry) -> InquiryFindings:
        if shard not in self._servers or shard in self.deaf or self.mute:
            raise WorkerLost(f"shard {shard} has no worker that answers")
        server, _, lock = self._servers[shard]
        async with lock:  # through the wire's form, as between processes
            findings = await server.inquire(INQUIRY.decode(INQUIRY.encode(inquiry)))
        return FINDINGS.decode(FINDINGS.encode(findings))

    async def debug(self, shard: int, request: DebugRequest) -> bytes:
        if shard not in self._servers:
            raise WorkerLost(f"shard {shard} has no worker")
        server, _, lock = self._servers[shard]
        if request.verb is not DebugVerb.DUMP:
            return orjson.dumps(await asyncio.to_thread(answer_of_process, request))
        async with lock:
            return orjson.dumps(server.dump())

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        if shard in self._servers:
            server, ledger, lock = self._servers.pop(shard)
            if alive:
                self._left[shard] = server
            async with lock:  # else the call under way would open a connection that nobody closes
                await self._disconnect(ledger)

    async def _disconnect(self, ledger: RedisLedger) -> None:
        await ledger.close()
        self._open.discard(ledger)

    async def close(self) -> None:
        for shard in list(self._servers):
            await self.give_up(shard)
        for ledger in list(self._open):
            await self._disconnect(ledger)


class AdvancedCluster(LocalCluster):
    """A cluster whose clock a test moves on, so that a pod leaves when the test has seen enough."""

    ahead = 0.0
    """Seconds by which its clock is ahead of the machine's."""

    def advance(self, now: float) -> None:
        super().advance(now + self.ahead)


class DirectCluster:
    """Simulated kubelets driven by the loop's clock."""

    def __init__(self, kubelets: Kubelets) -> None:
        self.kubelets = kubelets
        self.told: list[tuple[int, int]] = []
        """Runs of jobs whose users were told that they are stored."""
        self.figures: list[ReportedUsage] = []
        """Figures of nodes from a metrics source."""

    async def bind(self, requests: BindRequests) -> BindAnswers:
        return self.kubelets.bind(requests, time.time())

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        return StopAnswers(self.kubelets.delete(tasks, time.time(), uids))

    async def reports(self, *, after: int, wait: float) -> Reports:
        deadline = time.monotonic() + wait
        while True:
            self.kubelets.advance(time.time())
            reports = self.kubelets.reports(after)
            if reports.kinds or time.monotonic() >= deadline:
                return reports
            await asyncio.sleep(0.005)

    async def listing(self, token: str) -> Listed:
        return self.kubelets.listing(token)

    async def look(self, tasks: list[str]) -> Listed:
        return self.kubelets.look(tasks)

    async def foreign(self) -> Foreign:
        return self.kubelets.foreign()

    async def history_position(self) -> str:
        """As of a history that follows slowly: the log is not cut, so that a test finds all of it,
        however long it took."""
        return "0"

    async def acknowledged(self, jobs: list[tuple[int, int]]) -> None:
        self.told += jobs

    async def measured(self, measured: ReportedUsage) -> None:
        self.figures.append(measured)

    async def close(self) -> None:
        pass


class Running:
    cluster: DirectCluster

    def __init__(
        self, service: Service, url: str, shards: DirectShards, task: asyncio.Task[None]
    ) -> None:
        self._task = self.ended = task
        self.service = service
        self.url = url
        self.shards = shards

    async def until(self, done: Callable[[dict[str, Any]], bool], within: float = PATIENCE) -> Any:
        """Poll the status until ``done`` says so; the status it was satisfied by."""
        deadline = time.monotonic() + within
        while not done(status := self.service.status()):
            assert time.monotonic() < deadline, status
            assert not self._task.done(), self._task.exception()
            await asyncio.sleep(0.02)
        return status


def running_pods(service: Running) -> set[str]:
    """Names of the pods that run."""
    return {
        state.job.pod_name(tix)
        for state in service.service.core.order.jobs.values()
        for tix, now in enumerate(state.states)
        if now == TaskState.RUNNING
    }


async def submit(service: Running, *items: dict[str, Any]) -> None:
    """Send objects as a client does; none is refused."""
    async with BulkClient(service.url) as api:
        await Sender(api).send(items)


def free_port() -> int:
    """A port that the kernel gives to no connection before the test binds it."""
    return quiet_port("127.0.0.1")


@contextlib.asynccontextmanager
async def running(
    redis_url: str,
    path: Path,
    *,
    kubelets: Kubelets | None = None,
    workers: DirectShards | None = None,
    loop_time: LoopTime | None = None,
    seen: str = "0",
    observe: Callable[[Settings], ObservedCluster] | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A service that is ready; it is stopped in an orderly way at the end. ``seen``: a log id that
    the ledger must have had. ``observe`` opens a cluster that is watched, in place of kubelets."""
    port = free_port()
    service_settings = load_settings(
        run_dir=path, redis_url=redis_url, listen_port=port, **{"shards": 2, "seed": 1} | settings
    )
    shards = workers or DirectShards(redis_url)
    cluster = DirectCluster(
        kubelets or LocalCluster(speedup=service_settings.speedup, grace=service_settings.grace)
    )
    observed = None if observe is None else observe(service_settings)
    ledger = RedisLedger(redis_url, newest=seen)
    service = Service(
        service_settings,
        ledger=ledger,
        cluster=cluster if observed is None else observed.cluster,
        shards=shards,
        loop_time=loop_time,
        observed=observed,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        running = Running(service, f"http://127.0.0.1:{port}", shards, task)
        running.cluster = cluster
        await running.until(lambda status: all(shard["up"] for shard in status["shards"]))
        yield running
    finally:
        stop.set()
        try:
            await asyncio.wait_for(task, PATIENCE)
        finally:
            try:
                await shards.close()
                if observed is not None:
                    await observed.cluster.close()
            finally:
                await ledger.close()
