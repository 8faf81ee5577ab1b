"""Execution of the core's instructions: calls to workers, records, deletions, a new partition.

``guard`` serializes reads of the ledger's task records (``reread``) with their changes
(``recorder``): otherwise an old reading could overwrite a newer record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import structlog

from coordinator.bind.status_writer import Recorder
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import SendTurns
from coordinator.dispatch.instructions import (
    Fail,
    Instruction,
    Purge,
    Regroup,
    ReleaseNominations,
    RemoveGates,
    Repartition,
    Reread,
    Stop,
    StoreQuarantines,
    StoreReservations,
    StoreUsage,
)
from coordinator.intake.documents.document import Document
from coordinator.intake.writer import IntakeWriter
from coordinator.ledger_refusals import StoreRefused
from shared.ledger.entries.intake_batch import IntakeOp
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.retry import insist

REPARTITION_SECONDS = 0.25
"""Delay after the last of a burst of new nodes, so that they are partitioned together."""

AGAIN_SECONDS = 30.0
"""Interval of retries for operations that the ledger refused: a defect, or damage that the audit
repairs meanwhile; each retry is logged."""

REGROUP_SECONDS = 1.0
"""Pause before a pod is moved to its group again whose group is still being deleted."""

SWEEP_SECONDS = 1.0
"""Interval of comparisons between the ledger's nominations and the jobs that rely on them."""

log = structlog.get_logger(__name__)


class ReadsBooks(Protocol):
    """The ledger's methods that the executor uses."""

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]: ...

    async def read_domains(self) -> dict[str, int]: ...

    async def read_nominations(self) -> dict[int, Nomination]: ...

    async def log_tail(self) -> str: ...


class StopsTasks(Protocol):
    """Port that has the cluster end incarnations of tasks (jid, tix)."""

    async def stop(self, tasks: list[tuple[int, int]], uids: list[str]) -> None: ...


class CallsWorkers(Protocol):
    """Port that sends turns to their worker and takes its answer."""

    async def call(self, send: SendTurns) -> None: ...


