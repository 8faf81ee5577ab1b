"""capacity's rule for reclaim: which tasks a queue has to give back.

Candidates are judged in eviction order, each as if those before it had left. A victim's queue keeps
its guarantee, and gives back only if it has more than it deserves of something that the victim
uses. A victim that uses none of the resources that its queue deserves may always be evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shard_worker.session_model.queue_limits import Limits
from shard_worker.session_model.queue_tree import Branch, own_side
from shard_worker.session_model.workload import Amounts, add
from shared.model.model import Requests
from shared.units.resources import EPSILON, greater_partly_on, less_equal, less_equal_partly_on
from shared.units.slots import MEMORY, PODS

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo


@dataclass(slots=True)
class Reclaim:
    """The judgement of candidates for one reclaimer. ``level``: number of ancestors that
    count too."""

    branches: Mapping[int, Branch]
    reclaimer: Branch
    requests: Requests
    gives: Callable[[TaskInfo], Requests]
    """Amounts that evicting a task frees, with devices if they count."""
    level: int
    has: Callable[[Branch], Amounts]
    """Present usage of a queue and those below it."""
    remaining: dict[int, Amounts] = field(default_factory=dict)
    """Amounts left to the queues that victims were taken from."""

    def victims(self, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """The candidates that may be evicted, in the given order."""
        return [task for task in candidates if self._may_go(task)]

    def _may_go(self, task: TaskInfo) -> bool:
        queue = task.job.queue
        branch = None if queue is None else self.branches.get(queue.queue.qid)
        if branch is None or branch is self.reclaimer:
            return False
        gives = dict(self.gives(task))
        # Volcano's conditions in its order: evicting what the reclaimer does not ask for gains it
        # nothing.
        if not _in_common(gives, dict(self.requests)) or not self._signal(branch):
            return False
        # Queues above both keep what they have, whichever of their children uses it.
        side = own_side(branch, self.reclaimer)
        if not all(self._keeps_guarantee(at, gives) for at in side):
            return False
        if not all(self._borrows(at, gives) for at in side[: 1 + self.level]):
            return False
        # Counted as gone for the next candidate: one call may name several of one queue.
        for at in (branch, *branch.above):
            add(self._left(at), gives.items(), -1)
        return True

    def _signal(self, victim: Branch) -> bool:
        """Whether the reclaimer may take from this victim's queue. With ``level`` the entitlement
        may come from an ancestor, unless that is also an ancestor of the victim's queue."""
        if not self.level:
            return True
        side = own_side(self.reclaimer, victim)[: 1 + self.level]
        return any(deserves_more(at, self.has(at), self.requests) for at in side)

    def _keeps_guarantee(self, branch: Branch, gives: Amounts) -> bool:
        keeps = dict(self._left(branch))
        add(keeps, gives.items(), -1)
        return less_equal(dict(branch.queue.guarantee), keeps)

    def _borrows(self, branch: Branch, gives: Amounts) -> bool:
        """Whether the queue has more than it deserves of something that the victim uses, or
        deserves none of it."""
        # Volcano's "immediate" victim: nothing that the queue deserves is taken by it.
        if not any(_deserves(branch.deserved, slot) for slot, amount in gives.items() if amount):
            return True
        return greater_partly_on(self._left(branch), branch.deserved, gives)

    def _left(self, branch: Branch) -> Amounts:
        amounts = self.remaining.get(branch.qid)
        if amounts is None:
            amounts = self.remaining[branch.qid] = dict(self.has(branch))
        return amounts


def deserves_more(branch: Branch, has: Amounts, requests: Requests) -> bool:
    """Whether in some requested resource the queue would stay within what it deserves."""
    future = {slot: has.get(slot, 0) + amount for slot, amount in requests}
    return less_equal_partly_on(future, branch.deserved, dict(requests))


def _in_common(first: Amounts, second: Amounts) -> bool:
    """Whether both use some resource other than pod slots."""
    return any(
        amount > 0 and first.get(slot, 0) > 0 for slot, amount in second.items() if slot != PODS
    )


def _deserves(deserved: Limits, slot: int) -> bool:
    """Whether a deserved amount is set for the resource. For cpu and memory, 0 counts as not
    set."""
    return slot in deserved if slot > MEMORY else deserved.get(slot, 0) >= EPSILON
