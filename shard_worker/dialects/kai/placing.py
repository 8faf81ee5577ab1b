"""Place the tasks of one turn, sub group by sub group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shard_worker.dialects.kai.devices import choice_at
from shard_worker.dialects.kai.model import KaiJob, Member
from shard_worker.dialects.kai.rules.groups import PodSet
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask
from shard_worker.framework.statement import WorldStatement
from shard_worker.kube_scheduler.devices.claims import concerned
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo


@dataclass(slots=True)
class Placing:
    """One turn of one job. What a failed set of nodes had placed is rolled back; the statement has
    only what stays."""

    ssn: KaiSession
    statement: WorldStatement
    job: KaiJob
    only_promises: bool = False
    """Whether nothing is bound, even where there is room now."""

    def place(self, group: Member, tasks: Sequence[TaskInfo], within: Mask) -> bool:
        """Place these tasks of a group, all of them on one of its sets of nodes."""
        for nodes in self.ssn.node_sets(self.job, group, tasks, within):
            checkpoint = self.statement.checkpoint
            if self._on(group, tasks, nodes):
                return True
            self.statement.rollback(checkpoint)
        return False

    def _on(self, group: Member, tasks: Sequence[TaskInfo], nodes: Mask) -> bool:
        if isinstance(group, PodSet):
            return self.put_all(tasks, nodes)
        for member in group.ordered():
            own = {id(task) for pod_set in member.pod_sets() for task in pod_set.tasks}
            its_tasks = [task for task in tasks if id(task) in own]
            if its_tasks and not self.place(member, its_tasks, nodes):
                return False
        return True

    def put_all(self, tasks: Sequence[TaskInfo], nodes: Mask) -> bool:
        """Put each task on the best node that takes it; False where one finds none."""
        return all(self._put(task, nodes) for task in tasks)

    def _put(self, task: TaskInfo, nodes: Mask) -> bool:
        """Put the task on the best node that takes it; False where none does."""
        ssn, world = self.ssn, self.ssn.world
        reason = ssn.pre_predicate(task)
        if reason is not None:
            self._failed(task, {reason: int(nodes.sum())})
            return False
        candidates = feasible(ssn, task, within=nodes)
        if not candidates.mask.any():
            self._failed(task, candidates.reasons)
            return False
        row = self._best(task, nodes, candidates.mask)
        if self.only_promises:
            self.statement.pipeline(task, row)
            return True
        devices = choice_at(task, row, world, ssn.gpu_score)
        now = (devices is None or devices.now) and not self._claims_wait(task, row)
        if now and world.fits_idle_at(task.cls, row):
            self.statement.allocate(task, row)
        else:
            self.statement.pipeline(task, row)
        return True

    def _claims_wait(self, task: TaskInfo, row: int) -> bool:
        """Whether devices that the task claims may still be with pods that this session evicts."""
        claims = self.ssn.claim_filter
        return concerned(task.cls) and claims is not None and claims.waits_at(row)

    def _best(self, task: TaskInfo, nodes: Mask, fits: Mask) -> int:
        """The fitting row of the highest score, of equals the first by name. All nodes of the set
        are scored: the range of a score may depend on those without room."""
        rows = np.flatnonzero(nodes & self.ssn.world.view.exists())
        scores = self.ssn.node_scores(task, rows)
        choice = fits[rows]
        rows, scores = rows[choice], scores[choice]
        equals = rows[scores == scores.max()]
        return int(equals[np.argmin(self.ssn.world.name_order()[equals])])

    def _failed(self, task: TaskInfo, reasons: dict[str, int]) -> None:
        job = self.job.job
        # What a search tries is no verdict on the job, or on its victims.
        if not self.only_promises and not job.unschedulable:
            job.unschedulable, job.failed_role = reasons, task.role.name
