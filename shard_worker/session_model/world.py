"""The world of a session: node columns, and the jobs, queues and objects that its rules read.

``replay`` makes a world of everything. A shard worker makes one for each turn that needs a session:
from its view of all nodes, and the excerpt of jobs and queues that came with the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.session_model.workload import ClusterInfo
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.model.model import Node, PriorityClass, Requests, TaskClass

if TYPE_CHECKING:
    from shard_worker.view.hyper_tree import HyperTree

Mask = NDArray[np.bool_]

ON_NODE = OCCUPYING | Status.PIPELINED | Status.RELEASING
"""States in which a task is on a node, or will be."""


@dataclass(slots=True)
class World(ClusterInfo):
    """``jobs`` are :class:`SessionJob` here. Amounts of nodes are in the view, row by row."""

    view: View = field(default_factory=lambda: View(shard=0))
    mode: Mode = Mode.NONE
    whole: bool = True
    """True if it has every task; False for an excerpt, where totals count more than it has."""
    tree: HyperTree | None = None
    """None where there are no hyper nodes, or they are not ready."""
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    resident: dict[int, list[TaskInfo]] = field(default_factory=dict)
    """Row -> the tasks there in states :data:`ON_NODE`, in the order of arrival. A worker's excerpt
    has only possible victims and neighbours."""

    _rows: tuple[int, Mapping[str, int]] | None = None
    """Rows by name, as of a revision of the view."""

    # --- jobs ---------------------------------------------------------------------------------

    def session_jobs(self) -> Iterable[SessionJob]:
        return cast("Iterable[SessionJob]", self.jobs.values())

    def session_job(self, jid: int) -> SessionJob:
        return cast("SessionJob", self.jobs[jid])

    def add_job(self, job: SessionJob) -> None:
        """Add a job: its tasks are on their nodes, its queue counts it.

        Amounts of nodes stay as they are: the view has them.
        """
        self.jobs[job.job.jid] = job
        bits = ON_NODE._value_
        for task in job.tasks:
            if task.row >= 0 and task.status._value_ & bits:
                self.resident.setdefault(task.row, []).append(task)

    def tasks(self) -> Iterator[TaskInfo]:
        for job in self.session_jobs():
            yield from job.tasks

    def tasks_on(self, row: int) -> list[TaskInfo]:
        """Tasks on a node, leaving it or nominated to it. Not to be changed by the caller."""
        return self.resident.get(row, [])

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
