"""The number of tasks of each class that each domain has room for, computed before any dry run.

The count is an upper bound: nodes that fail a static check, or are out of reach, have no room, and
each class counts as if the others were not there. A domain is skipped if the job could not even be
pipelined with all that room filled. That costs one sum over all domains instead of a dry run in
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import PREDICATE
from shard_worker.session_model.status import Status

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.view.hyper_tree import HyperDomain, HyperTree
    from shared.model.model import TaskClass

Ints = NDArray[np.int64]
Alike = list[list["TaskInfo"]]
"""Groups of tasks with the same role and class."""


class DomainRoom:
    """The room for one job in one turn, as it was before the turn placed anything."""

    def __init__(self, ssn: Session, tree: HyperTree) -> None:
        self._ssn = ssn
        self._tree = tree
        self._reach = ssn.world.in_reach()
        self._rooms: dict[int, Ints] = {}
        """Class -> number of its tasks that fit each domain, by domain index."""
        self._free: dict[int, Ints] = {}
        self._judged: dict[tuple[object, ...], bool] = {}

    def of(self, task: TaskInfo) -> Ints:
        """The number of tasks of this class that fit each domain, by domain index."""
        room = self._rooms.get(task.cid)
        if room is None:
            per_row = room_per_row(self._ssn, task.cls, self._reach)
            room = self._rooms[task.cid] = self._tree.sums(per_row)
        return room

    def hopeless(
        self, domain: HyperDomain, alike: Alike, enough: Callable[[], bool], question: str = ""
    ) -> bool:
        """Whether the job would fail even if these tasks filled all room of the domain.
        ``question``: distinguishes callers' ``enough`` in the cache of answers for the same tasks.
        """
        rooms = [min(len(group), int(self.of(group[0])[domain.index])) for group in alike]
        if not any(rooms):
            return True
        # Room for everybody is a bound from above: it takes a dry run to find out more.
        if all(room == len(group) for room, group in zip(rooms, alike, strict=True)):
            return False
        key = (question, *map(len, alike), *rooms)
        judged = self._judged.get(key)
        if judged is None:
            fits = [t for room, group in zip(rooms, alike, strict=True) for t in group[:room]]
            judged = self._judged[key] = not _would(fits, enough)
        return judged

    def free(self, slot: int) -> Ints:
        """The amount of a slot that is idle now or once leaving tasks have ended, per domain."""
        sums = self._free.get(slot)
        if sums is None:
            idle = np.maximum(self._ssn.world.future_idle(slot), 0)
            sums = self._free[slot] = self._tree.sums(np.where(self._reach, idle, 0))
        return sums

    def name(self, slot: int) -> str:
        return self._ssn.world.view.slot_name(slot)


def room_per_row(ssn: Session, cls: TaskClass, reach: Mask) -> Ints:
    """How many tasks of the class fit each row, at most; none out of ``reach``."""
    return rooms_per_row(ssn, cls, reach)[0]


def rooms_per_row(ssn: Session, cls: TaskClass, reach: Mask) -> tuple[Ints, Ints]:
    """:func:`room_per_row`, and the same without the room of tasks that are leaving. One array
    twice where none is."""
    world = ssn.world
    # Static checks alone. Those that depend on neighbours change with every placement, and leaving
    # one out only makes the bound larger (decision 0030).
    passes = reach.copy()
    for hook in ssn.rules(PREDICATE):
        for _, mask in hook.fn(cls, world.view):
            passes &= mask
    later = np.where(passes, np.int64(np.iinfo(np.int32).max), 0)
    now: Ints | None = None
    for slot, amount in cls.requests:
        free, idle = world.future_idle(slot), world.idle(slot)
        fits = free // amount
        if now is None and (free > idle).any():
            now = later.copy()
        if now is not None:
            np.minimum(now, np.minimum(fits, idle // amount), out=now)
        np.minimum(later, fits, out=later)
    if cls.things:
        fits, fits_now = world.view.things.counts(cls.things, world.size)
        now = np.minimum(later if now is None else now, fits_now)
        np.minimum(later, fits, out=later)
    np.maximum(later, 0, out=later)
    return later, later if now is None else np.maximum(now, 0, out=now)


def alike(tasks: Iterable[TaskInfo]) -> Alike:
    """Group tasks by role (which belongs to one sub job) and class."""
    groups: dict[tuple[int, int], list[TaskInfo]] = {}
    for task in tasks:
        groups.setdefault((id(task.role), task.cid), []).append(task)
    return list(groups.values())


def _would(tasks: Sequence[TaskInfo], enough: Callable[[], bool]) -> bool:
    """The result of ``enough()`` with these pending tasks counted as placed."""
    job: SessionJob = tasks[0].job
    for task in tasks:
        # The rules about gangs are asked themselves, with counts moved for the time of the
        # question: a formula of our own could refuse what they allow.
        job.move(task, Status.ALLOCATED)
    try:
        return enough()
    finally:
        for task in tasks:
            job.move(task, Status.PENDING)
