"""A PodGroup as a tree: pod sets with a minimum of tasks, sets of sub groups with a minimum of
members, and the questions that KAI asks of them.

A task is placed in one of two phases. Until a set has enough satisfied members, its gang phase
takes all that the missing ones need, as one unit. After that a turn is one more task, or one more
whole sub group: so jobs grow side by side. Evictions go the other way round.

A minimum of members is a minimum of members everywhere; KAI forgets it in two places
(docs/decisions/0062).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from shard_worker.session_model.status import OCCUPYING, Status

ACTIVE = OCCUPYING | Status.PIPELINED
"""States that count for a minimum: the task has a place, or one was promised to it."""
IN_USE = ACTIVE | Status.RELEASING
"""States in which a task holds something."""
ALIVE = IN_USE | Status.PENDING


class GroupTask(Protocol):
    """The part of a task that the group rules read."""

    @property
    def status(self) -> Status: ...

    @property
    def gated(self) -> bool:
        """Whether it has a scheduling gate."""
        ...

    @property
    def evicted(self) -> bool:
        """Whether a statement of this session evicts it, so that it may be placed again."""
        ...


T = TypeVar("T", bound=GroupTask)

OrderKey = tuple[bool, bool, Fraction, str]


@dataclass(slots=True, eq=False)
class PodSet(Generic[T]):
    """A leaf: tasks, in task order, of which ``minimum`` make a gang."""

    name: str
    minimum: int
    tasks: Sequence[T]

    def number(self, states: Status) -> int:
        """Tasks in any of these states."""
        bits, number = states._value_, 0
        for task in self.tasks:  # asked of every victim of a search: a generator costs as much
            if task.status._value_ & bits:
                number += 1
        return number

    @property
    def satisfied(self) -> bool:
        return self.number(ACTIVE) >= self.minimum

    @property
    def gang_kept(self) -> bool:
        """Whether what holds resources is a whole gang."""
        return self.number(IN_USE) >= self.minimum

    @property
    def gated(self) -> int:
        """Tasks that wait behind a scheduling gate."""
        return sum(1 for task in self.tasks if task.gated and task.status is Status.PENDING)

    @property
    def ready(self) -> bool:
        """Whether there are tasks enough to be worth a try."""
        return self.number(ALIVE) - self.gated >= self.minimum

    @property
    def order_key(self) -> OrderKey:
        return order_key(
            self.name,
            satisfied=self.satisfied,
            held=self.number(ACTIVE),
            threshold=self.minimum,
        )

    def pod_sets(self) -> Iterator[PodSet[T]]:
        yield self


@dataclass(slots=True, eq=False)
class SubGroupSet(Generic[T]):
    """An inner node: pod sets and further sets, of which ``needed`` make a gang; None: all."""

    name: str
    members: Sequence[PodSet[T] | SubGroupSet[T]]
    needed: int | None = None

    @property
    def least(self) -> int:
        return len(self.members) if self.needed is None else self.needed

    @property
    def satisfied_members(self) -> int:
        return sum(member.satisfied for member in self.members)

    @property
    def satisfied(self) -> bool:
        return self.satisfied_members >= self.least

    @property
    def gang_kept(self) -> bool:
        return sum(member.gang_kept for member in self.members) >= self.least

    @property
    def ready(self) -> bool:
        return sum(member.ready for member in self.members) >= self.least

    @property
    def order_key(self) -> OrderKey:
        satisfied = self.satisfied_members
        return order_key(self.name, satisfied=self.satisfied, held=satisfied, threshold=self.least)

    def ordered(self) -> list[PodSet[T] | SubGroupSet[T]]:
        """The members in sub group order."""
        return sorted(self.members, key=lambda member: member.order_key)

    def pod_sets(self) -> Iterator[PodSet[T]]:
        """The leaves below, in the order of the members."""
        for member in self.members:
            yield from member.pod_sets()

    def tasks(self) -> Iterator[T]:
        for pod_set in self.pod_sets():
            yield from pod_set.tasks


def order_key(name: str, *, satisfied: bool, held: int, threshold: int) -> OrderKey:
    """Missing members first; then those of a minimum by how far they are beyond it, then those
    without one by how much they have."""
    if not satisfied:
        return False, False, Fraction(0), name
    return True, threshold == 0, Fraction(held, threshold or 1), name


# --- what one turn places -------------------------------------------------------------------------


def tasks_to_allocate(root: SubGroupSet[T], *, simulated: bool = False) -> list[T]:
    """The tasks that one turn places together, all or none. ``simulated``: also those that a
    statement evicts."""
    return _of_set(root, simulated)


def _of_set(group: SubGroupSet[T], simulated: bool) -> list[T]:
    missing = group.least - group.satisfied_members
    if missing <= 0:
        return next((tasks for m in group.ordered() if (tasks := _of(m, simulated))), [])
    ordered: list[T] = []
    for member in group.ordered():
        if missing and not member.satisfied and (tasks := _of(member, simulated)):
            ordered += tasks
            missing -= 1
    return ordered if not missing else []


def _of(member: PodSet[T] | SubGroupSet[T], simulated: bool) -> list[T]:
    if isinstance(member, SubGroupSet):
        return _of_set(member, simulated)
    waiting = [task for task in member.tasks if _placeable(task, simulated)]
    if simulated:
        # Who is evicted before who never had a place: the statement promises places to those that
        # move alone, and a gang whose minimum others made up for would be left in part.
        waiting.sort(key=_is_new)
    missing = member.minimum - member.number(ACTIVE)
    if missing <= 0:
        return waiting[:1]
    return waiting[:missing] if len(waiting) >= missing else []


def tasks_of(pod_set: PodSet[T]) -> list[T]:
    """The tasks of a pod set that one turn places together, all or none."""
    return _of(pod_set, simulated=False)


def _is_new(task: GroupTask) -> bool:
    return task.status is Status.PENDING


def _placeable(task: GroupTask, simulated: bool) -> bool:
    if task.status is Status.PENDING:
        return not task.gated
    return simulated and task.status is Status.RELEASING and task.evicted


# --- what one step evicts -------------------------------------------------------------------------


def tasks_to_evict(root: SubGroupSet[T], *, whole: bool = False) -> list[T]:
    """The tasks that go next, the least missed first: a surplus task, else a surplus sub group,
    else the whole job. ``whole``: nothing but the whole job."""
    return _active(root) if whole else _surplus_task(root) or _surplus_member(root) or _active(root)


def _surplus_task(group: SubGroupSet[T]) -> list[T]:
    for member in reversed(group.ordered()):
        if isinstance(member, SubGroupSet):
            if surplus := _surplus_task(member):
                return surplus
        elif member.number(ACTIVE) > member.minimum:
            return _active(member)[-1:]
    return []


def is_surplus(root: SubGroupSet[T], tasks: Sequence[T]) -> bool:
    """Whether what :func:`tasks_to_evict` said is one task beyond a minimum, which may go whatever
    became of others."""
    return tasks == _surplus_task(root)


def is_whole(group: PodSet[T] | SubGroupSet[T]) -> bool:
    """Whether every set of the tree holds its minimum or nothing."""
    if isinstance(group, PodSet):
        return not 0 < group.number(ACTIVE) < group.minimum
    if not any(pod_set.number(ACTIVE) for pod_set in group.pod_sets()):
        return True
    return group.satisfied and all(map(is_whole, group.members))


def _surplus_member(group: SubGroupSet[T]) -> list[T]:
    """All tasks of the last member that is not needed; of this set, else of a set below."""
    backwards = group.ordered()[::-1]
    if group.satisfied_members > group.least:
        return next((tasks for member in backwards if (tasks := _active(member))), [])
    below = (_surplus_member(member) for member in backwards if isinstance(member, SubGroupSet))
    return next((tasks for tasks in below if tasks), [])


def _active(member: PodSet[T] | SubGroupSet[T]) -> list[T]:
    bits = ACTIVE._value_
    return [
        task
        for pod_set in member.pod_sets()
        for task in pod_set.tasks
        if task.status._value_ & bits
    ]


# --- what a job is ------------------------------------------------------------------------------


class ElasticClass(IntEnum):
    """Where a job stands to its minimum; the smaller goes first."""

    BELOW = 0
    AT = 1
    ABOVE = 2


def elastic_class(root: SubGroupSet[T]) -> ElasticClass:
    """Classify a job: below the minimum of some pod set, at all minima, or above one."""
    above = False
    for pod_set in root.pod_sets():
        active = pod_set.number(ACTIVE)
        if active < pod_set.minimum:
            return ElasticClass.BELOW
        above |= active > pod_set.minimum
    return ElasticClass.ABOVE if above else ElasticClass.AT


def is_elastic(root: SubGroupSet[T]) -> bool:
    """Whether some pod set has more tasks than it needs."""
    return any(pod_set.minimum < len(pod_set.tasks) for pod_set in root.pod_sets())


def is_stale(root: SubGroupSet[T]) -> bool:
    """Whether a job holds resources and is not a whole gang any more. One of which a task has
    succeeded is about to end."""
    tasks = list(root.tasks())
    if any(task.status is Status.SUCCEEDED for task in tasks):
        return False
    bits = IN_USE._value_
    return any(task.status._value_ & bits for task in tasks) and not root.gang_kept


def must_wait(root: SubGroupSet[T]) -> bool:
    """Whether a turn's tasks only hold places: one of them was promised a place, and without those
    that were the gang is not there. Then nothing of the turn is bound."""
    return any(
        (waiting := pod_set.number(Status.PIPELINED))
        and pod_set.number(ACTIVE) - waiting < pod_set.minimum
        for pod_set in root.pod_sets()
    )