class Executor:
    """Every instruction runs as a task of ``group``: if one fails, all do."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        ledger: ReadsBooks,
        core: Coordinator,
        guard: asyncio.Lock,
        recorder: Recorder,
        writer: IntakeWriter,
        binding: StopsTasks,
        workers: CallsWorkers,
        kick: Callable[[], None],
        moved: Callable[[Sequence[Document]], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``kick`` is called when the core has changed. ``moved`` gets the documents of pods that
        are other tasks from now on. ``clock``: the core's."""
        self._group = group
        self._ledger = ledger
        self._core = core
        self._guard = guard
        self._recorder = recorder
        self._writer = writer
        self._binding = binding
        self._workers = workers
        self._kick = kick
        self._moved = moved
        self._clock = clock
        self.rereads = 0
        """Readings that are under way: their jobs wait for the truth."""

    def execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendTurns():
                self._group.create_task(self._workers.call(instruction))
            case Reread():
                self.rereads += 1
                self._group.create_task(self._reread(instruction.jids))
            case ReleaseNominations():
                self._group.create_task(self._release_nominations(instruction.jids))
            case Repartition():
                self._group.create_task(self._store_partition(instruction))
            case Stop():
                self._group.create_task(self._binding.stop(instruction.tasks, instruction.uids))
            case Fail():
                self._group.create_task(self._fail(instruction))
            case Purge():
                self._group.create_task(self._purge(instruction.jids, instruction.pods))
            case StoreQuarantines():
                self._group.create_task(self._leave_out(instruction))
            case StoreReservations():
                self._group.create_task(self._keep(instruction))
            case StoreUsage():
                self._group.create_task(self._store_usage(instruction))
            case RemoveGates():
                for jid, tasks in instruction.tasks.items():
                    self._group.create_task(self._remove_gates(jid, tasks))
            case Regroup():
                self._group.create_task(self._regroup(instruction))

    async def _reread(self, jids: list[int]) -> None:
        # From the reading to its effect: a record in between would be overwritten by what was read
        # before it.
        async with self._guard:
            order = self._core.order
            # Nobody knows whether a lost statement moved the keys of what spans nodes: their counts
            # are read, too (decision 0029). Before the records: counts that are newer than those
            # would vouch for placements that the books do not have.
            if order.spanning.out(jids):
                versions = await insist(self._ledger.read_domains, call_name="read domains")
                order.know(jids, versions, unheard=await self._unheard(jids))
            truth = await self._records(jids)
            self.rereads -= 1
            count = self._core.reread(truth)
        if count:
            log.info("Found tasks that a lost call had placed", tasks=count, jobs=len(jids))
        self._kick()

    async def _unheard(self, jids: list[int]) -> set[int]:
        """In whose name the lost turns of these jobs evicted what a budget counts, where the bind
        stream has not told of it yet."""
        counted = self._core.order.spanning.counted_by_budgets(jids)
        if not counted:
            return set()
        read = partial(self._ledger.read_tasks, counted)
        records = await insist(read, call_name="read tasks")
        return self._core.victims.unheard(records, lost=jids)

    async def _records(self, jids: list[int]) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """The ledger's records of these jobs, read after the last eviction that the bind stream
        reported."""
        victims = self._core.victims
        while True:
            before = victims.marks(jids)
            read = partial(self._ledger.read_tasks, jids)
            truth = await insist(read, call_name="read tasks")
            # Older records do not show a task as leaving of which the bind stream has told
            # meanwhile: they would take the mark back, and its end would be a failure.
            if victims.marks(jids) == before:
                return truth

    async def _release_nominations(self, jids: list[int]) -> None:
        # Recorded before the job may have a turn again, so that a newer nomination cannot be the
        # one released.
        await self._recorder.record([], jids)
        self._core.order.nominations_released(jids)
        self._kick()

    async def _fail(self, fail: Fail) -> None:
        await self._recorder.record(fail.items)
        self._core.failed(fail.items)
        self._kick()

    async def _purge(self, jids: Sequence[int], pods: Sequence[tuple[int, int]]) -> None:
        """Purge jobs and pods; after a refusal one by one, so that one that cannot be purged holds
        up no other."""
        while True:
            try:
                await self._writer.purge(jids, pods)
                return
            except StoreRefused:
                if len(jids) + len(pods) > 1:
                    break
                await asyncio.sleep(AGAIN_SECONDS)
        async with asyncio.TaskGroup() as group:
            for jid in jids:
                group.create_task(self._purge([jid], []))
            for pod in pods:
                group.create_task(self._purge([], [pod]))

    async def store(self, ops: list[IntakeOp]) -> None:
        """Store operations that the core waits for, until the ledger accepts them."""
        while True:
            try:
                return await self._writer.store(ops)
            except StoreRefused:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _leave_out(self, instruction: StoreQuarantines) -> None:
        await self.store(instruction.ops())
        self._core.left_out(instruction.marks)
        self._kick()

    async def _keep(self, instruction: StoreReservations) -> None:
        await self.store(instruction.ops())
        self._core.order.aging.stored(instruction.marks)
        self._kick()

    async def _store_usage(self, instruction: StoreUsage) -> None:
        await self.store(instruction.ops())
        self._core.order.picking.usage.stored(instruction.marks)

    async def _remove_gates(self, jid: int, tasks: list[int]) -> None:
        try:
            admission = await self._writer.remove_gates(jid, tasks)
            for refusal in admission.refused:
                log.warning("Scheduling gate stays", pod=refusal.name, why=refusal.message)
        except StoreRefused:  # logged and counted; a later turn decides it again
            await asyncio.sleep(AGAIN_SECONDS)
        self._core.order.gates_removed(jid, tasks)
        self._kick()

    async def _regroup(self, instruction: Regroup) -> None:
        try:
            admission = await self._writer.regroup(
                instruction.move, instruction.apart, instruction.expired
            )
        except StoreRefused:  # logged and counted
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            self._moved(admission.documents)
            if len(admission.documents) < len(instruction.move):
                await asyncio.sleep(REGROUP_SECONDS)
        order = self._core.order
        jids = [*instruction.move, *instruction.apart, *instruction.expired]
        order.late_groups.stored(jids, order.jobs)
        self._kick()

    async def _store_partition(self, instruction: Repartition) -> None:
        await self.store([instruction.put])
        # The tail as of now lies at or behind the entry of this partition: a worker that has read
        # up to here knows it.
        self._core.partition_stored(await insist(self._ledger.log_tail, call_name="log tail"))
        self._kick()

    # --- from time to time --------------------------------------------------------------------

    async def repartition(self) -> None:
        """Repartition where nodes came or went, or shards are uneven."""
        instruction = self._core.repartition(self._clock())
        if instruction is not None:
            await self._store_partition(instruction)

    async def repartition_forever(self) -> None:
        previous = -1
        while True:
            await asyncio.sleep(REPARTITION_SECONDS)
            count = len(self._core.nodes)
            if count == previous:
                await self.repartition()
            previous = count

    async def sweep_forever(self, then: Callable[[], None], *, every: float) -> None:
        """Find nominations without a job that relies on them, every so many seconds; see
        :meth:`Coordinator.stray_nominations`."""
        while True:
            await asyncio.sleep(every)
            nominations = await insist(self._ledger.read_nominations, call_name="read nominations")
            self._core.stray_nominations(nominations, self._clock())
            then()
            self._kick()
