"""Possible victims that are no objects yet: a search makes them of those that it reaches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.evictions import KaiEvictionUnit, UnreadTask
from shard_worker.dialects.kai.model import KaiJob, QueueState, SortKey
from shard_worker.dialects.kai.rules.amounts import Amounts, total
from shard_worker.dialects.kai.search.resident_columns import Ints, Mask, ResidentColumns

RankColumn = Callable[[ResidentColumns], NDArray[Any]]
"""A rule of the job order: the rank of each line, the smaller first."""
VictimMask = Callable[[ResidentColumns], Mask]
"""Which lines may be victims of a search, as far as columns tell: False is final."""


class UnreadJob:
    """One of them whose turn it is to go, and that goes at once."""

    __slots__ = ("_jobs", "_line")

    def __init__(self, jobs: UnreadJobs, line: int) -> None:
        self._jobs = jobs
        self._line = line

    @property
    def amounts(self) -> Amounts:
        """Amounts that the job holds in its queue."""
        columns = self._jobs.columns
        return total(columns.shapes[columns.shape.item(self._line)])

    def unit(self) -> KaiEvictionUnit:
        columns, line = self._jobs.columns, self._line
        shape, begin = columns.shape.item(line), columns.lines.item(line)
        amounts = columns.shapes[shape]
        lines = slice(begin, begin + len(amounts))
        rows = columns.table.column("row")[lines].tolist()
        devices_of_lines = columns.table.devices(lines)
        tasks = tuple(
            UnreadTask(row, cid, requests, devices, amounts_held.gpu)
            for row, (cid, requests), devices, amounts_held in zip(
                rows, columns.classes[shape], devices_of_lines, amounts, strict=True
            )
        )
        return KaiEvictionUnit.unread(columns.jid.item(line), tasks, partial(self._jobs.job, line))


class UnreadJobs:
    """The jobs of some columns in job order."""

    def __init__(
        self,
        columns: ResidentColumns,
        ranks: Sequence[RankColumn],
        read: Callable[[int], KaiJob],
    ) -> None:
        """``ranks``: all rules of the job order. ``read`` makes the object of a job, by number."""
        self.columns = columns
        self._ranks = [rank(columns) for rank in ranks]
        self._read = read
        self._left = columns.may_lose.copy()
        """False for those that are in other hands."""
        self._order: Ints = np.lexsort((columns.age, *reversed(self._ranks), columns.leaf))
        """By leaf, in each in job order."""

    def forget(self, jids: Collection[int]) -> None:
        """Leave these out from now on: somebody has them as objects."""
        self._left &= ~np.isin(self.columns.jid, np.fromiter(jids, np.int64, len(jids)))

    def lines(self, may_be: VictimMask) -> Mapping[QueueState, Ints]:
        """Leaf -> the lines of those that may be victims, the first in job order first."""
        columns = self.columns
        selected = self._order[(self._left & may_be(columns))[self._order]]
        ends = np.searchsorted(columns.leaf[selected], np.arange(len(columns.leaves) + 1))
        return {
            leaf: selected[ends[at] : ends[at + 1]]
            for at, leaf in enumerate(columns.leaves)
            if ends[at] < ends[at + 1]
        }

    def most_of(self, by_row: Ints, may_be: VictimMask) -> tuple[Ints, Ints]:
        """(numbers of those that may be victims; of each the most that a node of its tasks has in
        ``by_row``)."""
        columns = self.columns
        counts = np.array([len(shape) for shape in columns.shapes], np.int64)[columns.shape]
        lines = np.flatnonzero(self._left & may_be(columns) & (counts > 0))
        if not len(lines):
            return lines, lines
        counts = counts[lines]
        begins = np.cumsum(counts) - counts
        # The lines of the table of one job after the other: each begins anew at its own first.
        of_table = np.arange(counts.sum()) + np.repeat(columns.lines[lines] - begins, counts)
        rows = columns.table.column("row")[of_table]
        # Who has ended is on no node: -1 would be the last one.
        of_tasks = np.where(rows >= 0, by_row[rows], 0)
        return columns.jid[lines], np.maximum.reduceat(of_tasks, begins)

    def key(self, line: int) -> tuple[SortKey, int]:
        """As :func:`shard_worker.dialects.kai.search.job_lines.order_of` of its entry."""
        columns = self.columns
        ranks = (rank.item(line) for rank in self._ranks)
        key = (*ranks, columns.created.item(line), columns.uid[line])
        return key, columns.jid.item(line)

    def job(self, line: int) -> KaiJob:
        """The object of a job."""
        return self._read(self.columns.jid.item(line))

    def reached(self, line: int) -> KaiJob | UnreadJob:
        """A job whose turn it is to go."""
        return UnreadJob(self, line) if self.columns.at_once.item(line) else self.job(line)
