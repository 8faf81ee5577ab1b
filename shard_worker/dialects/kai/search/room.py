"""How many tasks could be placed at all: what must hold before anything is simulated.

A scenario succeeds only if what its victims leave, and what is free anyway, has room for the job's
tasks: node by node as many as fit there, each kind of task for itself, and where tasks have to stay
together or apart, as many as fit so. That is counted over columns, and what cannot succeed costs no
simulation. A count never excludes what a simulation could have placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import device_columns, parts, request_of
from shard_worker.dialects.kai.evictions import KaiEvictionUnit, Occupant
from shard_worker.dialects.kai.model import KaiJob, Member, constraint_of
from shard_worker.dialects.kai.rules.domains import limits_of
from shard_worker.dialects.kai.rules.groups import SubGroupSet
from shard_worker.dialects.kai.search.task_kinds import kind_of
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.extension_points import PREDICATE
from shard_worker.framework.rules import Mask
from shard_worker.kube_scheduler.filters.pod_affinity import required
from shard_worker.kube_scheduler.filters.pod_index import label_term
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.gpu_request import WHOLE
from shared.model.kai import topology_of

Amounts = NDArray[np.int64]
Freed = tuple[int, ...]
"""Amounts of each column that a task's eviction frees."""
_ENDLESS = np.iinfo(np.int64).max


