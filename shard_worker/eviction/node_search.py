"""A node for one task, for preempt and reclaim: a free one, or one cleared by evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.eviction.disruption import (
    complete_units,
    leaves_whole,
    unit_may_go,
    unit_of,
)
from shard_worker.eviction.refusals import Tests, may_go
from shard_worker.eviction.victims import (
    fits_now,
    in_order,
    inhabited,
    reason,
    settle,
    shard_groups,
    suffice,
    victim_queue,
    waiting_tasks,
)
from shard_worker.framework.rules import Mask
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import choose, feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import EVICTABLE

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

Rules = Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]]
"""(evictor, candidates) -> the victims that the policy's plugins allow."""


class NodeSearch:
    """Writes the evictions and the pipelined tasks of one job into one statement. An action says
    for which tasks it may evict, and may choose among the nodes."""

    def __init__(
        self, ssn: Session, statement: WorldStatement, *, action: str, tests: Tests, rules: Rules
    ) -> None:
        self.failed: TaskInfo | None = None
        """The first task that found no node."""
        self._ssn = ssn
        self._statement = statement
        self._action = action
        self._tests = tests
        self._rules = rules
        self._hopeless: set[int] = set()
        """Roles (by identity) with a task that found no node since evictions last made room."""

    def eligible(self, task: TaskInfo) -> bool:
        """Whether the action may place the task and evict others for it."""
        raise NotImplementedError

    def serve(self, job: SessionJob) -> bool:
        """Place tasks of the job until it no longer starves; all or nothing. True if it was
        kept."""
        tasks = waiting_tasks(self._ssn, job)
        while tasks and self._ssn.job_starving(job):
            self.place(tasks.pop())
        return settle(self._ssn, self._statement, job, self._action)

    def place(self, task: TaskInfo) -> bool:
        """Pipeline the task to a node, with the evictions that this takes. If it returns False
        nothing changed.

        Nodes that need no eviction come first; then, with evictions, the own shard's, then others.
        """
        if id(task.role) in self._hopeless or not self.eligible(task):
            return False
        # Volcano looks at one node after the other and evicts on the first where that helps, though
        # the next may be free. Its order of nodes is random there, so that a free one first is one
        # of its outcomes (decision 0034).
        if self.take_free(task):
            return True
        if any(self.among(task, rows) for rows in self.groups(task)):
            # Evictions may have made room that a task of another role can use too.
            self._hopeless.clear()
            return True
        self._hopeless.add(id(task.role))
        self.failed = self.failed or task
        return False

    def among(self, task: TaskInfo, rows: Mask) -> bool:
        """Use the first of these nodes on which evictions help."""
        return any(self.clear(task, row) for row in np.flatnonzero(rows).tolist())

    def fits(self, task: TaskInfo, row: int) -> bool:
        """Whether there is room for the task now."""
        return fits_now(self._ssn, task, row)

    def take_free(self, task: TaskInfo) -> bool:
        """Pipeline the task to a node that needs no eviction; False for none."""
        free = choose(self._ssn, task, feasible(self._ssn, task).mask)
        if free is not None:
            self._statement.pipeline(task, free[0])
        return free is not None

    def groups(self, task: TaskInfo) -> Iterator[Mask]:
        """The nodes that evictions could clear for the task: first the own shard's, then
        others'."""
        world = self._ssn.world
        for rows in shard_groups(world, feasible(self._ssn, task, cure=True).mask):
            yield inhabited(world, rows)

    def clear(self, task: TaskInfo, row: int) -> bool:
        """Evict on one node until the task fits, and pipeline it. False: nothing changed."""
        ssn, statement = self._ssn, self._statement
        victims = self.candidates(task, row)
        if not victims:
            return False
        # `fits` is asked before the first eviction as well: earlier ones of this statement may have
        # freed enough here.
        before, order = statement.checkpoint, victim_queue(ssn, task.job, victims)
        while not self.fits(task, row):
            if not order:
                statement.rollback(before)
                return False
            victim = order.pop()
            if victim.status & EVICTABLE:  # it may have left with another of its job
                self.evict(victim, task)
        statement.pipeline(task, row)
        return True

    def candidates(self, task: TaskInfo, row: int) -> list[TaskInfo]:
        """The tasks that all rules allow to evict on a node; empty where all of them do not
        suffice. A task that leaves with others counts if all of these may leave."""
        ssn, world = self._ssn, self._ssn.world
        residents = [other for other in world.tasks_on(row) if self._may_go(other, task)]
        # Twice: of everybody who could leave, which spares the rules a node that can never do, and
        # of those whom the rules let go.
        if not residents or not suffice(world, task, row, residents):
            return []
        if not any(map(leaves_whole, residents)):
            victims = self._rules(task, in_order(ssn, task.job, residents))
        else:
            leaving = {id(other): other for one in residents for other in unit_of(one)}
            victims = self._rules(task, in_order(ssn, task.job, leaving.values()))
            victims = [victim for victim in complete_units(victims) if victim.row == row]
        return victims if suffice(world, task, row, victims) else []

    def _may_go(self, victim: TaskInfo, task: TaskInfo) -> bool:
        if not may_go(self._tests, victim, task):
            return False
        if not leaves_whole(victim):
            return True
        return victim.job is not task.job and unit_may_go(
            self._ssn.world, victim, lambda other: may_go(self._tests, other, task)
        )

    def evict(self, victim: TaskInfo, task: TaskInfo) -> None:
        """Evict a victim, with all that leave with it."""
        why = reason(self._ssn, self._action, task.key)
        for other in unit_of(victim):
            self._statement.evict(other, why)
