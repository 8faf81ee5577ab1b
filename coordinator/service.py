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
import math
import signal
import sys
import time
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from coordinator.api import make_app
from coordinator.binding import Binding
from coordinator.cluster.client import SocketCluster
from coordinator.cluster.protocol import ClusterDriver
from coordinator.core import Coordinator, Instruction, Lapse, Repartition, Reread
from coordinator.dispatch import Dispatcher, SendTurns
from coordinator.intake import Intake
from coordinator.intake_writer import IntakeWriter
from coordinator.metrics import metrics_registry
from coordinator.order import Order
from coordinator.policy_follower import PolicyFollower
from coordinator.probes import Probes
from coordinator.recorder import Deposed, Recorder, insist
from coordinator.recovery import recover
from coordinator.shards import RayShards, Shards, WorkerLost, worker_config
from coordinator.trim import trim_forever
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.ledger.redis_ledger import RedisLedger
from shared.messages import Epoch, OutcomeCode
from shared.settings import Settings, load_settings
from shared.telemetry import configure_logging

log = structlog.get_logger(__name__)

INTAKE = "intake"
"""Writer name of the objects' batches (their own sequence, so that intake never waits for
status)."""

HEARTBEAT_SECONDS = 0.25
"""An idle worker is called this often: it follows the log, and its death is noticed."""

REPARTITION_SECONDS = 0.25
"""Nodes that arrive in a burst are partitioned together, this long after the last of them."""

SWEEP_SECONDS = 1.0
"""How often nominations in the ledger are compared with what jobs count on."""

POLICY_SECONDS = 1.0
"""How often the policy file is looked at."""

IDLE_STEP_SECONDS = 0.05
"""The longest the loop sleeps while jobs wait for a deadline (nominations, infeasible lines)."""


