"""The coordinator process: the state machine of :mod:`coordinator.core` with I/O around it.

One task group holds everything; if one part fails, all stop and the supervisor sees it::

    HTTP -> intake -----> ledger.store ---+
    worker replies -----------------------+--> core --> step --> calls to workers (Ray)
    bind stream -> cluster -> recorder ---+
    cluster reports -------> recorder ----+

``guard`` orders what reads the ledger's truth about tasks (``reread``) against what changes it
(``recorder``): without it an old reading could overwrite a newer record.

Run as ``python -m coordinator.service``; configured by ``QUADRANT_*`` alone. It holds nothing that
the ledger does not: killed at any point, its successor goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from functools import partial
from typing import Any

import structlog

from coordinator.admission.registry import Registry
from coordinator.binding import Binding
from coordinator.cluster.client import SocketCluster
from coordinator.cluster.protocol import ClusterDriver
from coordinator.controller.loop import JobLoop
from coordinator.core import (
    Coordinator,
    Fail,
    Instruction,
    Lapse,
    Purge,
    Repartition,
    Reread,
    Stop,
)
from coordinator.dispatch import Dispatcher, SendTurns
from coordinator.gate.backlog import Backlog
from coordinator.gate.middleware import middleware as gate
from coordinator.gate.opening import open_gate, token_checks
from coordinator.gate.pending import PendingBound
from coordinator.gate.rights import guarded, may_write
from coordinator.gate.traces import traces
from coordinator.intake import Intake
from coordinator.intake_writer import IntakeWriter
from coordinator.kube.virtual import VIRTUAL, virtual_routes
from coordinator.kube.writing import Writing, write_routes
from coordinator.metrics import metrics_registry
from coordinator.objects.store import Objects
from coordinator.order import Order
from coordinator.policy_follower import PolicyFollower
from coordinator.probes import Probes
from coordinator.recorder import Deposed, Recorder, insist
from coordinator.recovery import recover
from coordinator.serving import Door, Serving
from coordinator.shards import RayShards, Shards
from coordinator.trim import trim_forever
from coordinator.waiting import pending_reasons
from coordinator.workers import Workers
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.ledger.redis_ledger import RedisLedger
from shared.messages import Epoch
from shared.settings import Settings, SettingsError, load_settings
from shared.telemetry import configure_logging
from shared.tracing import configure_tracing

log = structlog.get_logger(__name__)

INTAKE = "intake"
"""Writer name of the objects' batches (their own sequence, so that intake never waits for
status)."""

REPARTITION_SECONDS = 0.25
"""Nodes that arrive in a burst are partitioned together, this long after the last of them."""

SWEEP_SECONDS = 1.0
"""How often nominations in the ledger are compared with what jobs count on."""

SETTLE_SECONDS = 5.0
"""How long calls to workers may take to come back once we are asked to stop."""

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
        self.intake = Intake()
        self.jobs = JobLoop(self.core, self.intake)
        self.probes = Probes()
        self.objects: Objects
        """What the outside sees; there from the moment the seat is taken."""
        self._guard = asyncio.Lock()
        self._kicked = asyncio.Event()
        self._settled = asyncio.Event()
        """We were asked to stop, and no worker is at work for us any more."""
        self._run_id = ""
        self._epoch: Epoch | None = None
        self.workers = Workers(
            settings,
            ledger=ledger,
            shards=shards,
            core=self.core,
            policies=self._policies,
            probes=self.probes,
            kick=self._kicked.set,
        )
        self._group: asyncio.TaskGroup | None = None
        self._recorder: Recorder | None = None
        self._writer: IntakeWriter | None = None
        self._binding: Binding | None = None
        self._serving: Serving | None = None

    # --- start --------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop``. Raises ExceptionGroup where a part failed."""
        intake_epoch = await self._take_seat()
        writer = IntakeWriter(
            self.intake,
            self._ledger,
            writer=INTAKE,
            epoch=intake_epoch,
            run_id=self._blessed,
            bless=self._bless,
            stored=self._stored,
            bound=PendingBound(
                Backlog(self.core.order), self._names, limit=self._settings.max_pending_jobs
            ),
        )
        assert self._recorder is not None
        self._binding = binding = Binding(
            self._ledger, self._cluster, self._recorder, core=self.core, probes=self.probes
        )
        self._writer = writer
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._until(stop))
                group.create_task(self._recorder.run())
                group.create_task(writer.run())
                await writer.submit([])  # the default queue exists from the first start on
                if (instruction := self.core.repartition(time.time())) is not None:
                    await self._store_partition(instruction)  # before any worker goes by an old one
                group.create_task(self._serve_http(writer))
                group.create_task(binding.bind_forever())
                group.create_task(binding.report_forever())
                for shard in range(self._settings.shards):
                    group.create_task(self.workers.start(shard))
                group.create_task(self._loop())
                group.create_task(self._repartition_forever())
                group.create_task(self.workers.heartbeat_forever())
                group.create_task(trim_forever(self._ledger, self._cluster, self.workers.read))
                group.create_task(self.workers.follow_policy_forever())
                group.create_task(self._sweep_forever())
                group.create_task(self.jobs.run(writer))
                if self._tokens is not None:
                    group.create_task(self._tokens.follow_forever())
        except* _Stopped:
            log.info("Stopped")

    async def _take_seat(self) -> Epoch:
        """Claim every writer's epoch, take up what the ledger holds, then accept its server's run.

        In this order: what an earlier coordinator or its workers write after the snapshot was
        read would be acknowledged and unknown here. Returns the epoch of intake."""
        await self._ledger.open()
        self._epoch = epoch = await self._ledger.claim(COORDINATOR)
        self.workers.leads(epoch, self._bless)
        intake_epoch = await self._ledger.claim(INTAKE, leader=epoch)
        for shard in range(self._settings.shards):
            await self.workers.claim(shard)
        recover(await self._ledger.snapshot(), self.intake, self.core)
        self.objects = Objects(
            self.core, lambda: self.intake.registry, epoch=epoch.counter, clock=time.time
        )
        self.objects.restore(self.intake.documents.values())
        self.core.observer = self.objects
        self.intake.node_of = self.objects.node_of
        self.jobs.restored(self.intake.documents.values())
        self._recorder = Recorder(
            self._ledger,
            epoch=epoch,
            run_id=self._blessed,
            bless=self._bless,
            applied=self._applied,
            guard=self._guard,
        )
        self._run_id = await self._bless()
        log.info("Took the coordinator's seat", epoch=str(epoch), jobs=len(self.core.order.jobs))
        return intake_epoch

    async def _bless(self) -> str:
        """Accept the run of the server, which must know all that is known here."""
        assert self._epoch is not None
        return await self._ledger.bless(self._epoch, after=self.workers.newest)

    async def _blessed(self) -> str:
        started = time.monotonic()
        self._run_id = await insist(self._ledger.run_id, what="run id")
        self.probes.ledger.observe(time.monotonic() - started)
        return self._run_id

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
                    *virtual_routes(core=self.core, shards=self._shards, intake=self.intake),
                    *write_routes(Writing(writer, self.objects, may=may_write(self._names))),
                ],
                virtual=VIRTUAL,
                middlewares=[*traces(), gate(self._tokens)],
                checks=token_checks(self._tokens),
            )
        )
        await self._serving.run(self._settings.listen_host, self._settings.listen_port)
        raise _Stopped

    # --- the loop -----------------------------------------------------------------------------

    async def _loop(self) -> None:
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
                self._execute(instruction)
            await asyncio.sleep(0)

    def _execute(self, instruction: Instruction) -> None:
        assert self._group is not None
        match instruction:
            case SendTurns():
                self._group.create_task(self.workers.call(instruction))
            case Reread():
                self._group.create_task(self._reread(instruction.jids))
            case Lapse():
                self._group.create_task(self._lapse(instruction.jids))
            case Repartition():
                self._group.create_task(self._store_partition(instruction))
            case Stop():
                self._group.create_task(self._stop(instruction.tasks))
            case Fail():
                self._group.create_task(self._fail(instruction))
            case Purge():
                self._group.create_task(self._purge(instruction))
            case LeaveOut():
                self._group.create_task(self._leave_out(instruction))

    # --- ledger -------------------------------------------------------------------------------

    async def _reread(self, jids: list[int]) -> None:
        async with self._guard:
            read = partial(self._ledger.read_tasks, jids)
            found = self.core.reread(await insist(read, what="read tasks"))
        if found:
            log.info("Found tasks that a lost call had placed", tasks=found, jobs=len(jids))
        self._kicked.set()

    async def _lapse(self, jids: list[int]) -> None:
        assert self._recorder is not None
        await self._recorder.record([], jids)
        self.core.order.lapse_recorded(jids)
        self._kicked.set()

    async def _stop(self, tasks: list[tuple[int, int]]) -> None:
        assert self._binding is not None
        await self._binding.stop(tasks)

    async def _fail(self, fail: Fail) -> None:
        assert self._recorder is not None
        await self._recorder.record(fail.items)
        self.core.failed(fail.items)
        self._kicked.set()

    async def _purge(self, purge: Purge) -> None:
        assert self._writer is not None
        await self._writer.purge(purge.jids, purge.pods)

    async def _leave_out(self, instruction: LeaveOut) -> None:
        assert self._writer is not None
        await self._writer.store(instruction.ops())
        self.core.left_out(instruction.marks)
        self._kicked.set()

    async def _sweep_forever(self) -> None:
        """Find nominations that nobody counts on; see :meth:`Coordinator.stray_nominations`."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            held = await insist(self._ledger.read_nominations, what="read nominations")
            self.core.stray_nominations(held, time.time())
            self.objects.tell_waiting()
            self._kicked.set()

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

    async def _repartition_forever(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(REPARTITION_SECONDS)
            count = len(self.core.nodes)
            if count == seen:
                instruction = self.core.repartition(time.time())
                if instruction is not None:
                    await self._store_partition(instruction)
            seen = count

    async def _store_partition(self, instruction: Repartition) -> None:
        assert self._writer is not None
        await self._writer.store([instruction.put])
        self.core.partition_stored(await insist(self._ledger.log_tail, what="log tail"))
        self._kicked.set()

    # --- tell ---------------------------------------------------------------------------------

    def _names(self) -> Registry:
        return self.intake.registry

    def status(self) -> dict[str, Any]:
        status = self.core.status()
        names = self.intake.registry.slots.names
        status["pending_reasons"] = pending_reasons(self.core, time.time(), names=names)
        status["resources"] = self.core.order.accounts.resources(self.intake.registry.slots.names)
        status["policy"] = self._policies.status()
        for shard in status["shards"]:
            shard["pid"] = self.workers.pids.get(shard["shard"])
        status["worker_busy_seconds"] = {str(k): round(v, 3) for k, v in self.workers.busy.items()}
        return status


class _Stopped(Exception):
    """Ends the task group when the process is asked to stop."""


def stop_on_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT asks to stop, the second ends the process as it stands: the
    ledger knows everything that was acknowledged."""
    loop = asyncio.get_running_loop()

    def asked(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)


