"""Jobs whose members are one victim: all of them are evicted by one statement, or none is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import EVICTABLE, OCCUPYING, Status

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob
    from shard_worker.session_model.world import World

_PLACED = OCCUPYING | Status.PIPELINED


def leaves_whole(task: TaskInfo) -> bool:
    return task.job.job.leaves_whole


def unit_of(victim: TaskInfo) -> list[TaskInfo]:
    """The tasks that leave together with a victim, itself included."""
    if not leaves_whole(victim):
        return [victim]
    return [task for task in victim.job.tasks if task.status & OCCUPYING]


def unit_may_go(world: World, victim: TaskInfo, may_go: Callable[[TaskInfo], bool]) -> bool:
    """Whether all that must leave with the victim may be evicted: a nominated member, or one on a
    node out of reach, keeps the whole job."""
    reach = world.in_reach()
    return all(
        bool(task.status & EVICTABLE) and bool(reach[task.row]) and may_go(task)
        for task in victim.job.tasks
        if task.status & _PLACED
    )


def is_complete(job: SessionJob, named: int) -> bool:
    """Whether so many of its members are all that occupy a node."""
    return named >= job.census.of(OCCUPYING)


def complete_units(victims: Iterable[TaskInfo]) -> list[TaskInfo]:
    """The victims without those of jobs that would leave in part and must not."""
    victims = list(victims)
    named = Counter(id(v.job) for v in victims if leaves_whole(v) and v.status & OCCUPYING)
    if not named:
        return victims
    return [v for v in victims if not leaves_whole(v) or is_complete(v.job, named[id(v.job)])]
