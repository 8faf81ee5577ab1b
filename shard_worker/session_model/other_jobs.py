"""The jobs that a turn did not bring along, read from the view's table of residents.

A job becomes objects when a rule looks at a node that it is on, and lives as long as its session:
a turn that finds its victims on 500 nodes reads the jobs of 500 nodes.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from shard_worker.session_model.decoded_jobs import Decoded
from shard_worker.session_model.job import SessionJob, open_session_job
from shard_worker.session_model.queue_totals import INQUEUE, RUNNING, figures
from shard_worker.session_model.status import STATUS_OF, Status
from shard_worker.session_model.workload import QueueInfo
from shard_worker.session_model.world import Mask
from shard_worker.view.job_columns import Ints
from shard_worker.view.resident_table import ResidentTable
from shard_worker.view.view import View
from shared.messages.messages import HOLDING, TaskState

LOOKED_AT = 20_000
"""Most tasks that one turn looks at as victims: reading the job of one task takes 50 us."""

_STATUSES = tuple(STATUS_OF[state] for state in TaskState)
_OF_LEAVING_JOBS = tuple(
    Status.RELEASING if state in HOLDING else STATUS_OF[state] for state in TaskState
)
"""Status of a deleted job's tasks: those on nodes are about to leave, even before they are told to
stop."""
_OF_SPARED_JOBS = tuple(
    Status.BINDING if state in (TaskState.BOUND, TaskState.RUNNING) else STATUS_OF[state]
    for state in TaskState
)
"""Status of tasks that may not be evicted in this turn: on their node and counted, but no
victims."""


@dataclass(slots=True)
class Window:
    """The rows in which one turn looks for victims, where the cluster has very many candidates.
    Each turn continues where the previous one ended, so that all rows get their turn."""

    first: int = 0
    """Row where this turn begins."""
    following: int = 0
    """Row where the next one does."""

    def of(self, counts: Ints) -> Mask:
        """The rows of a turn; ``counts``: the possible victims on each."""
        size = len(counts)
        if int(counts.sum()) <= LOOKED_AT:
            return np.ones(size, np.bool_)
        rows = (np.arange(size) + self.first) % size
        batch = max(int(np.searchsorted(np.cumsum(counts[rows]), LOOKED_AT, side="right")), 1)
        chosen = np.zeros(size, np.bool_)
        chosen[rows[:batch]] = True
        self.following = int(rows[batch % size])
        return chosen

    def go_on(self) -> None:
        """End the turn: the next one begins behind its rows."""
        self.first = self.following


@dataclass(slots=True)
class JobReadCache:
    """Caches that a worker's turns share when they read jobs."""

    decoded: Decoded = field(default_factory=Decoded)
    window: Window = field(default_factory=Window)
    derived: dict[str, object] = field(default_factory=dict)
    """Values that rules derive from the table and keep for later turns, each by a name of its
    own."""


@dataclass(slots=True)
class OtherJobs:
    """Implements :class:`shard_worker.session_model.world.OutsideJobs`."""

    table: ResidentTable
    view: View
    queues: Mapping[str, QueueInfo]
    """By name."""
    reading: JobReadCache
    backfills: bool = True
    spared: Collection[int] = ()
    """Jobs of which nobody may be evicted: a rule between tasks counts them, and the turn was not
    told its present version."""
    _evictable: Mask | None = None

    def jids_on(self, row: int) -> list[int]:
        return self.table.jids_on(row)

    def jids(self) -> list[int]:
        return self.table.jids()

    def jids_on_nodes(self, queue: str, inside: bool | None) -> list[int]:
        of = self.queues.get(queue)
        return self.table.jids_on_nodes(-1 if of is None else of.queue.qid, inside)

    def evictable(self, size: int) -> Mask:
        if self._evictable is None:
            counts = self.table.counts((TaskState.BOUND, TaskState.RUNNING), size)
            self._evictable = (counts > 0) & self.reading.window.of(counts)
        return self._evictable.copy()

    def job(self, jid: int) -> SessionJob | None:
        """The job with its tasks; None if the job, or a class of its tasks, is unknown here."""
        row = self.table.job(jid)
        if row is None:
            return None
        job, classes = self.reading.decoded.job(row.spec), self.view.classes
        # Dropped, or not read from the log yet: a job without its classes is nobody's victim in
        # this turn.
        if any(role.cid not in classes for role in job.roles):
            return None
        statuses = _STATUSES
        if row.gone:
            statuses = _OF_LEAVING_JOBS
        elif jid in self.spared:
            statuses = _OF_SPARED_JOBS
        session_job = open_session_job(
            job,
            queue=self.queues.get(job.queue),
            classes=classes,
            states=[statuses[state] for state in row.states],
            rows=array("i", row.rows),
            backfilled=self.backfills,
        )
        nominated = self._nominated(jid)
        if row.started or nominated or row.devices:
            for task in session_job.tasks:
                task.devices = row.devices.get(task.tix, ())
                task.started = row.started.get(task.tix, 0.0)
                task.nominated = nominated.get(task.tix, -1)
        if job.min_resources is not None:
            members = session_job.held[0]
            if members:  # as Order says of one that it admitted
                session_job.phase = RUNNING if members >= session_job.minimum else INQUEUE
            session_job.figures = figures(session_job)  # the totals count it already
        return session_job

    def _nominated(self, jid: int) -> dict[int, int]:
        nomination = self.view.nominations.get(jid)
        runs = () if nomination is None else nomination.runs
        return {tix: row for run in runs for tix, row in zip(run.tasks, run.rows, strict=True)}
