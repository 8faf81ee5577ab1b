"""The coordinator's books from the ledger: once as a whole, then what moved.

Who takes the leadership builds them from a snapshot (:meth:`Following.take`). Who stands by does
the same, then forgets what the log says has moved and takes it up anew as the ledger has it now:
the same steps with fewer records, so that at any moment the books are those that a recovery would
give.

No I/O and no clock. What only a leader may begin (stop deleted tasks, give up nominations) is left
for :meth:`Following.finish`, until which nobody looks at order or departures.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.coordinator import Coordinator
from coordinator.core.foreign_use import observed_of
from coordinator.intake.admission.registry import unpack_task
from coordinator.intake.admission.restore import (
    decode,
    forget_classes,
    forget_documents,
    forget_jobs,
    forget_nodes,
    forget_objects,
    forget_queues,
    mark_deleting,
    take_up,
)
from coordinator.intake.changes import Changes
from coordinator.intake.dialect_change import check_dialect
from coordinator.intake.intake import Intake
from coordinator.jobs.state import JobState
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import TaskRecord
from shared.messages.messages import HOLDING, TaskState
from shared.model.model import Job, TaskClass
from shared.records.specs import HYPER_NODE_KEY
from shared.units.things import Things

COMPACT_EVERY = 50_000
"""Replaced jobs after which the lines are cleared of stale entries."""

Tasks = Mapping[int, TaskRecord]


class Following:
    """``intake`` and ``core`` are empty at first, and not used by others until :meth:`finish`."""

    def __init__(self, intake: Intake, core: Coordinator) -> None:
        self._intake = intake
        self._core = core
        self._leaving: dict[int, tuple[Job, dict[int, TaskRecord]]] = {}
        """Deleted jobs that are not purged, with what is recorded of their tasks."""
        self._again = 0

    # --- what the ledger has ------------------------------------------------------------------

    def take(self, part: Snapshot) -> None:
        """Add the content of a snapshot; none of it may be present yet.

        A job whose class is unknown is newer than the rest of the snapshot: the log will name it.
        """
        content, core = decode(part), self._core
        content.jobs = [job for job in content.jobs if self._understood(job, content.classes)]
        registry = self._intake.registry
        take_up(registry, content)
        core.order.accounts.cluster.names = registry.slots.names
        hyper = any(key.startswith(HYPER_NODE_KEY) for key in part.objects)
        core.restore_gone_nodes(registry.gone_nodes.values())
        self._observe(part)
        core.quarantines.restore(part.objects)
        core.order.aging.restore(part.objects)
        core.order.picking.usage.restore(part.objects)
        if part.partition is not None:
            core.restore_partition(part.partition)
        jobs: list[Job] = []
        states: dict[int, bytearray] = {}
        for job in content.jobs:
            tasks = part.tasks.get(job.jid, {})
            if job.jid in content.leaving:
                self._leaving[job.jid] = (job, dict(tasks))
            else:
                jobs.append(job)
                states[job.jid] = _states(job, tasks)
        core.admitted(
            Changes(
                classes=content.classes,
                nodes=content.nodes,
                queues=content.queues,
                hyper_nodes=[*registry.hyper_nodes.values()] if hyper else [],
                objects=[o for key in part.objects if (o := registry.objects.get(key))],
                jobs=jobs,
            ),
            states,
        )
        for job in jobs:
            self._place(core.order.jobs[job.jid], part.tasks.get(job.jid, {}))
        if core.order.spanning.any:
            # A job is in line with those that are placed alike, also by the terms of later jobs.
            self._again += len(jobs)

    def _observe(self, part: Snapshot) -> None:
        """Take what foreign pods use on these nodes: without it a full cluster seems empty to those
        who admit jobs, until the cluster is first asked."""
        if rows := set(part.nodes.rows):
            core = self._core
            others = {row: used for row, used in core.observed.items() if row not in rows}
            core.observed = others | observed_of(part)
            core.order.accounts.observe(core.observed)

    def _understood(self, job: Job, more: Mapping[int, TaskClass]) -> bool:
        classes = self._core.order.accounts.classes
        return all(role.cid in classes or role.cid in more for role in job.roles)

    def _place(self, state: JobState, tasks: Tasks) -> None:
        """Count the tasks on their nodes; the states are set already."""
        at, end = state.rows, len(state.rows)
        for tix, task in tasks.items():
            if tix < end and task.state != TaskState.PENDING:
                at[tix] = task.row
        state.devices = _devices(tasks)
        self._occupy(state, +1)
        self._core.victims.known(state, tasks)

    def _occupy(self, state: JobState, sign: int) -> None:
        """Update the shards' idle sums."""
        states, rows = state.states, state.rows
        classes, used = self._core.order.accounts.classes, self._core.dispatcher.used
        for role in state.job.roles:
            end = role.first + role.count
            occupied = [rows[t] for t in range(role.first, end) if states[t] in HOLDING]
            if occupied:
                used(occupied, classes[role.cid].requests, sign)

    # --- what moved ---------------------------------------------------------------------------

    def follow(self, changed: ChangedKeys, part: Snapshot) -> set[int]:
        """Replace everything that ``changed`` names: ``part`` has what still exists, the rest is
        deleted.

        Returns jobs that must be read as a whole: unknown ones of which the log named only tasks.
        """
        self._forget(changed, part)
        self.take(part)
        unknown = {
            jid
            for jid, tasks in changed.tasks.items()
            if jid in part.jobs and not self._move(jid, tasks, part.tasks.get(jid, {}))
        }
        self._again += len(changed.jobs) + len(changed.tasks)
        if self._again >= COMPACT_EVERY:
            self._line_up()
        return unknown

    def _forget(self, changed: ChangedKeys, part: Snapshot) -> None:
        core, registry = self._core, self._intake.registry
        for jid in changed.jobs:
            self._leaving.pop(jid, None)
            self._forget_job(jid)
        forget_jobs(registry, changed.jobs)
        forget_documents(registry, changed.documents)
        if gone_classes := changed.classes - part.classes.keys():
            forget_classes(registry, gone_classes)
        nodes = core.partition.known
        rows = [row for row in changed.nodes if row in nodes and row not in part.node_specs]
        forget_nodes(registry, [nodes[row] for row in rows])
        queues = core.order.lines.queues
        qids = [qid for qid in changed.queues if qid in queues and qid not in part.queue_specs]
        forget_queues(registry, [queues[qid].info.queue for qid in qids])
        core.quarantines.forget(key for key in changed.objects if key not in part.objects)
        deleted = [key for key in changed.objects if key not in part.objects]
        core.order.picking.usage.forget(deleted)
        objects = [o for key in deleted if (o := registry.objects.get(key))]
        hyper_nodes = forget_objects(registry, deleted)
        core.admitted(
            Changes(
                nodes_gone=rows,
                queues_gone=qids,
                hyper_nodes_gone=[hyper.name for hyper in hyper_nodes],
                objects_gone=objects,
            )
        )

    def _forget_job(self, jid: int) -> JobState | None:
        """Remove a job from all books; returns its last state."""
        state = self._core.order.jobs.get(jid)
        if state is not None:
            self._occupy(state, -1)
            self._core.order.unlearn(state)
        return state

    def _move(self, jid: int, tasks: set[int], records: Tasks) -> bool:
        """Update some tasks of a job. False where the job is unknown."""
        if jid in self._leaving:
            records_left = self._leaving[jid][1]
            for tix in tasks:
                records_left.pop(tix, None)
            records_left.update(records)
            return True
        # Out of all totals and back in with other states, by the code of recovery: a second meaning
        # of every event would need a proof that the two agree (decision 0020).
        before = self._forget_job(jid)
        if before is None:
            return False
        states, rows = before.states, before.rows
        for tix in tasks:
            if tix < len(states):
                record = records.get(tix)
                pending = record is None or record.state == TaskState.PENDING
                states[tix] = TaskState.PENDING if record is None else record.state
                rows[tix] = -1 if pending or record is None else record.row
        order = self._core.order
        order.put_job(before.job, states)
        state = order.jobs[jid]
        state.rows, state.incarnations = rows, before.incarnations
        others = {tix: devices for tix, devices in before.devices.items() if tix not in tasks}
        state.devices = others | _devices(records)
        self._occupy(state, +1)
        # Put anew the job knows of no evictions; those of tasks that did not move are still going
        # on.
        order.accounts.leave(state, before.evicted - tasks, leaving=True)
        self._core.victims.known(state, records)
        return True

    def _line_up(self) -> None:
        """Queue the waiting jobs again: by present totals, and without stale entries."""
        self._again = 0
        self._core.order.adopt(self._core.order.session)

    # --- the leadership is taken ----------------------------------------------------------------

    def finish(self, nominations: Mapping[int, Nomination], versions: Mapping[str, int]) -> None:
        """From now on the books are the leader's. ``nominations``: what jobs are promised in the
        ledger; ``versions``: those of cross-node constraints, final because nobody else writes.

        The promises of tasks that move are kept: those tasks were evicted for them. The others
        are released (the next step records it): their context is not worth recovering, and each of
        these jobs is tried again at once. Deleted jobs and members go on leaving: tasks that hold a
        node are stopped again. Errors: LedgerIdentity where its jobs are of the other dialect.
        """
        check_dialect(self._intake.registry)
        order = self._core.order
        order.spanning.versions = dict(versions)
        if self._again:
            self._line_up()
        for jid in sorted(self._leaving):
            job, tasks = self._leaving[jid]
            order.put_leaving(job, _states(job, tasks))
            self._place(order.departures.jobs[jid], tasks)
        for state in (*order.jobs.values(), *order.departures.jobs.values()):
            if TaskState.RELEASING in state.states:
                for tix, now in enumerate(state.states):
                    if now == TaskState.RELEASING:
                        order.nominations.leaving(state.rows[tix])
        for jid, state in order.jobs.items():
            order.departures.ask(jid, sorted(state.evicted))
        mark_deleting(self._intake.registry)
        order.drop_members(unpack_task(task) for task in sorted(self._intake.registry.deleting))
        for jid, nomination in sorted(nominations.items()):
            waiting = order.jobs.get(jid)
            if waiting is None or not order.takes_up(waiting, nomination, order.now):
                order.give_up_nominations(jid)
        order.find_broken()


def _states(job: Job, tasks: Tasks) -> bytearray:
    states = bytearray(job.tasks)
    end = len(states)
    for tix, task in tasks.items():
        if tix < end:
            states[tix] = task.state
    return states


def _devices(tasks: Tasks) -> dict[int, Things]:
    return {tix: task.devices for tix, task in tasks.items() if task.devices}
