"""The world of a session: node columns, and the jobs, queues and objects that its rules read.

``replay`` makes a world of everything. A shard worker makes one for each turn that needs a session:
from its view of all nodes, and the turn context of jobs and queues that came with the turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import EVICTABLE, OCCUPYING, Status
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shard_worker.view.mode import Mode
from shard_worker.view.node_things import Devices
from shard_worker.view.view import View
from shared.model.model import Node, PriorityClass, Requests, TaskClass

if TYPE_CHECKING:
    from shard_worker.view.hyper_tree import HyperTree

Mask = NDArray[np.bool_]


class OutsideJobs(Protocol):
    """The jobs of the cluster beside those that a turn brought along: read as they are looked
    at."""

    def jids_on(self, row: int) -> Sequence[int]:
        """The jobs with tasks on a node, by number."""
        ...

    def jids(self) -> Sequence[int]:
        """All jobs."""
        ...

    def jids_on_nodes(self, queue: str, inside: bool | None) -> Sequence[int]:
        """The jobs with tasks on any node: those in this queue, in others, or (None) all."""
        ...

    def job(self, jid: int) -> SessionJob | None:
        """A job as it stands now; None where it is gone."""
        ...

    @property
    def spared(self) -> Collection[int]:
        """Jobs of which nobody may be evicted in this turn."""
        ...

    def evictable(self, size: int) -> Mask:
        """Rows with a bound or running task. In a large cluster one session sees only a window of
        them, and the next session sees the following window."""
        ...


ON_NODE = OCCUPYING | Status.PIPELINED | Status.RELEASING
"""States in which a task is on a node, or will be."""


@dataclass(slots=True)
class World(ClusterInfo):
    """``jobs`` are :class:`SessionJob` here. Amounts of nodes are in the view, row by row."""

    view: View = field(default_factory=lambda: View(shard=0))
    mode: Mode = Mode.NONE
    whole: bool = True
    """True if it has every job from the start; False where a turn brought some along."""
    others: OutsideJobs | None = None
    """Source of the jobs outside this world, where it is not whole; None for none."""
    tree: HyperTree | None = None
    """None where there are no hyper nodes, or they are not ready."""
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    resident: dict[int, list[TaskInfo]] = field(default_factory=dict)
    """Row -> the tasks there in states :data:`ON_NODE`, in the order of arrival, as far as they
    were read: see :meth:`tasks_on`."""

    queue_shares: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Queue -> what it has of cores, memory and GPUs after the cluster was divided, where the
    coordinator told it."""
    job_starts: Mapping[int, float] = field(default_factory=dict)
    """jid -> when the job started, seconds since 1970, where the coordinator told it."""
    derived: dict[str, object] = field(default_factory=dict)
    """Values that rules derive from the view and keep for the next question, each by a name of its
    own."""
    lasting: dict[str, object] = field(default_factory=dict)
    """The same for the worlds of the turns to come, where a worker has several."""

    _linked: list[SessionJob] = field(default_factory=list)
    _rows_read: set[int] = field(default_factory=set)
    _all_read: bool = False
    _evictable: Mask | None = None
    """Last result of :meth:`evictable_rows`."""
    _inhabited: Mask | None = None
    """Rows of jobs that a rule knows by columns, see :meth:`inhabit`."""
    _unread: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Evictable rows as the others report them, for rows that were not read yet."""
    _changed_rows: set[int] = field(default_factory=set)
    """Rows whose tasks changed since."""
    _rows: tuple[int, Mapping[str, int]] | None = None
    """Rows by name, as of a revision of the view."""
    _places: tuple[int, NDArray[np.intp]] | None = None
    """Last result of :meth:`name_order` as (revision, places)."""

    # --- jobs ---------------------------------------------------------------------------------

    def session_jobs(self) -> Iterable[SessionJob]:
        """All jobs. A worker reads those that it did not look at yet: see :meth:`linked_jobs`."""
        self._read_all()
        return cast("Iterable[SessionJob]", self.jobs.values())

    def every_job(self) -> Iterable[JobInfo]:
        return self.session_jobs()

    def linked_jobs(self) -> Iterable[SessionJob]:
        """The jobs that came with the turn: its own, and all that share a term between tasks, a
        volume, a claim or a budget with it or with a job that it may evict. All, where the world is
        whole."""
        return self._linked if not self.whole else self.session_jobs()

    def read(self, jids: Iterable[int]) -> Iterable[SessionJob]:
        """Look at these jobs; returns all that were looked at."""
        for jid in jids:
            self._read(jid)
        return cast("Iterable[SessionJob]", list(self.jobs.values()))

    def session_job(self, jid: int) -> SessionJob:
        """Errors: KeyError."""
        if jid not in self.jobs:
            self._read(jid)
        return cast("SessionJob", self.jobs[jid])

    def add_linked(self, job: SessionJob) -> None:
        """:meth:`add_job`, of one that came with the turn."""
        self._linked.append(job)
        self.add_job(job)

    def add_job(self, job: SessionJob) -> None:
        """Add a job: its tasks are on their nodes, its queue counts it.

        Amounts of nodes stay as they are: the view has them.
        """
        self.jobs[job.job.jid] = job
        bits = ON_NODE._value_
        for task in job.tasks:
            if task.row >= 0 and task.status._value_ & bits:
                self.resident.setdefault(task.row, []).append(task)
                self._changed_rows.add(task.row)

    def tasks(self) -> Iterator[TaskInfo]:
        """The tasks of :meth:`session_jobs`."""
        for job in self.session_jobs():
            yield from job.tasks

    def linked_tasks(self) -> Iterator[TaskInfo]:
        """The tasks of :meth:`linked_jobs`."""
        for job in self.linked_jobs():
            yield from job.tasks

    def linked_residents(self) -> Iterator[TaskInfo]:
        """Yield the linked tasks that are on a node; also others' pods, where the world is
        whole."""
        if self.whole:
            for tasks in self.resident.values():
                yield from tasks
            return
        bits = ON_NODE._value_
        for task in self.linked_tasks():
            if task.row >= 0 and task.status._value_ & bits:
                yield task

    def tasks_on(self, row: int) -> list[TaskInfo]:
        """Tasks on a node, leaving it or nominated to it. Not to be changed by the caller."""
        if self.others is not None and row not in self._rows_read:
            self._rows_read.add(row)
            self._changed_rows.add(row)
            for jid in self.others.jids_on(row):
                self._read(jid)
            self.resident.get(row, []).sort(key=_arrival)  # whatever was looked at before
        return self.resident.get(row, [])

    def inhabited_rows(self) -> list[int]:
        """Rows with tasks on them; of very many, those on which victims are looked for."""
        if self.others is None:
            return list(self.resident)
        evictable = self.others.evictable(self.size)
        evictable[list(self.resident)] = True
        if self._inhabited is not None:
            evictable |= self._inhabited
        return np.flatnonzero(evictable).tolist()

    def inhabit(self, rows: NDArray[np.int64]) -> None:
        """Note that tasks are on these rows whose jobs are not looked at: the rows count as if they
        were."""
        inhabited = np.zeros(self.size, np.bool_)
        inhabited[rows] = True
        self._inhabited = inhabited

    def evictable_rows(self) -> Mask:
        """The rows on which a task is bound or running, or was when it was last looked at. Not to
        be changed by the caller."""
        if self._evictable is None:
            size, others = self.size, self.others
            self._unread = np.zeros(size, np.bool_) if others is None else others.evictable(size)
            self._evictable = self._unread.copy()
            self._changed_rows.update(self.resident, self._rows_read)
        # Asked for every task of a gang: only rows that changed since are looked at again.
        for row in self._changed_rows:
            self._evictable[row] = self._has_evictable(row)
        self._changed_rows.clear()
        return self._evictable

    def _has_evictable(self, row: int) -> bool:
        if row not in self._rows_read and self._unread[row]:
            return True
        bits = EVICTABLE._value_
        return any(task.status._value_ & bits for task in self.resident.get(row, ()))

    def evictable_changed(self, row: int) -> None:
        """Note that a task on a node became evictable, or no longer is."""
        self._changed_rows.add(row)

    def take_apart(self) -> None:
        """Separate jobs, tasks and parts of jobs, which refer to each other, and let go of them:
        those of ended turns were more than half of what the garbage collector had to find."""
        for job in cast("Iterable[SessionJob]", self.jobs.values()):
            for sub in job.subs.values():
                sub.tasks.clear()
            job.subs.clear()
            job.tasks.clear()
        for index in (self.jobs, self.resident, self.derived, self._linked):
            index.clear()

    def _read(self, jid: int) -> None:
        """Add a job that was not looked at yet."""
        if self.others is not None and jid not in self.jobs:
            job = self.others.job(jid)
            if job is not None:
                self.add_job(job)

    def _read_all(self) -> None:
        if self.others is not None and not self._all_read:
            self._all_read = True
            for jid in self.others.jids():
                self._read(jid)

    def settle(self, task: TaskInfo, row: int) -> None:
        """Put the task on this node."""
        task.row = row
        self.resident.setdefault(row, []).append(task)

    def unsettle(self, task: TaskInfo) -> None:
        """Take the task off its node."""
        self.resident[task.row].remove(task)
        task.row = -1

    # --- nodes --------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Rows of the view."""
        return self.view.size

    def node(self, row: int) -> Node:
        node = self.view.nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def row_of(self, name: str) -> int:
        """The row of a node by its name, -1 where there is none."""
        if self._rows is None or self._rows[0] != self.view.revision:
            nodes = enumerate(self.view.nodes)
            rows = {node.name: row for row, node in nodes if node is not None}
            self._rows = (self.view.revision, rows)
        return self._rows[1].get(name, -1)

    def name_order(self) -> NDArray[np.intp]:
        """The place of each row in the order of the nodes' names."""
        if self._places is None or self._places[0] != self.view.revision:
            names = ["" if node is None else node.name for node in self.view.nodes]
            places = np.empty(len(names), np.intp)
            places[sorted(range(len(names)), key=names.__getitem__)] = range(len(names))
            self._places = (self.view.revision, places)
        return self._places[1]

    def devices(self, prefix: str, dimension: int = 0) -> Devices:
        """Per node: total, idle and future-idle amounts of devices with this name prefix, including
        this session's own changes."""
        return self.view.things.devices(prefix, dimension, self.size)

    def idle(self, slot: int) -> NDArray[np.int64]:
        """Allocatable minus used, per row; may be negative where foreign pods use too much."""
        view = self.view
        return view.column("allocatable", slot) - view.column("used", slot)

    def future_idle(self, slot: int) -> NDArray[np.int64]:
        """Idle + releasing - pipelined, per row."""
        view = self.view
        return self.idle(slot) + view.column("releasing", slot) - view.column("nominated", slot)

    def room(self, row: int, slot: int) -> int:
        """:meth:`future_idle` of one row."""
        kinds = ("allocatable", "releasing", "used", "nominated")
        offered, leaving, used, promised = (int(self.view.column(k, slot)[row]) for k in kinds)
        return offered + leaving - used - promised

    def fits_idle(self, cls: TaskClass) -> Mask:
        """Rows where a task of the class fits now."""
        fits = self._fits(cls.requests, self.idle)
        if cls.things:
            fits &= self.view.things.counts(cls.things, self.size)[1] > 0
        return fits

    def fits_idle_at(self, cls: TaskClass, row: int) -> bool:
        """:meth:`fits_idle` of one row."""
        column = self.view.column
        for slot, amount in cls.requests:
            if column("allocatable", slot)[row] - column("used", slot)[row] < amount:
                return False
        return not cls.things or self.view.things.count_at(cls.things, row)[1] > 0

    def fits_future(self, cls: TaskClass) -> Mask:
        """Rows where a task of the class fits once leaving tasks have left."""
        fits = self._fits(cls.requests, self.future_idle)
        if cls.things:
            fits &= self.view.things.counts(cls.things, self.size)[0] > 0
        return fits

    def _fits(self, requests: Requests, room: object) -> Mask:
        fits: Mask = np.ones(self.size, np.bool_)
        for slot, amount in requests:
            fits &= room(slot) >= amount  # type: ignore[operator]
        return fits

    def own(self) -> Mask:
        """Rows of the own shard; all of them where the mode is none."""
        if self.mode is Mode.NONE:
            return np.ones(self.size, np.bool_)
        return self.view.own.copy()

    def in_reach(self) -> Mask:
        """Rows that exist, are not quarantined, and in mode hard belong to the own shard."""
        reach = self.view.live() & ~self.view.withheld
        if self.mode is Mode.HARD:
            reach &= self.view.own
        return reach


def _arrival(task: TaskInfo) -> tuple[bool, int, int]:
    """Sort key: what the session itself placed comes last."""
    return bool(task.status & (Status.ALLOCATED | Status.PIPELINED)), task.job.job.jid, task.tix
