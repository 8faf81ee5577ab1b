"""The coordinator process: the state machine of :mod:`coordinator.core` with I/O around it.

It begins as a standby (:mod:`coordinator.standby`) and leads once the seat is its own. One task
group holds everything; if one part fails, all stop and the supervisor sees it::

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
import platform
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from coordinator.admission.registry import Registry
from coordinator.binding import Binding
from coordinator.child import DEPOSED
from coordinator.cluster.client import SocketCluster
from coordinator.cluster.protocol import ClusterDriver
from coordinator.controller.loop import JobLoop
from coordinator.core import Coordinator
from coordinator.dispatch import Dispatcher
from coordinator.executing import Executor
from coordinator.gate.backlog import Backlog
from coordinator.gate.middleware import middleware as gate
from coordinator.gate.opening import open_gate, token_checks
from coordinator.gate.pending import PendingBound
from coordinator.gate.rights import guarded, may_write
from coordinator.gate.traces import traces
from coordinator.intake import Intake
from coordinator.intake_writer import IntakeWriter
from coordinator.kube.health import Check
from coordinator.kube.record import record_routes
from coordinator.kube.virtual import VIRTUAL, virtual_routes
from coordinator.kube.writing import Writing, write_routes
from coordinator.leader import Leadership, LedCluster
from coordinator.limits import set_limits
from coordinator.metrics import metrics_registry
from coordinator.objects.store import Objects
from coordinator.order import Order
from coordinator.policy_follower import PolicyFollower
from coordinator.probes import Probes
from coordinator.process import collect_what_is_new, stop_on_signals
from coordinator.recorder import Deposed, Recorder, insist
from coordinator.serving import Door, Serving, StandbyDoor
from coordinator.shards import RayLost, RayShards, Shards
from coordinator.standby import Standby
from coordinator.trim import trim_forever
from coordinator.usage_source import usage_of
from coordinator.waiting import pending_reasons
from coordinator.workers import Workers
from shared.checked import Malformed
from shared.errors import first_of
from shared.ledger.errors import LedgerAltered, LedgerIdentity, LedgerTrimmed
from shared.ledger.identity import expected, remembering
from shared.ledger.keys import log_position
from shared.ledger.protocol import Ledger
from shared.ledger.redis_ledger import RedisLedger
from shared.messages import Epoch
from shared.settings import Settings, SettingsError, load_settings
from shared.telemetry import configure_logging
from shared.tracing import configure_tracing

log = structlog.get_logger(__name__)

INTAKE = "intake"
"""Writer name of the objects' batches (their own sequence, so that intake never waits for
status)."""

SETTLE_SECONDS = 5.0
"""How long calls to workers may take to come back once we are asked to stop."""

_ANY = ("0.0.0.0", "::")
"""Addresses to listen on that tell nobody where we are."""

IDLE_STEP_SECONDS = 0.05
"""The longest the loop sleeps while jobs wait for a deadline (nominations, infeasible lines)."""


class Service:
    def __init__(
        self, settings: Settings, *, ledger: Ledger, cluster: ClusterDriver, shards: Shards
    ) -> None:
        self._settings = settings
        self._shards = shards
        self._ledger = ledger
        self._cluster = cluster
        self._policies = PolicyFollower(settings)
        self._tokens = open_gate(settings)
        self.core = Coordinator(
            Order(
                self._policies.session(),
                window=settings.window,
                walls=settings.mode == "hard",
            ),
            Dispatcher(
                settings.shards,
                calls_in_flight=settings.calls_in_flight,
                turns_per_call=settings.turns_per_call,
                tasks_per_call=settings.tasks_per_call,
            ),
            mode=settings.mode,
            moves_per_minute=settings.rebalance_moves_per_minute,
        )
        set_limits(self.core, settings)
        self.intake = Intake()
        self.jobs = JobLoop(self.core, self.intake)
        self.probes = Probes()
        self.objects: Objects
        """What the outside sees; there from the moment the seat is taken."""
        self._guard = asyncio.Lock()
        self._kicked = asyncio.Event()
        self._settled = asyncio.Event()
        """We were asked to stop, and no worker is at work for us any more."""
        self.leadership: Leadership | None = None
        """None while another leads."""
        self.standby = Standby(
            ledger,
            self.intake,
            self.core,
            lease=settings.coordinator_lease_seconds,
            holder=_address(settings),
        )
        self.workers = Workers(
            settings,
            ledger=ledger,
            shards=shards,
            core=self.core,
            policies=self._policies,
            probes=self.probes,
            kick=self._kicked.set,
        )
        self._serving: Serving | None = None
        self._writer: IntakeWriter | None = None
        self._recorder: Recorder | None = None

    # --- start --------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Stand by, then lead, until ``stop``. Raises ExceptionGroup where a part failed; one with
        Deposed where another coordinator leads."""
        settings = self._settings
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until(stop))
                if self._tokens is not None:
                    group.create_task(self._tokens.follow_forever())
                group.create_task(self._shards.join())  # beside reading the ledger: both take long
                await insist(self._ledger.open, what="open")
                door = StandbyDoor(lambda: self.standby.leader)
                async with door.open(settings.listen_host, settings.listen_port):
                    taken = await self._take_seat(group)
                await self._lead(group, taken)
        except* _Stopped:
            log.info("Stopped")
        if self.leadership is not None:  # in an orderly end: who follows need not wait
            for shard in range(settings.shards):
                await self._shards.give_up(shard)
            await self.leadership.release()

    async def _take_seat(self, group: asyncio.TaskGroup) -> Taken:
        """Claim every writer's epoch, know all that the ledger holds, accept its server's run.

        In this order: what an earlier coordinator or its workers write after the last look at the
        ledger would be acknowledged and unknown here."""
        self.leadership = leadership = await self.standby.wait()
        group.create_task(leadership.keep_forever())
        epoch = leadership.epoch
        self.workers.leads(epoch, self._bless)
        claim = partial(self._ledger.claim, INTAKE, leader=epoch)
        intake_epoch = await insist(claim, what="claim")
        for shard in range(self._settings.shards):
            await self.workers.claim(shard)
        await self.standby.catch_up()
        if strangers := self.core.borders.handover.strangers:
            for shard in strangers:
                await self.workers.claim(shard)
            await self.standby.catch_up()
        await self.standby.finish()
        for _ in range(2):  # a change counts once two looks found the same
            if (session := await asyncio.to_thread(self._policies.look)) is not None:
                self.core.order.adopt(session)
        await self._shards.inherit(self._settings.shards)
        self.objects = Objects(
            self.core, lambda: self.intake.registry, epoch=epoch.counter, clock=time.time
        )
        self.objects.restore(self.intake.documents.values())
        self.core.observer = self.objects
        self.intake.node_of = self.objects.node_of
        self.jobs.restored(self.intake.documents.values())
        await insist(self._bless, what="bless")
        log.info("Took the coordinator's seat", epoch=str(epoch), jobs=len(self.core.order.jobs))
        return Taken(leadership, intake_epoch)

    async def _lead(self, group: asyncio.TaskGroup, taken: Taken) -> None:
        """Begin everything that a leader does."""
        self._recorder = recorder = Recorder(
            self._ledger,
            epoch=taken.leadership.epoch,
            run_id=self._blessed,
            bless=self._bless,
            renew=taken.leadership.renew,
            applied=self._applied,
            guard=self._guard,
        )
        self._writer = writer = IntakeWriter(
            self.intake,
            self._ledger,
            writer=INTAKE,
            epoch=taken.intake,
            run_id=self._blessed,
            bless=self._bless,
            stored=self._stored,
            bound=PendingBound(
                Backlog(self.core.order), self._names, limit=self._settings.max_pending_jobs
            ),
        )
        cluster = LedCluster(self._cluster, taken.leadership)
        binding = Binding(
            self._ledger,
            cluster,
            recorder,
            core=self.core,
            surely=taken.leadership.surely,
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
        )
        every = self._settings.reconcile_seconds
        reconciling = executor.reconciling(cluster, self.intake, every=every)
        await reconciling.begin()
        group.create_task(recorder.run())
        group.create_task(writer.run())
        await writer.submit([])  # the default queue exists from the first start on
        await executor.repartition()  # before any worker goes by an old one
        group.create_task(self._serve_http(writer))
        group.create_task(binding.bind_forever())
        group.create_task(binding.report_forever())
        for shard in range(self._settings.shards):
            group.create_task(self.workers.start(shard))
        group.create_task(self._loop(executor))
        group.create_task(usage_of(self.core).follow_forever())
        group.create_task(executor.repartition_forever())
        group.create_task(self.workers.heartbeat_forever())
        group.create_task(trim_forever(self._ledger, self._cluster, self.workers.read))
        group.create_task(self.workers.follow_policy_forever())
        group.create_task(executor.sweep_forever(self._told))
        group.create_task(self.jobs.run(writer))
        group.create_task(reconciling.run_forever())
        group.create_task(reconciling.audit_forever())

    async def _bless(self) -> str:
        """Accept the run of the server, which must know all that is known here."""
        assert self.leadership is not None
        newest = max(self.standby.log_id, self.workers.newest, key=log_position)
        return await self._ledger.bless(self.leadership.epoch, after=newest)

    async def _blessed(self) -> str:
        started = time.monotonic()
        run_id = await insist(self._ledger.run_id, what="run id")
        self.probes.ledger.observe(time.monotonic() - started)
        return run_id

    async def _until(self, stop: asyncio.Event) -> None:
        """Stop in steps: nothing new comes in, what is under way comes back, the door closes."""
        await stop.wait()
        if self._serving is None:
            raise _Stopped
        self._serving.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._settled.wait()
        self._serving.close()

    async def _serve_http(self, writer: IntakeWriter) -> None:
        self._serving = Serving(
            Door(
                core=self.core,
                submit=self.probes.counting(guarded(writer.submit, self._names)),
                status=self.status,
                started=lambda: self.workers.started,
                ledger=self._ledger.run_id,
                cluster=self._cluster.history_position,
                metrics=metrics_registry(
                    self.core, self.probes, lambda: self.intake.registry.slots.names
                ),
                list_codes=self.probes.list_codes,
                objects=self.objects,
                routes=[
                    *virtual_routes(self.core, self._shards, self.intake, self.objects.stories),
                    *record_routes(self.core),
                    *write_routes(Writing(writer, self.objects, may=may_write(self._names))),
                ],
                virtual=VIRTUAL,
                middlewares=[*traces(), gate(self._tokens)],
                checks=[Check("leading", self._leading), *token_checks(self._tokens)],
            )
        )
        await self._serving.run(self._settings.listen_host, self._settings.listen_port)
        raise _Stopped

    # --- the loop -----------------------------------------------------------------------------

    async def _loop(self, executor: Executor) -> None:
        """Step whenever something happened; events that come meanwhile are taken together."""
        while True:
            # Not wait_for: before Python 3.12 it may swallow the cancellation that stops us.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_STEP_SECONDS):
                    await self._kicked.wait()
            self._kicked.clear()
            if self._serving is not None and self._serving.stopping:
                if not any(state.calls for state in self.core.dispatcher.shards.values()):
                    self._settled.set()
                continue  # what is under way comes back; no more goes out
            for instruction in self.core.step(time.time()):
                executor.execute(instruction)
            await asyncio.sleep(0)

    def _told(self) -> None:
        self.objects.tell_waiting()

    def _applied(self, items: list[Any], applied: list[list[int]]) -> None:
        self.core.recorded(items, applied)
        self.jobs.recorded(items)
        self._kicked.set()

    def _stored(self, changes: Any) -> None:
        gone, purged = changes.documents_gone, changes.jobs_purged
        self.objects.publish(changes.documents, gone, purged=purged)
        self.core.admitted(changes)
        self.jobs.published(changes)
        self._kicked.set()

    # --- tell ---------------------------------------------------------------------------------

    def _leading(self) -> str:
        sure = self.leadership is not None and self.leadership.sure
        return "" if sure else "its lease ran out, and the ledger does not renew it"

    def _names(self) -> Registry:
        return self.intake.registry

    def status(self) -> dict[str, Any]:
        status = self.core.status()
        names = self.intake.registry.slots.names
        status["pending_reasons"] = pending_reasons(self.core, time.time(), names=names)
        status["resources"] = self.core.order.accounts.resources(names)
        status["policy"] = self._policies.status()
        status["worker_busy_seconds"] = {str(k): round(v, 3) for k, v in self.workers.busy.items()}
        return status


