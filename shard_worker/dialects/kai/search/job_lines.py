"""Jobs of each leaf queue in job order, kept in order while single jobs change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from shard_worker.dialects.kai.model import KaiJob, QueueState, SortKey
from shard_worker.dialects.kai.session import KaiSession

Entry = tuple[SortKey, int, KaiJob]
"""(job order, jid, job); the jid keeps jobs from being compared."""


class JobLines:
    """A search reads a part of the order only: nothing is sorted anew for each of them."""

    def __init__(self, ssn: KaiSession, jobs: Iterable[KaiJob]) -> None:
        self._ssn = ssn
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
        if here:
            entry = self._entries[job.job.job.jid] = entry_of(self._ssn, job)
            insort(self.lines.setdefault(job.queue, []), entry, key=order_of)

    def drop(self, jid: int) -> None:
        entry = self._entries.pop(jid, None)
        if entry is not None:
            line = self.lines[entry[2].queue]
            del line[bisect_left(line, order_of(entry), key=order_of)]

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


def entry_of(ssn: KaiSession, job: KaiJob) -> Entry:
    return ssn.kai_job_key(job), job.job.job.jid, job


def order_of(entry: Entry) -> tuple[SortKey, int]:
    """What entries are sorted by."""
    return entry[0], entry[1]
