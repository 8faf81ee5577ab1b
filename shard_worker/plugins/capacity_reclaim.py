"""Who gives back what a queue borrowed: capacity's answer to reclaim.

Candidates are judged in the order in which they would be evicted, each as if those before it had
left. A victim's queue has to keep what is guaranteed to it, and gives only where it has more than
it deserves in something that the victim uses. A victim that uses nothing of what its queue deserves
is there on sufferance, and may always go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shard_worker.queue_limits import Limits
from shard_worker.queue_tree import Branch, own_side
from shard_worker.workload import Amounts, add
from shared.model import Requests
from shared.resources import EPSILON, greater_partly_on, less_equal, less_equal_partly_on
from shared.slots import MEMORY, PODS

if TYPE_CHECKING:
    from shard_worker.tasks import TaskInfo


@dataclass(slots=True)
class Reclaim:
    """One question: the candidates, for one reclaimer. ``level``: how many parents count."""

    branches: Mapping[int, Branch]
    reclaimer: Branch
    asked: Requests
    gives: Callable[[TaskInfo], Requests]
    """What a task gives back, devices counted where they are."""
    level: int
    has: Callable[[Branch], Amounts]
    """What a queue and those below it use now."""
    left: dict[int, Amounts] = field(default_factory=dict)
    """What queues would still have, where victims were taken from them."""

    def victims(self, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Those that may go, in the order of the candidates."""
        return [task for task in candidates if self._may_go(task)]

    def _may_go(self, task: TaskInfo) -> bool:
        queue = task.job.queue
        branch = None if queue is None else self.branches.get(queue.queue.qid)
        if branch is None or branch is self.reclaimer:
            return False
        gives = dict(self.gives(task))
        if not _in_common(gives, dict(self.asked)) or not self._signal(branch):
            return False
        side = own_side(branch, self.reclaimer)
        if not all(self._keeps_guarantee(at, gives) for at in side):
            return False
        if not all(self._borrows(at, gives) for at in side[: 1 + self.level]):
            return False
        for at in (branch, *branch.above):
            add(self._left(at), gives.items(), -1)
        return True

    def _signal(self, victim: Branch) -> bool:
        """With ``level``, the reclaimer's right may come from a queue above it: one that is above
        the victim's as well gives it none against that one."""
        if not self.level:
            return True
        side = own_side(self.reclaimer, victim)[: 1 + self.level]
        return any(deserves_more(at, self.has(at), self.asked) for at in side)

    def _keeps_guarantee(self, branch: Branch, gives: Amounts) -> bool:
        keeps = dict(self._left(branch))
        add(keeps, gives.items(), -1)
        return less_equal(dict(branch.queue.guarantee), keeps)

    def _borrows(self, branch: Branch, gives: Amounts) -> bool:
        """It has more than it deserves of something that the victim uses, or deserves nothing that
        it uses."""
        if not any(_deserves(branch.deserved, slot) for slot, amount in gives.items() if amount):
            return True
        return greater_partly_on(self._left(branch), branch.deserved, gives)

    def _left(self, branch: Branch) -> Amounts:
        known = self.left.get(branch.qid)
        if known is None:
            known = self.left[branch.qid] = dict(self.has(branch))
        return known


def deserves_more(branch: Branch, has: Amounts, asked: Requests) -> bool:
    """In something of what is asked for it would have no more than it deserves."""
    future = {slot: has.get(slot, 0) + amount for slot, amount in asked}
    return less_equal_partly_on(future, branch.deserved, dict(asked))


def _in_common(one: Amounts, other: Amounts) -> bool:
    """Is there anything, beside their places among a node's pods, that both use?"""
    return any(
        amount > 0 and one.get(slot, 0) > 0 for slot, amount in other.items() if slot != PODS
    )


def _deserves(deserved: Limits, slot: int) -> bool:
    """Is it said what it deserves of this? Of cpu and memory, 0 is as good as not said."""
    return slot in deserved if slot > MEMORY else deserved.get(slot, 0) >= EPSILON
