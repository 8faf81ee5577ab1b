"""How many tasks of each class every domain has room for, counted before anything is tried.

The count is an upper bound: nodes that fail a static check, or are out of reach, have no room, and
each class counts as if the others were not there. A domain in which the job could not even be
pipelined if all that room were filled is not tried, which costs one sum over all domains instead
of a dry run in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.tasks import Status
from shared.quantity import unit_of
from shared.slots import PODS

if TYPE_CHECKING:
    from shard_worker.hyper_tree import Domain, HyperTree
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob
    from shard_worker.tasks import TaskInfo
    from shared.model import TaskClass

Ints = NDArray[np.int64]
GIB = 2**30
Alike = list[list["TaskInfo"]]
"""Tasks in groups of which all members are alike."""
BYTES = ("memory", "ephemeral-storage")


class DomainRoom:
    """Of one job in one turn; room that the turn itself takes is not followed."""

    def __init__(self, ssn: Session, tree: HyperTree) -> None:
        self._ssn = ssn
        self._tree = tree
        self._reach = ssn.world.in_reach()
        self._rooms: dict[int, Ints] = {}
        """Class -> tasks of it that fit each domain."""
        self._judged: dict[tuple[object, ...], bool] = {}

    def of(self, task: TaskInfo) -> Ints:
        """Tasks like this one that fit each domain, by its index."""
        room = self._rooms.get(task.cid)
        if room is None:
            room = self._rooms[task.cid] = self._tree.sums(self._per_row(task.cls))
        return room

    def _per_row(self, cls: TaskClass) -> Ints:
        world = self._ssn.world
        passes = self._reach.copy()
        for hook in self._ssn.hooks["Predicate"]:
            for _, mask in hook.fn(cls, world.view):
                passes &= mask
        room = np.full(world.size, np.iinfo(np.int32).max, np.int64)
        for slot, amount in cls.requests:
            np.minimum(room, world.future_idle(slot) // amount, out=room)
        return np.where(passes, np.maximum(room, 0), 0)

    def hopeless(
        self, domain: Domain, alike: Alike, enough: Callable[[], bool], what: str = ""
    ) -> bool:
        """Would it not be enough if as many of the tasks as there is room for had a place?

        ``what``: whose question it is; with the same tasks it is answered once."""
        rooms = [min(len(group), int(self.of(group[0])[domain.index])) for group in alike]
        if not any(rooms):
            return True
        if all(room == len(group) for room, group in zip(rooms, alike, strict=True)):
            return False
        key = (what, *map(len, alike), *rooms)
        judged = self._judged.get(key)
        if judged is None:
            fits = [t for room, group in zip(rooms, alike, strict=True) for t in group[:room]]
            judged = self._judged[key] = not _would(fits, enough)
        return judged

    # --- why not ------------------------------------------------------------------------------

    def shortfall(self, tasks: Sequence[TaskInfo], domains: Iterable[Domain]) -> str:
        """Why none of these domains has room for the tasks, in figures."""
        among = list(domains)
        if not among:
            return "no domain of a tier that is low enough exists"
        tier = max(domain.tier for domain in among)
        indices = [domain.index for domain in among]
        worst: tuple[float, str] | None = None
        for slot, wanted in _sum(tasks).items():
            if slot == PODS:
                continue
            idle = np.where(self._reach, np.maximum(self._ssn.world.future_idle(slot), 0), 0)
            free = self._tree.sums(idle)
            most = int(free[indices].max())
            if most < wanted and (worst is None or wanted / (most + 1) > worst[0]):
                name = self._ssn.world.view.slot_name(slot)
                told = f"{_told(name, int(free[0]))} {name} are free, " + (
                    f"no tier-{tier} domain has more than {_told(name, most)}"
                )
                worst = wanted / (most + 1), told
        if worst is not None:
            return worst[1]
        room = max(self._fit(tasks, index) for index in indices)
        return f"no tier-{tier} domain has room for more than {room} of {len(tasks)} tasks"

    def _fit(self, tasks: Sequence[TaskInfo], index: int) -> int:
        return sum(min(len(group), int(self.of(group[0])[index])) for group in alike(tasks))


def alike(tasks: Iterable[TaskInfo]) -> Alike:
    """Tasks that are alike: of one role (of one sub job) and one class."""
    groups: dict[tuple[int, int], list[TaskInfo]] = {}
    for task in tasks:
        groups.setdefault((id(task.role), task.cid), []).append(task)
    return list(groups.values())


def _would(tasks: Sequence[TaskInfo], enough: Callable[[], bool]) -> bool:
    """``enough()``, if these pending tasks had a place."""
    job: SessionJob = tasks[0].job
    for task in tasks:
        job.move(task, Status.ALLOCATED)
    try:
        return enough()
    finally:
        for task in tasks:
            job.move(task, Status.PENDING)


def _sum(tasks: Iterable[TaskInfo]) -> dict[int, int]:
    total: dict[int, int] = {}
    for task in tasks:
        for slot, amount in task.requests:
            total[slot] = total.get(slot, 0) + amount
    return total


def _told(name: str, amount: int) -> str:
    if name in BYTES:
        return f"{amount / GIB:.4g} GiB of"
    return f"{amount / unit_of(name):.12g}"
