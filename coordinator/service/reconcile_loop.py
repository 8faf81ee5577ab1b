"""The loop that compares ledger, books and cluster, and repairs towards the cluster.

The first look is right after the leadership is taken; the second, which repairs, a moment later;
then one every so often. In between the books are compared with the ledger, some jobs at a time.
Workers compare their own views with the ledger (:mod:`shard_worker.worker.server`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Protocol, TypeGuard

import orjson
import structlog

from coordinator.bind.status_writer import Recorder
from coordinator.cluster.protocol import ClusterTimeout, Listed, ListsTasks
from coordinator.core.coordinator import Coordinator
from coordinator.core.foreign_use import (
    Use,
    add_use,
    counted,
    differences,
    observation,
    observed_of,
)
from coordinator.core.reconcile import FindingKind, ReconcilePass, Reconciler, Task
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.ledger_refusals import StoreRefused
from coordinator.service.executor import StopsTasks
from coordinator.service.resource_names import ReadsCounts, free_unused_names
from shared.ledger.entries.intake_batch import IntakeOp
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.retry import insist
from shared.messages.messages import ENDED, HOLDING

BEGIN_SECONDS = 1.0
"""How long becoming the leader may wait for the cluster."""

BEGIN_AGAIN_SECONDS = 0.05
"""Pause after a request that had no answer, within that time."""

AGAIN_SECONDS = 1.0
"""Pause between two passes where the first one found something: longer than any answer is under
way."""

JOBS_AT_ONCE = 2000
"""Jobs searched for missing tasks per step of the loop."""

LOOK_TASKS = 2000
"""Missing tasks per question to the cluster."""

AUDIT_SECONDS = 1.0
AUDIT_TASKS = 500
"""Rate of comparing the books with the ledger: this many tasks in :data:`AUDIT_SECONDS`; about 5 ms
of the coordinator's time where each is a job of its own. A larger job is compared as a whole,
followed by a longer pause."""

OBSERVE_OPS = 2000
"""Nodes of one batch."""

log = structlog.get_logger(__name__)


class ReadsLedger(ReadsCounts, Protocol):
    """The ledger's methods that reconciling uses."""

    async def snapshot(self, *, workload: bool = True) -> Snapshot: ...

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]: ...