@dataclass(frozen=True, slots=True)
class Taken:
    """The seat."""

    leadership: Leadership
    intake: Epoch
    """The epoch of the writer of objects."""


def _address(settings: Settings) -> str:
    """Where this coordinator is found, for people."""
    host = settings.listen_host
    return f"{platform.node() if host in _ANY else host}:{settings.listen_port}"


class _Stopped(Exception):
    """Ends the task group when the process is asked to stop."""


async def serve(settings: Settings) -> None:
    """Attach to ledger, cluster and Ray, serve until SIGTERM or SIGINT, let go of them."""
    known = expected(settings)
    async with contextlib.AsyncExitStack() as ended:
        ledger = RedisLedger(settings.access(), cluster=known.cluster, seen=known.log)
        ended.push_async_callback(ledger.close)
        cluster = SocketCluster(settings.cluster_socket or "")
        ended.push_async_callback(cluster.close)
        shards = RayShards(
            cluster=await insist(ledger.open, what="open"),
            address=settings.ray_address or "",
            call_seconds=settings.worker_deadline_seconds,
            cpus=settings.worker_cpus,
        )
        ended.push_async_callback(shards.close)
        stop = asyncio.Event()
        stop_on_signals(stop)
        await ended.enter_async_context(remembering(settings, ledger))
        await Service(settings, ledger=ledger, cluster=cluster, shards=shards).run(stop)


def main() -> int:
    """0 = asked to stop, 1 = a part failed or the ledger is not ours, :data:`DEPOSED` = another
    coordinator took the seat."""
    try:
        settings = load_settings()
        open_gate(settings)
    except SettingsError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    configure_logging(settings.log_level, settings.log_format, role="coordinator")
    configure_tracing("coordinator")
    collect_what_is_new()
    code = 0
    try:
        asyncio.run(serve(settings))
    except* Deposed as group:
        log.error("Another coordinator took the seat", why=first_of(group))
        code = DEPOSED
    except* LedgerTrimmed as group:
        log.error("Stood still for too long to follow; started again, it does", why=first_of(group))
        code = DEPOSED
    except* RayLost as group:
        log.error("Ray is lost; started again, this coordinator joins anew", why=first_of(group))
        code = 1
    except* (LedgerIdentity, LedgerAltered, Malformed) as group:
        log.error("This is not the ledger that was expected", why=first_of(group))
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
