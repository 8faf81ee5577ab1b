"""What the core asks for, done: calls to workers, records, deletions, a new partition.

``guard`` orders what reads the ledger's truth about tasks (``reread``) against what changes it
(``recorder``): without it an old reading could overwrite a newer record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from coordinator.binding import Binding
from coordinator.cluster.protocol import ClusterDriver
from coordinator.core import (
    Coordinator,
    Fail,
    Instruction,
    Keep,
    Lapse,
    LeaveOut,
    Purge,
    Repartition,
    Reread,
    Stop,
)
from coordinator.dispatch import SendTurns
from coordinator.intake import Intake
from coordinator.intake_writer import IntakeWriter
from coordinator.reconciling import Reconciling
from coordinator.recorder import Recorder, insist
from coordinator.workers import Workers
from shared.ledger.protocol import Ledger

REPARTITION_SECONDS = 0.25
"""Nodes that arrive in a burst are partitioned together, this long after the last of them."""

SWEEP_SECONDS = 1.0
"""How often nominations in the ledger are compared with what jobs count on."""

log = structlog.get_logger(__name__)


class Executor:
    """Every instruction is a task of ``group``: if one fails, all do."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        ledger: Ledger,
        core: Coordinator,
        guard: asyncio.Lock,
        recorder: Recorder,
        writer: IntakeWriter,
        binding: Binding,
        workers: Workers,
        kick: Callable[[], None],
    ) -> None:
        """``kick``: the core has news."""
        self._group = group
        self._ledger = ledger
        self._core = core
        self._guard = guard
        self._recorder = recorder
        self._writer = writer
        self._binding = binding
        self._workers = workers
        self._kick = kick

    def execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendTurns():
                self._group.create_task(self._workers.call(instruction))
            case Reread():
                self._group.create_task(self._reread(instruction.jids))
            case Lapse():
                self._group.create_task(self._lapse(instruction.jids))
            case Repartition():
                self._group.create_task(self._store_partition(instruction))
            case Stop():
                self._group.create_task(self._binding.stop(instruction.tasks))
            case Fail():
                self._group.create_task(self._fail(instruction))
            case Purge():
                self._group.create_task(self._writer.purge(instruction.jids, instruction.pods))
            case LeaveOut():
                self._group.create_task(self._leave_out(instruction))
            case Keep():
                self._group.create_task(self._keep(instruction))

    async def _reread(self, jids: list[int]) -> None:
        async with self._guard:
            read = partial(self._ledger.read_tasks, jids)
            truth = await insist(read, what="read tasks")
            order = self._core.order
            if order.spanning.out(jids):
                order.know(jids, await insist(self._ledger.read_domains, what="read domains"))
            found = self._core.reread(truth)
        if found:
            log.info("Found tasks that a lost call had placed", tasks=found, jobs=len(jids))
        self._kick()

    async def _lapse(self, jids: list[int]) -> None:
        await self._recorder.record([], jids)
        self._core.order.lapse_recorded(jids)
        self._kick()

    async def _fail(self, fail: Fail) -> None:
        await self._recorder.record(fail.items)
        self._core.failed(fail.items)
        self._kick()

    async def _leave_out(self, instruction: LeaveOut) -> None:
        await self._writer.store(instruction.ops())
        self._core.left_out(instruction.marks)
        self._kick()

    async def _keep(self, instruction: Keep) -> None:
        await self._writer.store(instruction.ops())
        self._core.order.aging.stored(instruction.marks)
        self._kick()

    async def _store_partition(self, instruction: Repartition) -> None:
        await self._writer.store([instruction.put])
        self._core.partition_stored(await insist(self._ledger.log_tail, what="log tail"))
        self._kick()

    def reconciling(self, cluster: ClusterDriver, intake: Intake, *, every: float) -> Reconciling:
        """What compares the books with ledger and cluster, every so many seconds."""
        return Reconciling(
            self._ledger,
            cluster,
            core=self._core,
            intake=intake,
            recorder=self._recorder,
            writer=self._writer,
            binding=self._binding,
            guard=self._guard,
            every=every,
            kick=self._kick,
        )

    # --- from time to time --------------------------------------------------------------------

    async def repartition(self) -> None:
        """Where nodes came or went, or shards are uneven."""
        instruction = self._core.repartition(time.time())
        if instruction is not None:
            await self._store_partition(instruction)

    async def repartition_forever(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(REPARTITION_SECONDS)
            count = len(self._core.nodes)
            if count == seen:
                await self.repartition()
            seen = count

    async def sweep_forever(self, then: Callable[[], None]) -> None:
        """Find nominations that nobody counts on; see :meth:`Coordinator.stray_nominations`."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            held = await insist(self._ledger.read_nominations, what="read nominations")
            self._core.stray_nominations(held, time.time())
            then()
            self._kick()
