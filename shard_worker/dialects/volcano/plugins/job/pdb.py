"""pdb: evictions respect the PodDisruptionBudgets.

A budget allows so many evictions at the start of a session; each eviction of the session is
subtracted, and added back if it is undone.

Volcano follows an older form of the rule. Here it is that of policy/v1, where an empty selector
takes all pods of the namespace; and in shuffle budgets only protect, they never name victims.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.rules import EventHandler
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Preference
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.selector_index import LabelTerm, TermIndex
from shard_worker.session_model.status import COMPLETED, EVICTABLE, Status
from shard_worker.session_model.world import World
from shared.model.model import Role
from shared.model.storage import Budget
from shared.policy.model import PluginOption


class Pdb:
    name = "pdb"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(Preference.BUDGET)
        allowance = Allowance()
        ssn.add_preemptable_fn(lambda _, victims, world: allowance.within(victims, world))
        ssn.add_reclaimable_fn(lambda _, victims, world: allowance.within(victims, world))
        ssn.add_unified_evictable_fn(lambda _, victims, __, world: allowance.within(victims, world))
        ssn.add_victim_tasks_fn(evictable=allowance.within)
        ssn.add_event_handler(EventHandler(allocate=allowance.back, deallocate=allowance.gone))


class Allowance:
    """The number of further evictions that each budget of a world allows."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._budgets: list[Budget] = []
        self._selecting = TermIndex[int]()
        """Indices of budgets, searchable by the labels of the pods that they protect."""
        self._allowed: list[int] = []
        self._evicted: set[TaskInfo] = set()
        self._of: dict[int, tuple[Role, list[int]]] = {}
        """id(role) -> the role (a reference keeps the id unique) and the budgets of its pods."""

    def within(self, victims: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
        """The victims that the budgets allow together, taken in the given order."""
        self._read(world)
        remaining = list(self._allowed)
        allowed: list[TaskInfo] = []
        for victim in victims:
            concerned = self._budgets_of(victim)
            if all(remaining[at] > 0 for at in concerned):
                allowed.append(victim)
                for at in concerned:
                    remaining[at] -= 1
        return allowed

    def gone(self, task: TaskInfo) -> None:
        """Subtract an eviction of the session from its budgets."""
        if self._world is not None and task.status is Status.RELEASING:
            self._evicted.add(task)
            self._count(task, -1)

    def back(self, task: TaskInfo) -> None:
        """Add an undone eviction back to its budgets."""
        if task in self._evicted and task.status & EVICTABLE:
            self._evicted.remove(task)
            self._count(task, +1)

    def _count(self, task: TaskInfo, by: int) -> None:
        for at in self._budgets_of(task):
            self._allowed[at] += by

    def _read(self, world: World) -> None:
        """Compute, once per world, how many evictions each budget allows."""
        # Once for a world: evictions of the session move the allowance by events from then on, and
        # reading anew would count them twice.
        if world is self._world:
            return
        self._world = world
        self._evicted.clear()
        self._of.clear()
        self._budgets = list(world.objects.budgets.values())
        self._selecting = TermIndex()
        for at, budget in enumerate(self._budgets):
            self._selecting.add(at, LabelTerm((budget.namespace,), budget.selector))
        healthy, expected = [0] * len(self._budgets), [0] * len(self._budgets)
        if self._budgets:
            for task in world.linked_tasks():
                for at in self._budgets_of(task):
                    healthy[at] += task.status is Status.RUNNING
                    expected[at] += not task.status & COMPLETED
        self._allowed = [
            allowed(budget, healthy[at], expected[at]) for at, budget in enumerate(self._budgets)
        ]

    def _budgets_of(self, task: TaskInfo) -> list[int]:
        entry = self._of.get(id(task.role))
        if entry is None:
            labels = dict(task.role.labels)
            budgets = self._selecting.selecting(task.job.job.namespace, labels)
            entry = self._of[id(task.role)] = (task.role, budgets)
        return entry[1]


def allowed(budget: Budget, healthy: int, expected: int) -> int:
    """How many healthy pods may be evicted, given the expected number of pods.

    If the cluster reports its own count, that is used. Percentages are rounded up, as Kubernetes
    does for both kinds of limit.
    """
    if budget.allowed is not None:
        return max(budget.allowed, 0)
    if budget.max_unavailable:
        needed = expected - _amount(budget.max_unavailable, expected)
    else:
        needed = _amount(budget.min_available, expected)
    return max(healthy - needed, 0)


def _amount(share: str, whole: int) -> int:
    """ "3" is 3, "50%" half of ``whole`` rounded up, "" is 0."""
    if share.endswith("%"):
        return -(-int(share[:-1]) * whole // 100)
    return int(share or "0")