@dataclass(slots=True)
class _TaskKind:
    """Tasks of one class that wait, and the rows that may take them."""

    columns: list[int]
    """The columns that it asks for."""
    asks: list[Amounts]
    """Its request of each of them, by row; 0 for nothing."""
    rows: Mask
    number: int
    apart: Amounts | None
    """Domain of each row of which one task at most may be in each; -1: none. None: not apart."""
    together: list[tuple[Amounts, int]]
    """(domain of each row, tasks that must be in one of them)."""

    def counts(self, free: Amounts) -> Amounts:
        """How many of the tasks each row has room for."""
        counts = np.where(self.rows, self.number, 0)
        for column, asks in zip(self.columns, self.asks, strict=True):
            room = np.full(len(asks), self.number, np.int64)
            np.floor_divide(free[column], asks, out=room, where=asks > 0)
            np.minimum(counts, room, out=counts)
        free_counts: Amounts = np.maximum(counts, 0)
        return free_counts

    def count_at(self, row: int, free: Sequence[int]) -> int:
        """:meth:`counts` of one row."""
        if not self.rows.item(row):
            return 0
        count = self.number
        for column, asks in zip(self.columns, self.asks, strict=True):
            amount = asks.item(row)
            if amount > 0:
                count = min(count, free[column] // amount)
        return max(count, 0)

    @property
    def is_plain(self) -> bool:
        """Whether the sum over the rows says all."""
        return self.apart is None and not self.together

    def fits(self, counts: Amounts) -> bool:
        """Whether all of the tasks could be placed."""
        if self.apart is None:
            places = int(counts.sum())
        else:
            inside = self.apart >= 0
            domains = np.bincount(self.apart[inside], weights=counts[inside] > 0)
            places = int((domains > 0).sum() + counts[~inside].sum())
        return places >= self.number and all(
            _largest(domains, counts) >= number for domains, number in self.together
        )


class SearchRoom:
    """Future idle amounts of each row, compared with the requests of tasks."""

    def __init__(self, ssn: KaiSession, job: KaiJob, tasks: Sequence[TaskInfo]) -> None:
        self._ssn = ssn
        world = ssn.world
        self._slots = sorted({slot for task in tasks for slot, _ in task.requests})
        columns = device_columns(world)
        self._declared = columns.declared > 0
        free = [*(world.future_idle(slot) for slot in self._slots), columns.free_parts]
        self._free: Amounts = np.stack(free)
        """``[column][row]``; the last is parts of devices."""
        alike: dict[object, list[TaskInfo]] = {}
        for task in tasks:
            alike.setdefault(kind_of(task), []).append(task)
        self._kinds = [self._kind(job, group) for group in alike.values()]
        self._freed: dict[tuple[int, int], Freed] = {}
        self._before: list[Amounts] | None = None
        """How many tasks of each kind each row has room for with nobody gone; None: not counted."""
        self._places: list[int] = []
        self.misses = 0
        """How often a count excluded something."""

    def _kind(self, job: KaiJob, alike: Sequence[TaskInfo]) -> _TaskKind:
        world, task = self._ssn.world, alike[0]
        size = world.size
        columns = [self._slots.index(slot) for slot, _ in task.requests]
        asks = [np.full(size, amount, np.int64) for _, amount in task.requests]
        request = request_of(task, world.view.slot_names)
        if request is not None:
            needs = parts(request, world) * request.devices
            # Of a row that declares no devices, whole ones are counted by their slot alone.
            whole = request.is_whole
            columns.append(len(self._slots))
            asks.append(np.where(self._declared, needs, 0 if whole else _ENDLESS))
        rows = world.in_reach() & world.view.exists()
        for rule in self._ssn.rules(PREDICATE):
            # Not the rules that depend on what runs: evictions may change their answer.
            for _, mask in rule.fn(task.cls, world.view):
                rows &= mask
        together = list(_together(job.root, job, alike, world))
        return _TaskKind(columns, asks, rows, len(alike), _apart(task, world), together)

    def could_ever(self) -> bool:
        """Whether all that wait could be placed if nobody else were there."""
        world = self._ssn.world
        empty = [world.view.column("allocatable", slot) for slot in self._slots]
        devices = device_columns(world).declared * WHOLE
        free = np.stack([*empty, devices])
        return all(kind.fits(kind.counts(free)) for kind in self._kinds)

    def without(self, tasks: Iterable[Occupant]) -> SearchRoom:
        """Take tasks off their rows, for good; returns itself."""
        for task in tasks:
            self._free[:, task.row] += self.freed_by(task)
        self._before = None
        return self

    def gathering(self) -> FreedRoom:
        """An empty set of victims, with nobody else gone."""
        if self._before is None:
            self._before = [kind.counts(self._free) for kind in self._kinds]
            self._places = [int(counts.sum()) for counts in self._before]
        return FreedRoom(self, self._kinds, self._free, self._before, self._places)

    def freed_by(self, task: Occupant) -> Freed:
        """Amounts of each column that the task's eviction frees."""
        parts = sum(amounts[0] for _, amounts in task.devices)
        freed = self._freed.get((task.cid, parts))
        if freed is None:
            requests = dict(task.requests)
            freed = (*(requests.get(slot, 0) for slot in self._slots), parts)
            self._freed[task.cid, parts] = freed
        return freed


class FreedRoom:
    """Victims that are added one by one, and what is free without them."""

    def __init__(
        self,
        room: SearchRoom,
        kinds: Sequence[_TaskKind],
        free: Amounts,
        before: Sequence[Amounts],
        places: Sequence[int],
    ) -> None:
        self._room = room
        self._kinds = kinds
        self._free = free
        self._rows: dict[int, list[int]] = {}
        """Row with a victim -> what is free there."""
        self._before = before
        self._counts: list[dict[int, int]] = [{} for _ in kinds]
        """Row -> how many tasks it has room for now."""
        self._places = list(places)

    def add(self, unit: KaiEvictionUnit) -> None:
        """Take the unit's tasks off their rows."""
        self.add_tasks(unit.occupants)

    def add_tasks(self, tasks: Iterable[Occupant]) -> None:
        rows, touched = self._rows, set()
        for task in tasks:
            row = task.row
            free = rows.get(row)
            if free is None:
                free = rows[row] = self._free[:, row].tolist()
            for column, amount in enumerate(self._room.freed_by(task)):
                free[column] += amount
            touched.add(row)
        for at, kind in enumerate(self._kinds):
            counts, before = self._counts[at], self._before[at]
            for row in touched:
                count = kind.count_at(row, rows[row])
                self._places[at] += count - counts.get(row, before.item(row))
                counts[row] = count

    def enough(self) -> bool:
        """Whether there could be room for all that wait."""
        fits = all(
            places >= kind.number and (kind.is_plain or kind.fits(self._full(at)))
            for at, (kind, places) in enumerate(zip(self._kinds, self._places, strict=True))
        )
        if not fits:
            self._room.misses += 1
        return fits

    def _full(self, at: int) -> Amounts:
        counts = self._before[at].copy()
        for row, count in self._counts[at].items():
            counts[row] = count
        return counts


def _largest(domains: Amounts, counts: Amounts) -> int:
    """How many tasks the domain with the most room could take."""
    inside = domains >= 0
    if not inside.any():
        return 0
    return int(np.bincount(domains[inside], weights=counts[inside]).max())


def _apart(task: TaskInfo, world: World) -> Amounts | None:
    """The domains of a required anti-affinity of the task to tasks like itself."""
    labels, namespace = dict(task.role.labels), task.job.job.namespace
    for term in required(task.cls):
        if term.anti and label_term(term, namespace).selects(namespace, labels):
            return world.view.label(term.topology_key).codes[: world.size].astype(np.int64)
    return None


def _together(
    group: Member, job: KaiJob, alike: Sequence[TaskInfo], world: World
) -> Iterator[tuple[Amounts, int]]:
    """The domains of the required levels of a group and those below it, with how many of these
    tasks each has to take."""
    inside = {task for pod_set in group.pod_sets() for task in pod_set.tasks}
    number = sum(task in inside for task in alike)
    if group is job.root and job.job.job.topology_key:
        yield _domains([job.job.job.topology_key], 0, world), number
    constraint = constraint_of(job, group)
    if constraint is not None and number:
        topology = topology_of(constraint, world.objects.kai_topologies)
        limits = None if topology is None else limits_of(topology, constraint)
        if topology is not None and limits is not None and limits.required is not None:
            labels = [level.label for level in topology.levels]
            yield _domains(labels, limits.required, world), number
    if isinstance(group, SubGroupSet):
        for member in group.members:
            yield from _together(member, job, alike, world)


def _domains(labels: Sequence[str], level: int, world: World) -> Amounts:
    """A number for the domain of each row at a level; -1 where it lacks a label of any level."""
    codes = np.stack([world.view.label(label).codes[: world.size] for label in labels])
    numbers = np.unique(codes[: level + 1], axis=1, return_inverse=True)[1].reshape(-1)
    numbered: Amounts = np.where((codes >= 0).all(axis=0), numbers, -1)
    return numbered
