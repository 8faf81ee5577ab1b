"""Scheduling gates that are being removed, because the queues of their tasks have room for them.

A worker's session decides it, as Volcano's allocate does; the gate is gone once the pod is stored
without it. From the decision on the queue reserves what the task asks for: until the gate is
stored as removed as noted here, afterwards by the task's role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.jobs.state import JobState, gated
from shard_worker.session_model.queue_totals import charge_total, opens_gate
from shard_worker.session_model.workload import ClusterInfo, QueueInfo, add
from shared.messages.messages import TaskState
from shared.model.model import Job, Requests, TaskClass


class GateRemovals:
    def __init__(self, cluster: ClusterInfo, classes: dict[int, TaskClass]) -> None:
        self._cluster = cluster
        self._classes = classes
        self._reserved: dict[int, dict[int, tuple[int, Requests]]] = {}
        """jid -> tix -> (qid, amounts)."""
        self._due: dict[int, list[int]] = {}

    def begin(self, state: JobState, tasks: Iterable[int]) -> bool:
        """Remove the gates of those tasks of the job that still have one. False where there is
        none, or all are being removed already."""
        job, reserved = state.job, self._reserved.get(state.job.jid, {})
        due = [
            tix
            for tix in tasks
            if tix not in reserved
            and tix < job.tasks
            and state.states[tix] == TaskState.PENDING
            and opens_gate(job.role_of(tix))
        ]
        if not due:
            return False
        for tix in due:
            requests = self._classes[job.role_of(tix).cid].charged
            reserved[tix] = (state.info.qid, requests)
            self._charge(state.info.qid, requests, +1)
        self._reserved[job.jid] = reserved
        self._due.setdefault(job.jid, []).extend(due)
        return True

    def take(self) -> dict[int, list[int]]:
        """The gates to remove now: jid -> tasks. Each is returned once."""
        due, self._due = self._due, {}
        return due

    def stored(self, job: Job) -> None:
        """Take the job's new specification: its roles reserve for the tasks without a gate."""
        if tasks := self._reserved.get(job.jid):
            self.over(job.jid, [tix for tix in tasks if not job.role_of(tix).gated])

    def over(self, jid: int, tasks: Iterable[int]) -> None:
        """Reserve nothing more for these tasks here."""
        reserved = self._reserved.get(jid, {})
        for tix in tasks:
            if (amounts := reserved.pop(tix, None)) is not None:
                self._charge(*amounts, -1)
        if not reserved:
            self._reserved.pop(jid, None)

    def forget(self, jid: int) -> None:
        """Forget a deleted job."""
        self._due.pop(jid, None)
        self.over(jid, list(self._reserved.get(jid, ())))

    def add_to(self, queues: Mapping[int, QueueInfo]) -> None:
        """Add what is reserved here to other totals, which are compared with these."""
        for qid, requests in (
            task_runs for tasks in self._reserved.values() for task_runs in tasks.values()
        ):
            if qid in queues:
                add(queues[qid].reserved, requests, 1)

    def _charge(self, qid: int, requests: Requests, times: int) -> None:
        if (queue := self._cluster.queues.get(qid)) is not None:
            charge_total(queue, "reserved", requests, times)


def fillable(state: JobState) -> bool:
    """Whether backfill can do something for a task of the job: not while all that ask for nothing
    have gates of others."""
    return any(
        cls.best_effort
        and not gated(role)
        and state.states.find(TaskState.PENDING, role.first, role.first + role.count) >= 0
        for role, cls in zip(state.job.roles, state.info.classes, strict=True)
    )
