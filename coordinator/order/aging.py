"""Aging: nodes are reserved for a job that has been first in its queue for too long.

Off unless a bound is set. Volcano has no such feature: there a stream of small jobs can starve a
wide one for ever. Here a job that was first in its queue for longer than the bound, and that its
queue's share admits, gets a set of nodes, chosen by a worker, that together can hold it. The nodes
are reserved: every worker leaves them out for all other jobs, so that they drain. They are released
once the job is placed or gone. At most one job has a reservation at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shared.records.reservation import reserved_row

RESERVE = "reserve"
"""The action of the turn in which a worker chooses the nodes."""

LOOK_SECONDS = 0.25
"""Interval at which the first jobs of the queues are recorded."""

AGAIN_SECONDS = 5.0
"""Pause after a search for nodes, before the same job may cause another one."""


KEEP_TIMES = 20
"""The reservation is released after this multiple of the bound: the tasks on its nodes do not
end."""


class Aging:
    def __init__(self) -> None:
        self.bound = 0.0
        """Seconds; 0 = off."""
        self.jid = -1
        """The job that nodes are kept for, -1 where there is none."""
        self.rows: list[int] = []
        self.kept = 0
        """Times that nodes were kept for a job, since the start."""
        self._first: dict[int, tuple[int, float]] = {}
        """Queue -> (the job that is first, since when)."""
        self._looked = float("-inf")
        self._since = 0.0
        self._asked: dict[int, float] = {}
        self._stored: set[int] = set()
        """Rows that the ledger has as kept."""
        self._storing = False

    # --- who ----------------------------------------------------------------------------------

    def looks(self, now: float) -> bool:
        """Whether the first jobs of the queues are due to be recorded; also releases an old
        reservation."""
        if not self.bound or now < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        if self.jid >= 0 and now > self._since + KEEP_TIMES * self.bound:
            self.over(self.jid)
        return True

    def first(self, qid: int, jid: int, now: float) -> float:
        """Record that the job is the first of its queue; returns for how many seconds it has
        been."""
        entry = self._first.get(qid)
        if entry is None or entry[0] != jid:
            self._first[qid] = entry = (jid, now)
        return now - entry[1]

    def gone(self, qids: Collection[int]) -> None:
        """Forget the first jobs of all queues but these."""
        for qid in [qid for qid in self._first if qid not in qids]:
            del self._first[qid]

    def may_ask(self, jid: int, waited: float, now: float) -> bool:
        """Whether a worker may be asked to choose nodes for the job."""
        due = self._asked.get(jid, float("-inf")) + AGAIN_SECONDS
        # `_stored`: the ledger still has nodes of the reservation before, and at most one job has
        # any at a time (decision 0029).
        return waited > self.bound and self.jid < 0 and not self._stored and now >= due

    def asked(self, jid: int, now: float) -> None:
        self._asked = {jid: now}

    # --- which nodes --------------------------------------------------------------------------

    def chosen(self, jid: int, rows: Iterable[int]) -> None:
        """Reserve the nodes that a worker chose (by row); none where no nodes can hold the job."""
        if self.jid < 0 and (chosen_rows := sorted(set(rows))):
            self.jid, self.rows, self._since = jid, chosen_rows, self._looked
            self.kept += 1

    def reserved(self, jid: int) -> list[int]:
        """The rows that are reserved for the job."""
        return self.rows if jid == self.jid else []

    def over(self, jid: int) -> None:
        """Release the reservation of the job: it was placed, or is gone."""
        if jid == self.jid:
            self.jid, self.rows = -1, []

    def restore(self, keys: Iterable[str]) -> None:
        """Release the reservations of an earlier leader, which the ledger still has under these
        keys."""
        self._stored |= {row for key in keys if (row := reserved_row(key)) >= 0}

    # --- what is to be stored -----------------------------------------------------------------

    def changes(self) -> dict[int, int | None]:
        """Changes to store: row -> the job that it is reserved for, None to release it. They take
        effect when :meth:`stored` is called."""
        # One change is on its way at a time, so that what the ledger has is always known here.
        if self._storing or self._stored == set(self.rows):
            return {}
        self._storing = True
        reserved = {row: self.jid for row in self.rows if row not in self._stored}
        return {**dict.fromkeys(sorted(self._stored - set(self.rows))), **reserved}

    def stored(self, marks: dict[int, int | None]) -> None:
        self._storing = False
        for row, jid in marks.items():
            (self._stored.discard if jid is None else self._stored.add)(row)
