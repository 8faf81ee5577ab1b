"""The coordinator process: the state machine of :mod:`coordinator.core.coordinator` with I/O around
it.

It begins as a standby (:mod:`coordinator.service.leadership.standby`) and leads once the leadership
is its own. One task group holds everything; if one part fails, all stop and the supervisor sees
it::

    HTTP -> intake -----> ledger.store ---+
    worker replies -----------------------+--> core --> step --> executor: calls to workers, ...
    bind stream -> cluster -> recorder ---+
    cluster reports -------> recorder ----+

Run as ``python -m coordinator.service``; configured by ``QUADRANT_*`` alone. It holds nothing that
the ledger does not: killed at any point, its successor goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog

from coordinator.api.auth.authorization import guarded
from coordinator.api.auth.middleware import middleware
from coordinator.api.change.bodies import Bodies
from coordinator.api.http.tracing import traces
from coordinator.api.listener.listener import listener_options
from coordinator.api.own_access import ENTRIES as OWN_ACCESS
from coordinator.api.own_access import own_access_routes
from coordinator.api.parser.pool import Parsers
from coordinator.api.read.streaming import Streams
from coordinator.api.server import ServedParts, Serving, StandbyServer
from coordinator.api.subresources import VIRTUAL
from coordinator.api.web.frames import Frames
from coordinator.api.web.picture import PagePicture, PictureSources
from coordinator.bind.status_writer import Recorder
from coordinator.cluster.history.acknowledgements import Acknowledgements
from coordinator.cluster.protocol import ClusterDriver
from coordinator.controllers.job_loop import JobLoop
from coordinator.controllers.task_restarts import TaskRestarts
from coordinator.core.configured import configured_core
from coordinator.core.policy_record import policy_op
from coordinator.core.served import notices_of
from coordinator.core.status import resources_of
from coordinator.core.status import status as counted
from coordinator.dispatch.worker_client import Shards, worker_config
from coordinator.explain.queues.pair_hours import PairHours
from coordinator.intake.documents.document import Document
from coordinator.intake.pending_limit import PendingBound
from coordinator.intake.writer import IntakeWriter
from coordinator.ledger_audit.recount import recount
from coordinator.ledger_refusals import StoreRefused
from coordinator.objects.store import Objects
from coordinator.service.audit import ledger_audit
from coordinator.service.backlog import Backlog
from coordinator.service.bind_loop import Binding
from coordinator.service.declared_devices import declare_devices
from coordinator.service.executor import SWEEP_SECONDS, Executor
from coordinator.service.leadership.lease import Leadership, LedCluster
from coordinator.service.leadership.lease_keeper import KeeperThread
from coordinator.service.leadership.standby import Standby, Takeover
from coordinator.service.log_trim import trim_forever
from coordinator.service.metrics.exporter import CoordinatorMetrics
from coordinator.service.metrics.health_checks import leader_checks
from coordinator.service.metrics.loop_time import LoopTime
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.sliced_counts import WaitingCounts
from coordinator.service.metrics.usage_sources import follow_usage
from coordinator.service.observed.gate import gate_of
from coordinator.service.observed.observed import ObservedCluster, checks_of, prebind_of, walls
from coordinator.service.pod_evictor import EVICTOR, PodEvictor
from coordinator.service.policy_watch import PolicyFollower
from coordinator.service.process import address_of
from coordinator.service.reconcile_loop import Reconciling
from coordinator.service.routes import service_routes
from coordinator.service.stepping import step_forever
from coordinator.service.worker_lifecycle import Workers, WorkerTimes
from shared.ledger.keys import log_position
from shared.ledger.protocol import Ledger
from shared.ledger.redis.renewal import RedisRenewal
from shared.ledger.retry import AcceptedRun, insist
from shared.policy.model import Policy
from shared.settings.settings import Settings

log = structlog.get_logger(__name__)

INTAKE = "intake"
"""Writer name for batches of objects: with its own sequence it does not wait for status batches."""

ROUNDTRIP_EVERY = 1.0
"""Seconds between two measured reads of the ledger."""

SETTLE_SECONDS = 5.0
"""How long calls to workers may take to come back once we are asked to stop."""


class Service:
    def __init__(
        self,
        settings: Settings,
        *,
        ledger: Ledger,
        cluster: ClusterDriver,
        shards: Shards,
        loop_time: LoopTime | None = None,
        observed: ObservedCluster | None = None,
    ) -> None:
        """``loop_time``: counts the callbacks of the event loop that runs this. ``observed``: where
        the objects come from; None: from whoever submits them."""
        self._settings = settings
        self._observed = observed
        self._ledger_id = ""
        self._shards = shards
        self._ledger = ledger
        self._cluster = cluster
        self.probes = Probes(loop_time)
        self._policies = PolicyFollower(settings, contain=self.probes.plugin_errors.raised)
        self._gate = gate_of(settings, observed, self.probes)
        self._listener = listener_options(settings)
        self.core = configured_core(settings, self._policies.session())
        policy = self.core.order.session.policy
        self.intake = self._policies.open_intake(policy, observed=observed is not None)
        self.jobs = JobLoop(self.core, self.intake)
        self.counts = WaitingCounts(self.core, lambda: self.intake.registry.slots.names)
        self.objects: Objects
        """Read model of the API; set as soon as we lead."""
        self._guard, self._kicked = asyncio.Lock(), asyncio.Event()
        self._settled = asyncio.Event()
        """Set when we were asked to stop and no worker has an open call."""
        self.leadership: Leadership | None = None
        self._run = AcceptedRun(self._bless)
        """None while another leads."""
        self.standby = Standby(
            ledger,
            self.intake,
            self.core,
            lease=settings.coordinator_lease_seconds,
            holder=address_of(settings.listen_host, settings.listen_port),
            recount=partial(recount, ledger),
        )
        self.workers = Workers(
            partial(worker_config, settings),
            ledger=ledger,
            shards=shards,
            core=self.core,
            policies=self._policies,
            probes=self.probes,
            kick=self._kicked.set,
            times=WorkerTimes(lease=settings.shard_lease_seconds),
        )
        self._serving: Serving | None = None
        self._writer: IntakeWriter | None = None
        self._recorder: Recorder | None = None
        self._acknowledged_jobs = Acknowledgements(cluster)

    # --- start --------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Stand by, then lead, until ``stop``. Raises ExceptionGroup where a part failed; one with
        Deposed where another coordinator leads."""
        settings = self._settings
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until(stop))
                group.create_task(self._gate.follow_forever())
                group.create_task(self._shards.keep_joined())  # beside reading the ledger
                self._ledger_id = await insist(self._ledger.open, call_name="open")
                door = StandbyServer(lambda: self.standby.leader, self._listener)
                async with door.open(settings.listen_host, settings.listen_port, group):
                    lead = await self._take_leadership(group)
                await self._lead(group, lead)
        except* _Stopped:
            log.info("Stopped")
        if self.leadership is not None:  # in an orderly end: who follows need not wait
            for shard in range(settings.shards):
                await self._shards.give_up(shard)
            if (observed := self._observed) is not None:
                await observed.give_up()
            await self.leadership.release()

    async def _take_leadership(self, group: asyncio.TaskGroup) -> Takeover:
        """Claim every writer's epoch, read everything the ledger holds, bless its server's run.

        In this order: what an earlier coordinator or its workers wrote after our last read would be
        acknowledged and unknown here.
        """
        self.leadership = leadership = await self.standby.wait()
        lease = leadership.lease.seconds  # a later answer is of no use
        renewal = RedisRenewal(self._settings.access(), timeout=lease)
        group.create_task(leadership.keep_forever(partial(KeeperThread, renewal)))
        epoch = leadership.epoch
        self.workers.leads(epoch, self._run.accept)
        claim = partial(self._ledger.claim, leader=epoch)
        intake_epoch = await insist(partial(claim, INTAKE), call_name="claim")
        evictor_epoch = await insist(partial(claim, EVICTOR), call_name="claim")
        for shard in range(self._settings.shards):
            await self.workers.claim(shard)
        await self.standby.take_up(epoch)
        await self.standby.catch_up()
        # Known only from the partition that was just read. What their workers committed before the
        # claim is read behind it.
        if strangers := self.core.partition.handover.strangers:
            for shard in strangers:
                await self.workers.claim(shard)
            await self.standby.catch_up()
        await self.standby.finish()
        for _ in range(2):  # a change counts once two looks found the same
            if (session := await asyncio.to_thread(self._policies.look)) is not None:
                self.core.order.adopt(session)
        self.objects = Objects(
            self.core, lambda: self.intake.registry, epoch=epoch.counter, clock=time.time
        )
        self.objects.restore(self.intake.documents.values())
        self.core.observe(self.objects)
        self.intake.node_of = self.objects.node_of
        self.jobs.restored(self.intake.documents.values())
        await insist(self._run.accept, call_name="bless")
        log.info("Became the leader", epoch=str(epoch), jobs=len(self.core.order.jobs))
        return Takeover(leadership, intake_epoch, evictor_epoch)

    async def _lead(self, group: asyncio.TaskGroup, lead: Takeover) -> None:
        """Start everything that a leader runs."""
        self._recorder = recorder = Recorder(
            self._ledger,
            epoch=lead.leadership.epoch,
            run=self._run,
            renew=lead.leadership.renew,
            current=self.core.victims.current,
            applied=self._applied,
            guard=self._guard,
            refusals=self.probes.refusals,
        )
        self._writer = writer = IntakeWriter(
            self.intake,
            self._ledger,
            writer=INTAKE,
            epoch=lead.intake,
            run=self._run,
            stored=self._stored,
            published=self._kicked.set,
            notices=partial(notices_of, self.core),
            bound=PendingBound(
                Backlog(self.core.order),
                lambda: self.intake.registry,
                limit=self._settings.max_pending_jobs,
            ),
            refusals=self.probes.refusals,
        )
        cluster = LedCluster(self._cluster, lead.leadership)
        binding = Binding(
            self._ledger,
            cluster,
            recorder,
            group=group,
            core=self.core,
            surely=lead.leadership.surely,
            prebind=prebind_of(self._observed, self.core, self.intake, writer),
            probes=self.probes,
        )
        executor = Executor(
            group,
            ledger=self._ledger,
            core=self.core,
            guard=self._guard,
            recorder=recorder,
            writer=writer,
            binding=binding,
            workers=self.workers,
            kick=self._kicked.set,
            moved=self._moved,
        )
        reconciling = Reconciling(
            self._ledger,
            cluster,
            core=self.core,
            intake=self.intake,
            recorder=recorder,
            writer=writer,
            binding=binding,
            guard=self._guard,
            every=self._settings.reconcile_seconds,
            kick=self._kicked.set,
        )
        if self._observed is None:  # pods that are watched are known by uid, and not by number
            await reconciling.begin()
        group.create_task(recorder.run())
        group.create_task(writer.run())
        with contextlib.suppress(StoreRefused):  # logged and counted; tried with the first list
            await writer.submit([])  # the default queue exists from the first start on
        await executor.repartition()  # before any worker goes by an old one
        await self._keep_policy(self.core.order.session.policy)
        names = self.intake.registry.slots.names
        await declare_devices(self._ledger, self.core.partition.known, names, writer.store)
        evictor = PodEvictor(
            self.core.order,
            self._ledger,
            epoch=lead.evictor,
            registry=lambda: self.intake.registry,
            run=self._run,
            kick=self._kicked.set,
            guard=self._guard,
            withdraw=binding.withdraw,
        )
        parsers = Parsers()
        group.create_task(parsers.run_forever())
        pair_hours = PairHours(self.core)
        group.create_task(pair_hours.follow_forever())
        group.create_task(self._serve_http(group, writer, evictor, parsers, pair_hours))
        group.create_task(binding.bind_forever())
        group.create_task(binding.report_forever())
        group.create_task(binding.free_forever())
        await follow_usage(group, self.core, self.probes, self._cluster)
        group.create_task(self.workers.start_all(group))
        group.create_task(
            step_forever(
                self.core,
                executor.execute,
                kicked=self._kicked,
                stopping=lambda: self._serving is not None and self._serving.stopping,
                settled=self._settled,
            )
        )
        group.create_task(executor.repartition_forever())
        group.create_task(self.workers.heartbeat_forever(group))
        audit = ledger_audit(
            self._ledger,
            core=self.core,
            recorder=recorder,
            every=self._settings.ledger_audit_seconds,
        )
        group.create_task(audit.run_forever())
        group.create_task(trim_forever(self._ledger, self._cluster, self.workers.read, audit.read))
        group.create_task(self.workers.follow_policy_forever(self._keep_policy))
        group.create_task(self._acknowledged_jobs.report_forever())
        group.create_task(executor.sweep_forever(self.objects.sweep, every=SWEEP_SECONDS))
        restarts = TaskRestarts(self.core.order, recorder, evictor)
        group.create_task(self.jobs.run(writer, restarts.begin_anew))
        for loop in (
            reconciling.run_forever(),
            reconciling.audit_forever(),
            self._time_ledger_forever(),
        ):
            group.create_task(loop)
        if (observed := self._observed) is not None:
            observed.lead(self._ledger_id, lead.leadership)
            follow = observed.feed_forever(
                self.core, self.intake, writer, reconciling.observe, self.objects
            )
            group.create_task(follow)

    async def _bless(self) -> str:
        """Accept the run of the server, which must have everything that we have read."""
        assert self.leadership is not None
        # What anybody here has read: a server whose log lacks that entry has come back with an old
        # copy (decision 0019).
        newest = max(self.standby.log_id, self.workers.newest, key=log_position)
        return await self._ledger.bless(self.leadership.epoch, after=newest)

    async def _time_ledger_forever(self) -> None:
        """Measure how long a small read takes."""
        while True:
            started = time.monotonic()
            await insist(self._ledger.run_id, call_name="run id")
            self.probes.ledger.observe(time.monotonic() - started)
            await asyncio.sleep(ROUNDTRIP_EVERY)

    async def _until(self, stop: asyncio.Event) -> None:
        """Stop in steps: no new work, wait for open calls, close the listener."""
        await stop.wait()
        if self._serving is None:
            raise _Stopped
        self._serving.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._settled.wait()
        self._serving.close()

    async def _serve_http(
        self,
        group: asyncio.TaskGroup,
        writer: IntakeWriter,
        pods: PodEvictor,
        parsers: Parsers,
        hours: PairHours,
    ) -> None:
        streams = Streams(self.objects)
        self._serving = Serving(
            ServedParts(
                core=self.core,
                submit=self.probes.counting(guarded(writer.submit, lambda: self.intake.registry)),
                status=self.status,
                policy_error=lambda: str(self._policies.status()["error"] or ""),
                refresh_status=self.counts.reasons.refresh,
                refresh_metrics=self.counts.waiting.refresh,
                started=lambda: self.workers.started,
                ledger=self._ledger.run_id,
                cluster=self._cluster.history_position,
                metrics=CoordinatorMetrics(
                    self.core,
                    self.probes,
                    lambda: self.intake.registry.slots.names,
                    self.counts,
                ).text,
                list_codes=self.probes.list_codes,
                objects=self.objects,
                streams=streams,
                parsers=parsers,
                routes=[
                    *(
                        own_access_routes(Bodies())
                        if self._observed is None
                        else self._observed.routes()
                    ),
                    *service_routes(
                        self.core,
                        shards=self._shards,
                        intake=self.intake,
                        objects=self.objects,
                        writer=writer,
                        evictor=pods,
                        parsers=parsers,
                        streams=streams,
                        history=self._settings.history,
                        pair_hours=hours,
                        frames=self._page(group),
                    ),
                ],
                virtual=VIRTUAL if self._observed is not None else (*VIRTUAL, *OWN_ACCESS),
                middlewares=[*traces(), middleware(self._gate), *walls(self._observed)],
                checks=leader_checks(self.core, self.probes, self.counts, self._sure)
                + self._gate.checks()
                + checks_of(self._observed),
                listener=self._listener,
            )
        )
        await self._serving.run(self._settings.listen_host, self._settings.listen_port)
        raise _Stopped

    # --- what happened ------------------------------------------------------------------------

    def _applied(self, items: list[Any], applied: list[list[int]]) -> None:
        self.core.recorded(items, applied)
        self.jobs.recorded(items)
        self._kicked.set()

    def _stored(self, changes: Any) -> None:
        # The read model first: the core may drop the last state of what is deleted.
        deleted, purged = changes.documents_gone, changes.jobs_purged
        self.objects.publish(changes.documents, deleted, purged=purged)
        self.core.admitted(changes)
        self.jobs.published(changes)
        self._acknowledged_jobs.note(job.jid for job in changes.jobs)

    def _moved(self, pods: Sequence[Document]) -> None:
        if self._observed is not None:
            self._observed.moved(self.intake, pods)

    async def _keep_policy(self, policy: Policy) -> None:
        """Store a policy before anybody uses it, so that the history shows which policy evicted."""
        assert self._writer is not None
        await self._writer.store([policy_op(policy)])

    # --- tell ---------------------------------------------------------------------------------

    def _sure(self) -> bool:
        return self.leadership is not None and self.leadership.sure

    def _page(self, group: asyncio.TaskGroup) -> Frames:
        """The frames of the page, whose figures are those of the commands' answers."""

        async def refresh() -> None:
            await self.counts.reasons.refresh()
            await self.counts.waiting.refresh()

        sources = PictureSources(
            core=self.core,
            objects=self.objects,
            status=self.status,
            health=lambda: {} if self._serving is None else self._serving.health(),
            waiting=lambda: self.counts.waiting().jobs,
            refresh=refresh,
        )
        frames = Frames(PagePicture(sources))
        group.create_task(frames.run_forever())
        return frames

    def status(self) -> dict[str, Any]:
        core, busy = self.core, self.workers.busy
        return counted(core.order, core.dispatcher, core.tally, reasons=self.counts.reasons()) | {
            "resources": resources_of(core.order, self.intake.registry.slots.names),
            "policy": self._policies.status(),
            "worker_busy_seconds": {str(shard): round(spent, 3) for shard, spent in busy.items()},
        }


class _Stopped(Exception):
    """Ends the task group when the process is asked to stop."""
