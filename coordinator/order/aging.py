"""Aging: the job that is first in its queue for too long gets nodes of its own.

Off unless a bound is set. Volcano has no such thing: there a stream of small jobs can keep a wide
one from its nodes for ever. Here the job that was the first of its queue for longer than the bound,
and could be placed by its queue's share, has a worker choose nodes that together can hold it; they
are kept for it (every worker leaves them out, for everybody else), so that what runs there drains.
Once the job is placed, or gone, the nodes are everybody's again. At most one job at a time has any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shared.records.reservation import reserved_row

RESERVE = "reserve"
"""The action of the turn in which a worker chooses."""

LOOK_SECONDS = 0.25
"""Who is first is looked at so often."""

AGAIN_SECONDS = 5.0
"""So long after no nodes were found for a job it is looked for some again."""


KEEP_TIMES = 20
"""After so many times the bound the nodes are given back: what runs there does not end."""


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
        """Is it time to tell who is first?"""
        if not self.bound or now < self._looked + LOOK_SECONDS:
            return False
        self._looked = now
        if self.jid >= 0 and now > self._since + KEEP_TIMES * self.bound:
            self.over(self.jid)
        return True

    def first(self, qid: int, jid: int, now: float) -> float:
        """The job is the first of its queue; returns for how long it has been."""
        entry = self._first.get(qid)
        if entry is None or entry[0] != jid:
            self._first[qid] = entry = (jid, now)
        return now - entry[1]

    def gone(self, qids: Collection[int]) -> None:
        """Only these queues have a first job."""
        for qid in [qid for qid in self._first if qid not in qids]:
            del self._first[qid]

    def may_ask(self, jid: int, waited: float, now: float) -> bool:
        """May a worker be asked to choose nodes for it?"""
        due = self._asked.get(jid, float("-inf")) + AGAIN_SECONDS
        return waited > self.bound and self.jid < 0 and not self._stored and now >= due

    def asked(self, jid: int, now: float) -> None:
        self._asked = {jid: now}

    # --- which nodes --------------------------------------------------------------------------

    def chosen(self, jid: int, rows: Iterable[int]) -> None:
        """A worker chose these; none where no nodes can hold the job."""
        if self.jid < 0 and (chosen_rows := sorted(set(rows))):
            self.jid, self.rows, self._since = jid, chosen_rows, self._looked
            self.kept += 1

    def reserved(self, jid: int) -> list[int]:
        """Rows that the job may use and others may not."""
        return self.rows if jid == self.jid else []

    def over(self, jid: int) -> None:
        """The job got its place, or is gone."""
        if jid == self.jid:
            self.jid, self.rows = -1, []

    def restore(self, keys: Iterable[str]) -> None:
        """What an earlier coordinator had kept, by the ledger's keys: given back."""
        self._stored |= {row for key in keys if (row := reserved_row(key)) >= 0}

    # --- what is to be stored -----------------------------------------------------------------

    def changes(self) -> dict[int, int | None]:
        """Row -> the job it is to be kept for, None where for none any more. They hold once
        :meth:`stored` was told."""
        if self._storing or self._stored == set(self.rows):
            return {}
        self._storing = True
        reserved = {row: self.jid for row in self.rows if row not in self._stored}
        return {**dict.fromkeys(sorted(self._stored - set(self.rows))), **reserved}

    def stored(self, marks: dict[int, int | None]) -> None:
        self._storing = False
        for row, jid in marks.items():
            (self._stored.discard if jid is None else self._stored.add)(row)