async def serve(settings: Settings) -> None:
    """Attach to ledger, cluster and Ray, serve until SIGTERM or SIGINT, let go of them."""
    ledger = RedisLedger(settings.access())
    cluster = SocketCluster(settings.cluster_socket or "")
    shards = RayShards(call_seconds=settings.worker_deadline_seconds, cpus=settings.worker_cpus)
    await asyncio.to_thread(shards.attach, settings.ray_address or "")
    stop = asyncio.Event()
    stop_on_signals(stop)
    try:
        await Service(settings, ledger=ledger, cluster=cluster, shards=shards).run(stop)
    finally:
        await shards.close()
        await cluster.close()
        await ledger.close()


def main() -> int:
    """0 = asked to stop, 1 = a part failed or another coordinator took the seat."""
    try:
        settings = load_settings()
        open_gate(settings)
    except SettingsError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    configure_logging(settings.log_level, settings.log_format, role="coordinator")
    configure_tracing("coordinator")
    # Jobs are many and live long: the default thresholds would walk through all of them for every
    # few hundred new ones.
    gc.set_threshold(100_000, 50, 100)
    deposed = False
    try:
        asyncio.run(serve(settings))
    except* Deposed as group:
        log.error("Another coordinator took the seat", why=str(group.exceptions[0]))
        deposed = True
    return 1 if deposed else 0


if __name__ == "__main__":
    sys.exit(main())