class Reconciling:
    def __init__(
        self,
        ledger: ReadsLedger,
        cluster: ListsTasks,
        *,
        core: Coordinator,
        intake: Intake,
        recorder: Recorder,
        writer: IntakeWriter,
        binding: StopsTasks,
        guard: asyncio.Lock,
        every: float,
        kick: Callable[[], None],
    ) -> None:
        """``every``: seconds between two passes. ``guard``: the recorder's."""
        self._ledger = ledger
        self._cluster = cluster
        self._core = core
        self._intake = intake
        self._recorder = recorder
        self._writer = writer
        self._binding = binding
        self._guard = guard
        self._every = every
        self._kick = kick
        self._reconciler = Reconciler(core)
        self._unaudited: list[int] = []
        """Jobs that this round has not compared with the ledger yet."""
        self._knows_observed = False

    # --- against the cluster ------------------------------------------------------------------

    async def begin(self) -> None:
        """Before anything is admitted: skip numbers that the cluster knows, because an old copy of
        the ledger may not have them."""
        registry = self._intake.registry
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                part = await self._first_page()
        except TimeoutError as error:
            log.warning("Cluster did not answer", what="listing", error=str(error))
            return
        if part.highest >= registry.next_jid:
            log.error(
                "The cluster knows jobs that the ledger does not: it is an old copy",
                ledger=registry.next_jid - 1,
                cluster=part.highest,
            )
            # A job that got one of those numbers would be taken for the one that the cluster runs.
            registry.next_jid = part.highest + 1

    async def _first_page(self) -> Listed:
        while True:
            try:
                return await self._cluster.listing("")
            # Asked again: for one lost answer, a job would get the number of one that the cluster
            # runs (an old copy of the ledger, seed 20).
            except ClusterTimeout as error:
                log.warning("Cluster did not answer", what="listing", error=str(error))
                await asyncio.sleep(BEGIN_AGAIN_SECONDS)

    async def run_forever(self) -> None:
        soon = True
        while True:
            await asyncio.sleep(min(AGAIN_SECONDS, self._every) if soon else self._every)
            try:
                soon = await self.once()
            except ClusterTimeout as error:
                log.warning("Cluster did not answer", what="listing", error=str(error))
                soon = False

    async def once(self) -> bool:
        """One pass and its repairs; returns whether another should follow soon."""
        await self.observe()
        with contextlib.suppress(StoreRefused):  # logged; the next look tries again
            await free_unused_names(self._ledger, self._intake, self._writer)
        repairs = self._reconciler.judge(await self._look())
        if repairs.counts:
            counts = {kind.value: count for kind, count in repairs.counts.items()}
            log.warning("Repaired towards the cluster", **counts)
        if repairs.items:
            await self._recorder.record(repairs.items)
        # Before anything is stopped: the books may be wrong, and what runs is ended only if the
        # ledger has it as ended, too.
        await self.audit(sorted({jid for jid, _ in repairs.stop}))
        if stop := [task for task in repairs.stop if self._ended(*task)]:
            uids = self._core.victims.uids(stop)
            await self._binding.stop(stop, uids)  # what the ledger has as ended, not we alone
        self._kick()
        return bool(self._reconciler.suspects) and not repairs.counts

    def _ended(self, jid: int, tix: int) -> bool:
        """By the books as they are now; they may have been corrected since the pass."""
        state = self._core.order.known(jid)
        return state is None or state.states[tix] in ENDED

    async def _look(self) -> ReconcilePass:
        look, token = ReconcilePass(self._core), ""
        while True:
            part = await self._cluster.listing(token)
            look.take(part)
            token = part.token
            if not token:
                break
            await asyncio.sleep(0)
        async for some in self._missing(look):
            look.take_missing(await self._cluster.look([f"{jid}.{tix}" for jid, tix in some]))
        return look

    async def _missing(self, look: ReconcilePass) -> AsyncIterator[list[Task]]:
        states = [*self._core.order.jobs.values(), *self._core.leaving.values()]
        missing: list[Task] = []
        for at in range(0, len(states), JOBS_AT_ONCE):
            missing += look.missing(states[at : at + JOBS_AT_ONCE])
            while len(missing) >= LOOK_TASKS:
                yield missing[:LOOK_TASKS]
                del missing[:LOOK_TASKS]
            await asyncio.sleep(0)
        if missing:
            yield missing

    # --- what others use ----------------------------------------------------------------------

    async def observe(self) -> None:
        """Store the usage of foreign pods in the ledger, so that placements take it into
        account."""
        core, slots = self._core, self._intake.registry.slots
        if not self._knows_observed:
            read = partial(self._ledger.snapshot, workload=False)
            snapshot = await insist(read, call_name="read nodes")
            core.observed = await asyncio.to_thread(observed_of, snapshot)
            core.order.accounts.observe(core.observed)
            self._knows_observed = True
        # Also of nodes in another pool: one that comes in must not seem empty until the next look.
        nodes = core.partition.known
        now: dict[int, dict[int | str, Use]] = {}
        for node, used in (await self._cluster.foreign()).items():
            row = core.rows.get(node, -1)
            if row in nodes and (used_by_others := counted(used, slots)):
                now[row] = used_by_others
        self._add_theirs(now)
        changed = differences(core.observed, now)
        ops: list[IntakeOp] = [
            observation(row, used, core.observed.get(row, {}))
            for row, used in sorted(changed.items())
        ]
        try:
            for at in range(0, len(ops), OBSERVE_OPS):
                await self._writer.store(ops[at : at + OBSERVE_OPS])
        except StoreRefused:
            return  # logged; the next look finds the same differences
        for row, use in changed.items():
            core.observed[row] = use
            core.tally.repaired[FindingKind.FOREIGN.value] += 1
        if changed:
            core.order.accounts.observe(core.observed)

    def _add_theirs(self, used: dict[int, dict[int | str, Use]]) -> None:
        """Add what pods of other schedulers use on the nodes that they name."""
        core, documents = self._core, self._intake.documents
        nodes = core.partition.known
        for jid in core.order.theirs:
            if (state := core.order.jobs.get(jid)) is None:
                continue
            job = state.job
            document = documents.get(Key("Pod", job.namespace, job.name))
            if document is None or document.deleting is not None:
                continue
            node = orjson.loads(document.body)["spec"].get("nodeName", "")
            row, cls = core.rows.get(node, -1), core.order.accounts.classes[job.roles[0].cid]
            if row in nodes:
                add_use(used.setdefault(row, {}), cls)

    # --- the books against the ledger ---------------------------------------------------------

    async def audit_forever(self) -> None:
        while True:
            jids, tasks = self._next()
            await asyncio.sleep(AUDIT_SECONDS * max(1.0, tasks / AUDIT_TASKS))
            await self.audit(jids)

    def _next(self) -> tuple[list[int], int]:
        """The next jobs, round robin, and their number of tasks."""
        jobs, jids, size = self._core.order.jobs, [], 0
        if not self._unaudited:
            self._unaudited = [*jobs]
        while self._unaudited and size < AUDIT_TASKS:
            if (state := jobs.get(self._unaudited.pop())) is not None:
                jids.append(state.job.jid)
                size += len(state.states)
        return jids, size

    async def audit(self, jids: Sequence[int]) -> int:
        """Compare these jobs with the ledger and reread those that differ; returns how many."""
        jobs, going = self._core.order.jobs, self._core.order.departures.members
        async with self._guard:  # nothing is recorded between the reading and the comparison
            before = {jid: _mark(jobs[jid]) for jid in jids if _still(jobs.get(jid))}
            if not before:
                return 0
            truth = await insist(lambda: self._ledger.read_tasks([*before]), call_name="read tasks")
            wrong = {
                jid: (record, tasks)
                for jid, (record, tasks) in truth.items()
                if _still(state := jobs.get(jid))
                and _mark(state) == before.get(jid)
                and jid not in going  # their members have failed here, which is recorded next
                and _differs(state, tasks)
            }
            if wrong:
                self._core.reread(wrong)
        if wrong:
            self._core.tally.repaired[FindingKind.BOOKS.value] += len(wrong)
            log.error("The books of jobs were not the ledger's", jobs=len(wrong), first=min(wrong))
            self._kick()
        return len(wrong)


def _still(state: JobState | None) -> TypeGuard[JobState]:
    """Whether no message about the job is under way: otherwise the ledger may be ahead of the
    books."""
    if state is None or state.status in (SchedulingStatus.OPEN, SchedulingStatus.NOMINATED):
        return False
    return not (state.unread or state.releasing_nominations)


def _mark(state: JobState) -> tuple[int, frozenset[int]]:
    """A version of the job's books that covers what the recorder's guard does not: turns and moves
    between lines (``stamp``), and evictions reported by the bind stream. If it differs after the
    ledger was read, the records may be older than the books and are not compared."""
    return state.stamp, frozenset(state.evicted)


def _differs(state: JobState, truth: dict[int, TaskRecord]) -> bool:
    """Whether records and books differ, except for evictions that may still be reported."""
    states = state.states
    expected = {
        tix: states[tix] if task.by >= 0 and states[tix] in HOLDING else task.state
        for tix, task in truth.items()
    }
    return any(recorded != expected.get(tix, 0) for tix, recorded in enumerate(states))