class Service:
    def __init__(
        self, settings: Settings, *, ledger: Ledger, cluster: ClusterDriver, shards: Shards
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._cluster = cluster
        self._shards = shards
        self._policies = PolicyFollower(settings)
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
        )
        self.intake = Intake()
        self.probes = Probes()
        self._guard = asyncio.Lock()
        self._kicked = asyncio.Event()
        self._ready = False
        self._run_id = ""
        self._log_ids: dict[int, str] = {}
        self._idle_since: dict[int, float] = {}
        self._pids: dict[int, int] = {}
        self._busy: dict[int, float] = {}
        self._generations: dict[int, int] = {}
        """Shard -> generation of the policy that its worker runs."""
        self._group: asyncio.TaskGroup | None = None
        self._recorder: Recorder | None = None
        self._writer: IntakeWriter | None = None

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
            stored=self._stored,
        )
        assert self._recorder is not None
        binding = Binding(
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
                group.create_task(self._serve_http(writer))
                group.create_task(binding.bind_forever())
                group.create_task(binding.report_forever())
                for shard in range(self._settings.shards):
                    group.create_task(self._start_worker(shard))
                group.create_task(self._loop())
                group.create_task(self._repartition_forever())
                group.create_task(self._heartbeat_forever())
                group.create_task(trim_forever(self._ledger, self._cluster, self._workers_read))
                group.create_task(self._follow_policy_forever())
                group.create_task(self._sweep_forever())
        except* _Stopped:
            log.info("Stopped")

    async def _take_seat(self) -> Epoch:
        """Bless the server, claim every writer's epoch, then take up what the ledger holds.

        In this order: what an earlier coordinator or its workers write after the snapshot was
        read would be acknowledged and unknown here. Returns the epoch of intake."""
        self._run_id = await self._ledger.bless()
        epoch = await self._ledger.claim(COORDINATOR)
        intake_epoch = await self._ledger.claim(INTAKE)
        for shard in range(self._settings.shards):
            await self._claim(shard)
        recover(await self._ledger.snapshot(), self.intake, self.core)
        self._recorder = Recorder(
            self._ledger,
            epoch=epoch,
            run_id=self._blessed,
            applied=self._applied,
            guard=self._guard,
        )
        log.info("Took the coordinator's seat", epoch=str(epoch), jobs=len(self.core.order.jobs))
        return intake_epoch

    async def _blessed(self) -> str:
        started = time.monotonic()
        self._run_id = await insist(self._ledger.run_id, what="run id")
        self.probes.ledger.observe(time.monotonic() - started)
        return self._run_id

    async def _until(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._ready = False
        raise _Stopped

    async def _serve_http(self, writer: IntakeWriter) -> None:
        app = make_app(
            submit=self.probes.counting(writer.submit),
            status=self.status,
            ready=lambda: self._ready,
            metrics_registry=metrics_registry(
                self.core, self.probes, lambda: self.intake.registry.slots.names
            ),
            list_codes=self.probes.list_codes,
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await runner.setup()
        try:
            await web.TCPSite(
                runner, self._settings.listen_host, self._settings.listen_port
            ).start()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    # --- the loop -----------------------------------------------------------------------------

    async def _loop(self) -> None:
        """Step whenever something happened; events that come meanwhile are taken together."""
        while True:
            # Not wait_for: before Python 3.12 it may swallow the cancellation that stops us.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_STEP_SECONDS):
                    await self._kicked.wait()
            self._kicked.clear()
            for instruction in self.core.step(time.time()):
                self._execute(instruction)
            await asyncio.sleep(0)

    def _execute(self, instruction: Instruction) -> None:
        assert self._group is not None
        match instruction:
            case SendTurns():
                self._group.create_task(self._call(instruction))
            case Reread():
                self._group.create_task(self._reread(instruction.jids))
            case Lapse():
                self._group.create_task(self._lapse(instruction.jids))
            case Repartition():
                self._group.create_task(self._store_partition(instruction))

    async def _call(self, send: SendTurns) -> None:
        """Carry turns to their worker and its answer back. Without turns it is a heartbeat."""
        shard = send.shard
        state = self.core.dispatcher.shards[shard]
        if state.epoch != send.epoch:
            return  # lost before the call went out: its turns are read anew with the others
        self._idle_since[shard] = math.inf
        started = time.monotonic()
        try:
            reply = await self._shards.place(shard, send.turns)
        except WorkerLost as error:
            await self._lost(shard, send, str(error))
            return
        if state.epoch == send.epoch:  # else it is the last word of one that was given up
            self._log_ids[shard] = reply.log_id
            self._idle_since[shard] = time.monotonic()
            self.probes.answered(shard, reply, started=started)
        self._busy[shard] = self._busy.get(shard, 0.0) + reply.busy_seconds
        self.core.turns_returned(shard, send.call, reply.outcomes, now=time.time())
        self._kicked.set()
        if any(outcome.code is OutcomeCode.FENCED for outcome in reply.outcomes):
            await self._lost(shard, send, "the ledger refused its epoch or run")

    async def _lost(self, shard: int, send: SendTurns, why: str) -> None:
        """Void the worker's epoch, then let the next step read what became of its turns."""
        state = self.core.dispatcher.shards[shard]
        if state.epoch != send.epoch:
            return  # several calls were in flight: the first one to fail did this
        turns = sum(map(len, state.calls.values()))
        log.warning("Lost a shard worker", shard=shard, epoch=str(send.epoch), turns=turns, why=why)
        await self._replace(shard)

    async def _replace(self, shard: int, *, planned: bool = False) -> None:
        """Nothing that the shard's worker still does counts; another takes its place."""
        lost = time.monotonic()
        self.core.dispatcher.shards[shard].epoch = None
        self._log_ids.pop(shard, None)
        self._pids.pop(shard, None)
        await self._claim(shard)
        self.core.worker_lost(shard, planned=planned)
        self._kicked.set()
        await self._shards.give_up(shard)
        await self._start_worker(shard)
        self.probes.handovers.observe(time.monotonic() - lost)

    async def _claim(self, shard: int) -> Epoch:
        """A new epoch; no commit under an older one is accepted any more."""
        return await insist(lambda: self._ledger.claim(str(shard)), what="claim")

    async def _start_worker(self, shard: int) -> None:
        while True:
            epoch = await self._claim(shard)
            generation = self._policies.generation
            # The worker may have been lost to a restart of the server that nobody else noticed.
            run_id = await insist(self._ledger.bless, what="bless")
            config = worker_config(
                self._settings, self._policies.content, shard=shard, epoch=epoch, run_id=run_id
            )
            try:
                pid = await self._shards.start(config)
            except WorkerLost as error:
                log.error("Shard worker did not start", shard=shard, why=str(error))
                await self._shards.give_up(shard)
                await asyncio.sleep(0.5)
                continue
            log.info("Started a shard worker", shard=shard, epoch=str(epoch), pid=pid)
            self._pids[shard] = pid
            self._generations[shard] = generation
            self._idle_since[shard] = 0.0  # so that it is called at once
            self.core.worker_up(shard, epoch)
            self._ready = True
            self._kicked.set()
            return

    async def _heartbeat_forever(self) -> None:
        """Call the workers that nobody calls: they follow the log, and their death is noticed."""
        assert self._group is not None
        while True:
            asleep = time.monotonic()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            now = time.monotonic()
            self.probes.loop_lag.observe(max(0.0, now - asleep - HEARTBEAT_SECONDS))
            for state in self.core.dispatcher.shards.values():
                idle = now - self._idle_since.get(state.shard, 0.0) >= HEARTBEAT_SECONDS
                if state.epoch is not None and not state.calls and idle:
                    beat = SendTurns(shard=state.shard, epoch=state.epoch, call=0, turns=[])
                    self._group.create_task(self._call(beat))

    async def _follow_policy_forever(self) -> None:
        """A good new policy counts for Order at the next step, then for one worker after the other:
        the ledger checks what is placed meanwhile as it always does."""
        while True:
            await asyncio.sleep(POLICY_SECONDS)
            session = await asyncio.to_thread(self._policies.look)
            if session is not None:
                self.core.order.adopt(session)
                self._kicked.set()
            behind = [
                state.shard
                for state in self.core.dispatcher.shards.values()
                if state.epoch is not None
                and self._generations[state.shard] != self._policies.generation
            ]
            for shard in behind:
                if self.core.dispatcher.shards[shard].epoch is not None:
                    log.info("Replacing a shard worker, for the new policy", shard=shard)
                    await self._replace(shard, planned=True)
            if behind:
                self.core.order.look_again()
                self._kicked.set()

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

    async def _sweep_forever(self) -> None:
        """Find nominations that nobody counts on; see :meth:`Coordinator.stray_nominations`."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            held = await insist(self._ledger.read_nominations, what="read nominations")
            self.core.stray_nominations(held, time.time())
            self._kicked.set()

    def _applied(self, items: list[Any], applied: list[list[int]]) -> None:
        self.core.recorded(items, applied)
        self._kicked.set()

    def _stored(self, changes: Any) -> None:
        self.core.admitted(changes)
        self._kicked.set()

    async def _repartition_forever(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(REPARTITION_SECONDS)
            count = len(self.core.nodes)
            if count == seen and (instruction := self.core.repartition()) is not None:
                await self._store_partition(instruction)
            seen = count

    async def _store_partition(self, instruction: Repartition) -> None:
        assert self._writer is not None
        await self._writer.store([instruction.put])
        self.core.partition_stored()
        self._kicked.set()

    def _workers_read(self) -> list[str] | None:
        """Up to where each worker has read the log, None where one is not up."""
        ids = list(self._log_ids.values())
        return ids if len(ids) == self._settings.shards else None

    # --- tell ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        status = self.core.status()
        status["resources"] = self.core.order.accounts.resources(self.intake.registry.slots.names)
        status["policy"] = self._policies.status()
        for shard in status["shards"]:
            shard["pid"] = self._pids.get(shard["shard"])
        status["worker_busy_seconds"] = {str(k): round(v, 3) for k, v in self._busy.items()}
        return status


class _Stopped(Exception):
    """Ends the task group when the process is asked to stop."""


async def serve(settings: Settings) -> None:
    """Attach to ledger, cluster and Ray, serve until SIGTERM or SIGINT, let go of them."""
    ledger = RedisLedger(settings.redis_url or "", password=settings.redis_secret)
    cluster = SocketCluster(settings.cluster_socket or "")
    shards = RayShards(call_seconds=settings.worker_deadline_seconds, cpus=settings.worker_cpus)
    await asyncio.to_thread(shards.attach, settings.ray_address or "")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Service(settings, ledger=ledger, cluster=cluster, shards=shards).run(stop)
    finally:
        await shards.close()
        await cluster.close()
        await ledger.close()


def main() -> int:
    """0 = asked to stop, 1 = a part failed or another coordinator took the seat."""
    settings = load_settings()
    configure_logging(settings.log_level, settings.log_format, role="coordinator")
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
