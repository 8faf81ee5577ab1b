"""Preemption by dry run: the victims that each node needs for a task, and the least harmful node.

Each dry run works on the world itself and is undone. First victims are evicted, least important
first, until the task fits by every rule, rules about neighbours included; then, most important
first, each is put back if the task still fits without evicting it. Plugins get every step as an
event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shard_worker.eviction.victims import fits_now, victim_queue
from shard_worker.framework.extension_points import (
    SIMULATE_ADD_TASK,
    SIMULATE_PREDICATE,
    SIMULATE_REMOVE_TASK,
)
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.job import TaskInfo

if TYPE_CHECKING:
    from shard_worker.framework.session import Session

LIFT = 1 << 31
"""Added to each priority of a sum, so that fewer victims are less harm for negative priorities
too."""


@dataclass(frozen=True, slots=True)
class DryRunLimits:
    """The arguments of the action preempt."""

    topology_aware: bool = False
    percentage: int = 10
    at_least: int = 1
    at_most: int = 100

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> DryRunLimits:
        def whole(name: str, default: int) -> int:
            value = arguments.get(name, default)
            return value if isinstance(value, int) else default

        return cls(
            topology_aware=arguments.get("enableTopologyAwarePreemption") is True,
            percentage=whole("minCandidateNodesPercentage", 10),
            at_least=whole("minCandidateNodesAbsolute", 1),
            at_most=whole("maxCandidateNodesAbsolute", 100),
        )

    def candidates(self, nodes: int) -> int:
        """Number of suitable nodes that end the search."""
        count = max(nodes * self.percentage // 100, self.at_least)
        return max(min(count, self.at_most, nodes), 1)


@dataclass(frozen=True, slots=True)
class DryRun:
    """A suitable node and its victims."""

    row: int
    victims: tuple[TaskInfo, ...]

    @property
    def harm(self) -> tuple[int, int, int, float]:
        """Sort key, smaller is better: the highest priority among the victims, the sum of
        priorities, their number; then the shorter running time of the most important one."""
        if not self.victims:
            return (-LIFT, 0, 0, 0.0)
        # kube-scheduler's order of candidates, which Volcano's topology-aware preempt takes over:
        # who loses a young pod loses the least work.
        highest = max(victim.priority for victim in self.victims)
        return (
            highest,
            sum(victim.priority + LIFT for victim in self.victims),
            len(self.victims),
            -min(_since(victim) for victim in self.victims if victim.priority == highest),
        )


def topology_aware(
    ssn: Session,
    task: TaskInfo,
    rows: Sequence[int],
    victims_on: Callable[[TaskInfo, int], list[TaskInfo]],
    limits: DryRunLimits,
) -> DryRun | None:
    """The least harmful of the first suitable nodes in ``rows``; None if there is none."""
    trials: list[DryRun] = []
    enough = limits.candidates(len(rows))
    for row in rows:
        victims = victims_on(task, row)
        tried = dry_run(ssn, task, row, victims) if victims else None
        if tried is not None:
            trials.append(tried)
            # Volcano begins at a random node; here candidates come by score, so that the same
            # cluster gives the same victims (docs/from-volcano.md).
            if len(trials) >= enough:
                break
    return min(trials, key=lambda tried: tried.harm, default=None)


def dry_run(
    ssn: Session, task: TaskInfo, row: int, candidates: Sequence[TaskInfo]
) -> DryRun | None:
    """The victims among the candidates that the task needs to fit the node; None if all of them do
    not suffice. The world is unchanged."""
    trial = _NodeTrial(ssn, task, row)
    order = victim_queue(ssn, task.job, candidates)
    possible = True
    while possible and not trial.fits():
        possible = bool(order) and trial.remove(order.pop())
    if possible:
        trial.reprieve()
    victims = tuple(trial.gone)
    trial.undo()
    return DryRun(row, victims) if possible else None


class _NodeTrial:
    """Evicts victims on one node and puts them back."""

    def __init__(self, ssn: Session, task: TaskInfo, row: int) -> None:
        self._ssn = ssn
        self._task = task
        self._row = row
        self._statement = WorldStatement(ssn)
        self.gone: list[TaskInfo] = []

    def fits(self) -> bool:
        ssn, queue = self._ssn, self._task.job.queue
        return (
            queue is not None
            and ssn.simulate_allocatable(queue, self._task)
            and ssn.task_allocatable(queue, self._task)
            and fits_now(ssn, self._task, self._row)
            and ssn.simulate(SIMULATE_PREDICATE, self._task, self._row) is None
        )

    def remove(self, victim: TaskInfo) -> bool:
        self._statement.evict(victim, "dry run")
        self.gone.append(victim)
        return self._ssn.simulate(SIMULATE_REMOVE_TASK, self._task, victim, self._row) is None

    def add(self, victim: TaskInfo) -> bool:
        self._statement.give_back(victim)
        self.gone.remove(victim)
        return self._ssn.simulate(SIMULATE_ADD_TASK, self._task, victim, self._row) is None

    def reprieve(self) -> None:
        """Put back victims that are not needed: higher priority first, then longer running."""
        # Evicting went by the order of victims, which may take small ones before the one that makes
        # the room: whoever was evicted for nothing comes back here.
        for victim in sorted(self.gone, key=lambda victim: (-victim.priority, _since(victim))):
            if not (self.add(victim) and self.fits()):
                self.remove(victim)

    def undo(self) -> None:
        for victim in list(self.gone):
            self.add(victim)


def _since(task: TaskInfo) -> float:
    return task.started or task.created
