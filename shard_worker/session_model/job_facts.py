"""Specifications of the jobs on nodes as columns, so that ordering decodes none of them.

Kept from turn to turn: of a job whose specification is the one that was read, nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.view.job_columns import Ints, JobColumns
from shared.model.model import Job, Pairs
from shared.records.specs_jobs import decode_job

Shape = tuple[tuple[int, Pairs, int], ...]
"""One tuple for each role of a job: class, annotations, number of tasks."""

_DTYPES: dict[str, type] = {
    "jid": np.int64,
    "stamp": np.int64,
    "priority": np.int64,
    "created": np.float64,
    "tasks": np.int64,
    "minimum": np.int64,
    "queue": np.int64,
    "shape": np.int64,
    "in_pool": np.bool_,
    "has_minima": np.bool_,
    "uid": object,
    "group": object,
}
_FEW_CODES = 1024
"""Queues, or shapes, that are remembered whether a job has them still or not."""


class _Codes:
    """Numbers for values that recur."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

    def code(self, value: Any) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def without_unused(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Forget what this column does not name, where that is much; returns it with the numbers
        of now."""
        if len(self.values) <= _FEW_CODES or len(self.values) < 2 * len(used := np.unique(codes)):
            return codes
        self.values = [self.values[code] for code in used.tolist()]
        self._codes = {value: code for code, value in enumerate(self.values)}
        return np.searchsorted(used, codes)


class JobFacts:
    """Columns over the jobs that were read, sorted by number."""

    def __init__(self, in_pool: Callable[[Job], bool]) -> None:
        """``in_pool``: whether a job exists for the scheduler."""
        self._in_pool = in_pool
        self._columns: dict[str, NDArray[Any]] = {n: np.zeros(0, d) for n, d in _DTYPES.items()}
        self._queues, self._shapes = _Codes(), _Codes()
        self._age: Ints = np.zeros(0, np.int64)
        self.decoded = 0
        """Specifications that were decoded so far."""

    def column(self, name: str) -> NDArray[Any]:
        """``jid``, ``priority``, ``created``, ``minimum`` (of its first group), ``queue`` and
        ``shape`` (codes), ``in_pool``, ``has_minima`` (of roles), ``group`` ("" for what is no
        PodGroup, else its key), or ``tasks``: how many it has; -1 where they are not numbered one
        after the other."""
        return self._columns[name]

    @property
    def queues(self) -> Sequence[str]:
        """Code -> name."""
        return self._queues.values

    @property
    def shapes(self) -> Sequence[Shape]:
        """Code -> shape."""
        return self._shapes.values

    @property
    def age(self) -> Ints:
        """The place of each job among all by creation, then uid, then number."""
        return self._age

    def read(self, jobs: JobColumns, jids: Ints) -> Ints:
        """Read these jobs, which are known; returns their lines in the columns. Jobs that were
        read before stay as long as they are known, with the specification that they had."""
        old = self._columns
        slots = jobs.slots(old["jid"])
        stamps = jobs.column("stamp")[slots] if jobs.count else slots
        unchanged = np.flatnonzero((slots >= 0) & (stamps == old["stamp"]))
        fresh = np.setdiff1d(jids, old["jid"][unchanged], assume_unique=True)
        if len(unchanged) < len(slots) or len(fresh):
            self._merge(jobs, unchanged, fresh)
        return np.searchsorted(self._columns["jid"], jids)

    def _merge(self, jobs: JobColumns, kept: Ints, fresh: Ints) -> None:
        slots, old = jobs.slots(fresh), self._columns
        rows = [self._row(decode_job(jobs.spec(slot))) for slot in slots.tolist()]
        self.decoded += len(rows)
        jids = np.concatenate([old["jid"][kept], fresh])
        order = np.argsort(jids)
        stamps = np.concatenate([old["stamp"][kept], jobs.column("stamp")[slots]])
        columns = {"jid": jids[order], "stamp": stamps[order]}
        for number, name in enumerate(_READ):
            column: NDArray[Any] = np.empty(len(jids), _DTYPES[name])
            column[: len(kept)] = old[name][kept]
            column[len(kept) :] = [row[number] for row in rows]
            columns[name] = column[order]
        columns["queue"] = self._queues.without_unused(columns["queue"])
        columns["shape"] = self._shapes.without_unused(columns["shape"])
        self._columns = columns
        self._age = _places(columns["created"], columns["uid"])

    def _row(self, job: Job) -> tuple[object, ...]:
        """In the order of :data:`_READ`."""
        total, is_numbered = 0, True
        for role in job.roles:
            is_numbered &= not role.count or role.first == total
            total += role.count
        shape = tuple((role.cid, role.annotations, role.count) for role in job.roles)
        return (
            job.priority,
            job.created,
            total if is_numbered else -1,
            job.groups[0].minimum,
            self._queues.code(job.queue),
            self._shapes.code(shape),
            self._in_pool(job),
            bool(job.role_minima),
            job.uid or job.key,
            job.kai_group,
        )


_READ = tuple(name for name in _DTYPES if name not in ("jid", "stamp"))


def _places(created: NDArray[np.float64], uids: NDArray[Any]) -> Ints:
    """The place of each line by creation, then uid, then line."""
    order = np.argsort(created, kind="stable")
    # Only among jobs of one moment does the uid matter: strings are compared there alone.
    ends = np.flatnonzero(np.diff(created[order], append=np.inf)) + 1
    begin = 0
    for end in ends.tolist():
        if end - begin > 1:
            alike = order[begin:end].tolist()
            order[begin:end] = sorted(alike, key=lambda line: uids[line])
        begin = end
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
