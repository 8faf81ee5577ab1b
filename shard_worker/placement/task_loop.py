"""Place tasks of one sub-job, one after the other in order, on the nodes of one domain.

The loop of Volcano's allocate: until the sub-job is ready, or a task that it needs fails. The
placements stay if the sub-job is ready or pipelined with them, else they are undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.placement.candidates import choose
from shard_worker.placement.error_cache import ErrorCache
from shard_worker.placement.gradient import is_idle
from shard_worker.placement.plain_class import plain_classes
from shard_worker.session_model.job import Census
from shard_worker.session_model.queue_totals import opens_gate
from shard_worker.session_model.status import READY, Status

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.framework.statement import WorldStatement
    from shard_worker.placement.worksheet import SubSheet
    from shard_worker.session_model.job import SubJob, TaskInfo
    from shard_worker.view.hyper_tree import HyperTree


@dataclass(slots=True)
class FillResult:
    """The result of the loop."""

    accepted: bool = False
    """The sub-job is ready or pipelined; its placements are in the statement."""
    role: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the first task without a node found none: reason -> nodes."""
    over_quota: int = 0
    """Tasks that the queue does not admit."""
    gated: int = 0
    """Tasks with a scheduling gate."""


class Filling:
    """One turn of one sub-job in one domain."""

    def __init__(
        self,
        ssn: Session,
        statement: WorldStatement,
        sheet: SubSheet,
        *,
        tree: HyperTree | None = None,
        within: Mask | None = None,
    ) -> None:
        """``within`` None: on any node. ``tree``: record the domains that the tasks reach."""
        self.ssn = ssn
        self.statement = statement
        self.sheet = sheet
        self.sub = sheet.sub
        self.tree = None if self.sub.topology is None else tree
        self.within = within
        self.rows = None if within is None else np.flatnonzero(within)
        self.cache = ErrorCache(ssn, "allocate")
        self.found = FillResult()

    def run(self) -> FillResult:
        ssn, sub, sheet = self.ssn, self.sub, self.sheet
        start = self.statement.checkpoint
        sub.reached_hyper_node = sub.allocated_hyper_node
        while len(sheet):
            task = sheet.tasks[sheet.at]
            sheet.at += 1
            if not self._may_try(task):
                continue
            if self._fails(task):
                if not goes_on(sub, sheet.failed):
                    break
                continue
            if ssn.sub_ready(sub):
                # Ready is enough for this turn, as in Volcano: elastic members come in later ones,
                # behind other jobs.
                break
        self.found.accepted = ssn.sub_ready(sub) or ssn.sub_pipelined(sub)
        if not self.found.accepted:
            self.statement.rollback(start)
        return self.found

    def _may_try(self, task: TaskInfo) -> bool:
        """Whether to try the task. Not if its queue does not admit it, it has a scheduling gate, or
        a task of its role failed."""
        queue = self.sub.job.queue
        if queue is not None and not self.ssn.task_allocatable(queue, task):
            self.found.over_quota += 1
            return False
        if task.role.gated:
            self.found.gated += 1
            if opens_gate(task.role):
                self.ssn.ungate(task)
            return False
        return not (task.role.name and task.role.name in self.sheet.failed)

    def _fails(self, task: TaskInfo) -> bool:
        """Place the task; True if no node takes it at all."""
        reason = self.ssn.pre_predicate(task)
        if reason is not None:
            self._failed(task, {reason: self._looked()})
            return True
        mask = self._nominated(task)
        if mask is None and self._put_plain(task):
            return False
        if mask is None:
            candidates = self.cache.feasible(task, within=self.within)
            mask = candidates.mask
            if not mask.any():
                self._failed(task, candidates.reasons)
                return True
        choice = choose(self.ssn, task, mask)
        if choice is not None:
            self._put(task, choice[0], now=is_idle(choice[1]))
        return False

    def _put_plain(self, task: TaskInfo) -> bool:
        """Place a task of a plain class on the best node of its domain, as :func:`choose` would."""
        # What the compiled class does not know: scores by where the rest of a sub job is, and of a
        # role with several classes the error cache, which decides as in Volcano.
        if self.sub.topology is not None or task.role.name in self.sheet.mixed:
            return False
        if self.rows is not None and not len(self.rows):
            return False
        choice = plain_classes(self.ssn).choose(task, self.rows)
        if choice is None:
            return False
        self._put(task, choice[0], now=is_idle(choice[1]))
        return True

    def _put(self, task: TaskInfo, row: int, *, now: bool) -> None:
        if now:
            self.statement.allocate(task, row)
        else:
            self.statement.pipeline(task, row)
        if self.tree is not None:
            sub = self.sub
            sub.reached_hyper_node = self.tree.lca(sub.reached_hyper_node, self.tree.leaf_of(row))

    def _nominated(self, task: TaskInfo) -> Mask | None:
        """A mask of the node of the task's nomination, if it still fits there; None for all
        nodes."""
        row = task.nominated
        if row < 0 or (self.within is not None and not self.within[row]):
            return None
        if not self.ssn.world.fits_future(task.cls)[row]:
            return None
        alone = np.zeros(self.ssn.world.size, np.bool_)
        alone[row] = True
        mask = self.cache.feasible(task, within=alone).mask
        return mask if mask.any() else None

    def _failed(self, task: TaskInfo, reasons: dict[str, int]) -> None:
        if not self.found.reasons:
            self.found.role, self.found.reasons = task.role.name, reasons
        self.sheet.failed[task.role.name] = None

    def _looked(self) -> int:
        exists = self.ssn.world.view.exists()
        return int((exists if self.within is None else exists & self.within).sum())


def goes_on(sub: SubJob, failed: Iterable[str]) -> bool:
    """Whether the other tasks of a sub-job are worth a try after these roles failed.

    No, if every task of the job, or of the sub-job, is needed. Yes, if there are several sub-jobs.
    If the job's minimum is below the sum of its roles', the placed tasks and the rest of the other
    roles have to reach it. Else each role that failed must have reached its own minimum.
    """
    job = sub.job
    if job.minimum == len(job.tasks) or sub.minimum >= len(sub.tasks):
        return False
    if job.has_sub_groups:
        return True
    roles = job.by_role
    if job.roles_bypassed:
        pending = sum(c.by_status[Status.PENDING] for r, c in roles.items() if r not in failed)
        return job.census.ready + pending >= job.minimum
    minima = dict(job.job.role_minima)
    return all(_present(roles[role]) >= minima.get(role, 0) for role in failed)


def _present(role: Census) -> int:
    """Members of a role that are placed, or are best-effort."""
    return role.of(READY) + role.pending_best_effort
