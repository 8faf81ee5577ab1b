"""A node for one task, for preempt and reclaim: a free one, or one cleared by evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from shard_worker.eviction.refusals import Tests, may_go
from shard_worker.eviction.victims import (
    in_order,
    inhabited,
    reason,
    shard_groups,
    suffice,
    victim_queue,
)
from shard_worker.framework.rules import Mask
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import choose, feasible
from shard_worker.session_model.job import TaskInfo

if TYPE_CHECKING:
    from shard_worker.framework.session import Session

Rules = Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]]
"""(evictor, candidates) -> the victims that the policy's plugins allow."""


class NodeSearch:
    """Writes the evictions and the pipelined tasks of one job into one statement."""

    def __init__(
        self, ssn: Session, statement: WorldStatement, *, action: str, tests: Tests, rules: Rules
    ) -> None:
        self._ssn = ssn
        self._statement = statement
        self._action = action
        self._tests = tests
        self._rules = rules

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

    def clear(
        self, task: TaskInfo, row: int, fits: Callable[[Session, TaskInfo, int], bool]
    ) -> bool:
        """Evict on one node until the task fits, and pipeline it. False: nothing changed."""
        ssn, statement = self._ssn, self._statement
        victims = self.candidates(task, row)
        if not victims:
            return False
        before, order = statement.checkpoint, victim_queue(ssn, task.job, victims)
        while not fits(ssn, task, row):
            if not order:
                statement.rollback(before)
                return False
            self.evict(order.pop(), task)
        statement.pipeline(task, row)
        return True

    def candidates(self, task: TaskInfo, row: int) -> list[TaskInfo]:
        """The tasks that all rules allow to evict on a node; empty where all of them do not
        suffice."""
        ssn, world = self._ssn, self._ssn.world
        there = [other for other in world.tasks_on(row) if may_go(self._tests, other, task)]
        if not there or not suffice(world, task, row, there):
            return []
        victims = self._rules(task, in_order(ssn, task.job, there))
        return victims if suffice(world, task, row, victims) else []

    def evict(self, victim: TaskInfo, task: TaskInfo) -> None:
        self._statement.evict(victim, reason(self._ssn, self._action, task.key))
