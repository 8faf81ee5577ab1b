"""Jobs of each leaf queue in job order, kept in order while single jobs change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge

import numpy as np

from shard_worker.dialects.kai.model import KaiJob, QueueState, SortKey
from shard_worker.dialects.kai.search.resident_columns import Ints, Mask, ResidentColumns
from shard_worker.dialects.kai.search.unread_jobs import UnreadJob, UnreadJobs, VictimMask
from shard_worker.dialects.kai.session import KaiSession

Entry = tuple[SortKey, int, KaiJob]
"""(job order, jid, job); the jid keeps jobs from being compared."""


VictimEntry = tuple[SortKey, int, KaiJob | UnreadJob]
"""An :data:`Entry` of a job that may be no object."""


class VictimLine:
    """The jobs of one leaf, taken from the last in job order on. What nobody has read yet becomes
    an object as it comes to the end, where more than columns are asked of it."""

    __slots__ = ("_decided", "_entries", "_left", "_places", "_unread")

    def __init__(
        self,
        entries: Sequence[Entry],
        unread: UnreadJobs | None = None,
        places: Ints | None = None,
        *,
        decided: bool = False,
    ) -> None:
        """Both in job order. ``places``: lines of ``unread``; ``decided``: whether these are
        victims, so that nothing more is asked of them."""
        self._entries: list[VictimEntry] = list(entries)
        self._unread = unread
        self._places = places
        self._left = 0 if places is None else len(places)
        self._decided = decided

    def last(self) -> VictimEntry | None:
        """None where no job is left."""
        if self._left:
            self._read_last()
        return self._entries[-1] if self._entries else None

    def pop(self) -> VictimEntry:
        """Take the job that :meth:`last` said."""
        return self._entries.pop()

    def put(self, entry: VictimEntry) -> None:
        insort(self._entries, entry, key=order_of)

    def backwards(self) -> Iterator[VictimEntry]:
        """Take all jobs, the last first."""
        while (entry := self.last()) is not None:
            yield entry
            self.pop()

    def _read_last(self) -> None:
        """Make the object of the last unread job, where that is the last of all."""
        if self._unread is None or self._places is None:
            return
        line = self._places.item(self._left - 1)
        key = self._unread.key(line)
        if not self._entries or key > order_of(self._entries[-1]):
            self._left -= 1
            reached = self._unread.reached(line) if self._decided else self._unread.job(line)
            self._entries.append((*key, reached))


def _any(columns: ResidentColumns) -> Mask:
    return np.ones(len(columns.jid), np.bool_)


class JobLines:
    """A search reads a part of the order only: nothing is sorted anew for each of them."""

    def __init__(
        self, ssn: KaiSession, jobs: Iterable[KaiJob], unread: UnreadJobs | None = None
    ) -> None:
        """``unread``: jobs beside these that are no objects yet."""
        self._ssn = ssn
        self._unread = unread
        self.lines: dict[QueueState, list[Entry]] = {}
        """Leaf -> its jobs, the first in job order first."""
        self._entries: dict[int, Entry] = {}
        for job in jobs:
            entry = self._entries[job.job.job.jid] = entry_of(ssn, job)
            self.lines.setdefault(job.queue, []).append(entry)
        for line in self.lines.values():
            line.sort(key=order_of)

    def __contains__(self, jid: int) -> bool:
        return jid in self._entries

    def put(self, job: KaiJob, *, here: bool) -> None:
        """Note that a job changed; ``here``: whether it belongs into the lines now."""
        self.drop(job.job.job.jid)
        if self._unread is not None:
            self._unread.forget((job.job.job.jid,))
        if here:
            entry = self._entries[job.job.job.jid] = entry_of(self._ssn, job)
            insort(self.lines.setdefault(job.queue, []), entry, key=order_of)

    def drop(self, jid: int) -> None:
        entry = self._entries.pop(jid, None)
        if entry is not None:
            line = self.lines[entry[2].queue]
            del line[bisect_left(line, order_of(entry), key=order_of)]

    def victims(
        self, may_be: VictimMask = _any, *, decided: bool = False
    ) -> dict[QueueState, VictimLine]:
        """Leaf -> its jobs, to take them from the last on. ``may_be``: of those that are no
        objects; of the others all are there. ``decided``: whether it says all of who may go."""
        unread: Mapping[QueueState, Ints] = {}
        if self._unread is not None:
            unread = self._unread.lines(may_be)
        leaves = [leaf for leaf, line in self.lines.items() if line]
        return {
            leaf: VictimLine(
                self.lines.get(leaf, ()), self._unread, unread.get(leaf), decided=decided
            )
            for leaf in dict.fromkeys((*leaves, *unread))
        }

    def most_of(
        self, by_row: Ints, may_be: VictimMask, accepts: Callable[[KaiJob], bool]
    ) -> tuple[Ints, Ints]:
        """(numbers of the jobs that may be victims; of each the most that a node of its tasks has
        in ``by_row``). ``may_be``: of those that are no objects, ``accepts`` of the others."""
        entries = [e for line in self.lines.values() for e in line if accepts(e[2])]
        jids = np.array([jid for _, jid, _ in entries], np.int64)
        rows = ([task.row for task in job.job.tasks if task.row >= 0] for _, _, job in entries)
        most = np.array([int(by_row[each].max()) for each in rows], np.int64)
        if self._unread is None:
            return jids, most
        others, theirs = self._unread.most_of(by_row, may_be)
        return np.concatenate([jids, others]), np.concatenate([most, theirs])

    def with_others(self, jobs: Iterable[KaiJob]) -> dict[QueueState, list[Entry]]:
        """A copy with these jobs as they are now, instead of or beside those that are there."""
        lines = {leaf: line.copy() for leaf, line in self.lines.items() if line}
        others: dict[QueueState, list[Entry]] = {}
        for job in jobs:
            old = self._entries.get(job.job.job.jid)
            if old is not None:
                line = lines[old[2].queue]
                del line[bisect_left(line, order_of(old), key=order_of)]
            others.setdefault(job.queue, []).append(entry_of(self._ssn, job))
        for leaf, entries in others.items():
            line = lines.setdefault(leaf, [])
            if len(entries) == 1:
                insort(line, entries[0], key=order_of)
            else:
                line += entries
                line.sort(key=order_of)
        return lines


def last_first(lines: Mapping[QueueState, VictimLine]) -> Iterator[VictimEntry]:
    """Take the jobs of all lines, the last in job order first."""
    backwards = (line.backwards() for line in lines.values())
    return merge(*backwards, key=order_of, reverse=True)


def entry_of(ssn: KaiSession, job: KaiJob) -> Entry:
    return ssn.kai_job_key(job), job.job.job.jid, job


def order_of(entry: VictimEntry) -> tuple[SortKey, int]:
    """Sort key of an entry."""
    return entry[0], entry[1]
