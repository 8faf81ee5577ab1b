"""pdb: evictions keep to the PodDisruptionBudgets.

A budget allows so many evictions at the start of a session; each of the session's own is taken off,
and comes back where it is undone.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.rules import EventHandler
from shard_worker.session import Session
from shard_worker.session_job import matches
from shard_worker.tasks import COMPLETED, EVICTABLE, Status, TaskInfo
from shard_worker.world import World
from shared.model import Budget, Role
from shared.policy import PluginOption


class Pdb:
    name = "pdb"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        allowance = Allowance()
        ssn.add_preemptable_fn(lambda _, victims, world: allowance.within(victims, world))
        ssn.add_reclaimable_fn(lambda _, victims, world: allowance.within(victims, world))
        ssn.add_unified_evictable_fn(lambda _, victims, __, world: allowance.within(victims, world))
        ssn.add_victim_tasks_fn(spare=allowance.within)
        ssn.add_event_handler(EventHandler(allocate=allowance.back, deallocate=allowance.gone))


class Allowance:
    """How many more evictions each budget of a world allows."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._budgets: list[Budget] = []
        self._allowed: list[int] = []
        self._evicted: set[TaskInfo] = set()
        self._of: dict[int, tuple[Role, list[int]]] = {}
        """Identity of a role -> the role, so that it lives, and the budgets of its pods."""

    def within(self, victims: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
        """Those of the victims that the budgets allow together, as named."""
        self._read(world)
        left = list(self._allowed)
        taken: list[TaskInfo] = []
        for victim in victims:
            concerned = self._budgets_of(victim)
            if all(left[at] > 0 for at in concerned):
                taken.append(victim)
                for at in concerned:
                    left[at] -= 1
        return taken

    def gone(self, task: TaskInfo) -> None:
        """The session evicted a task."""
        if self._world is not None and task.status is Status.RELEASING:
            self._evicted.add(task)
            self._count(task, -1)

    def back(self, task: TaskInfo) -> None:
        """The session took an eviction back."""
        if task in self._evicted and task.status & EVICTABLE:
            self._evicted.remove(task)
            self._count(task, +1)

    def _count(self, task: TaskInfo, by: int) -> None:
        for at in self._budgets_of(task):
            self._allowed[at] += by

    def _read(self, world: World) -> None:
        """Count, once for each world, what the budgets allow."""
        if world is self._world:
            return
        self._world = world
        self._evicted.clear()
        self._of.clear()
        self._budgets = list(world.objects.budgets.values())
        healthy, expected = [0] * len(self._budgets), [0] * len(self._budgets)
        if self._budgets:
            for task in world.tasks():
                for at in self._budgets_of(task):
                    healthy[at] += task.status is Status.RUNNING
                    expected[at] += not task.status & COMPLETED
        self._allowed = [
            allowed(budget, healthy[at], expected[at]) for at, budget in enumerate(self._budgets)
        ]

    def _budgets_of(self, task: TaskInfo) -> list[int]:
        known = self._of.get(id(task.role))
        if known is None:
            namespace, labels = task.job.job.namespace, dict(task.role.labels)
            found = [
                at
                for at, budget in enumerate(self._budgets)
                if budget.namespace == namespace and matches(budget.selector, labels)
            ]
            known = self._of[id(task.role)] = (task.role, found)
        return known[1]


def allowed(budget: Budget, healthy: int, expected: int) -> int:
    """How many of the healthy pods may be evicted, of as many as there should be.

    Where the cluster's own count is told, that is the answer. Shares are rounded up, as Kubernetes
    does for both kinds of limit."""
    if budget.allowed is not None:
        return max(budget.allowed, 0)
    if budget.max_unavailable:
        needed = expected - _amount(budget.max_unavailable, expected)
    else:
        needed = _amount(budget.min_available, expected)
    return max(healthy - needed, 0)


def _amount(share: str, whole: int) -> int:
    """ "3" is 3, "50%" half of the whole, "" nothing."""
    if share.endswith("%"):
        return -(-int(share[:-1]) * whole // 100)
    return int(share or "0")
