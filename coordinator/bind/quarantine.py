"""Quarantine: nodes that keep refusing binds for one reason are left out for a while.

Such a node looks free to every worker. Every task that fits best there is sent there, refused, and
sent there again. After some such refusals in a row, without an accepted bind in between, workers
leave the node out. After a time it may try again; the next quarantine lasts longer.

Only a small part of the nodes may be in quarantine at once: where all nodes refuse, the nodes are
not the cause. :attr:`Quarantines.withheld` reports that case instead.

Pure: :meth:`Quarantines.changes` says what to store; it takes effect once it is durable.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from shared.records.quarantine import Quarantine, decode_quarantine, quarantined_row

REFUSALS = 5
"""Refusals in a row before a quarantine: a node that refuses only now and then accepts a bind
before reaching it."""

FORGET_SECONDS = 300.0
"""Refusals further apart than this do not count as a row."""

QUARANTINE_SECONDS = 60.0
"""Length of the first quarantine; doubles each time, up to the limit below."""

QUARANTINE_LIMIT_SECONDS = 900.0

AGAIN_SECONDS = 900.0
"""A node that is quarantined again within this time of its return stays longer."""

SHARE = 0.1
"""Largest fraction of the nodes in quarantine at once; one node, where there are two or more."""


@dataclass(frozen=True, slots=True)
class RefusedBind:
    """A bind that the cluster refused permanently on this node."""

    jid: int
    tix: int
    row: int
    reason: str


@dataclass(slots=True)
class _Row:
    """Refusals in a row of one node."""

    reason: str
    count: int
    last: float


class Quarantines:
    """The nodes in quarantine, and those about to enter or leave it."""

    def __init__(self, *, refusals: int = REFUSALS, seconds: float = QUARANTINE_SECONDS) -> None:
        self.refusals = refusals
        self.seconds = seconds
        # An object of its own and not a taint or a cordon: a user's next apply would overwrite
        # those, and pods that tolerate everything would still be sent there (decision 0022).
        self.now: dict[int, Quarantine] = {}
        """By row: as the ledger has it."""
        self.count = 0
        """Number of quarantines since the start."""
        self.withheld = 0
        """Quarantines that were withheld because too many nodes are in one."""
        self._rows: dict[int, _Row] = {}
        self._due: list[tuple[float, int]] = []
        """Heap of (until, row)."""
        self._before: dict[int, Quarantine] = {}
        """The last time of nodes that are back."""
        self._wanted: dict[int, str] = {}
        """row -> reason: to be quarantined with the next changes."""
        self._asked: set[int] = set()
        """Rows whose change is on its way to the ledger."""

    # --- what nodes do ------------------------------------------------------------------------

    @property
    def suspects(self) -> Collection[int]:
        """Rows of nodes that refused a bind lately; accepted binds matter for these only."""
        return self._rows.keys()

    def refused(self, row: int, reason: str, now: float) -> None:
        record = self._rows.get(row)
        if record is None or record.reason != reason or now - record.last > FORGET_SECONDS:
            record = self._rows[row] = _Row(reason, 0, now)
        record.count += 1
        record.last = now
        if record.count >= self.refusals and row not in self.now and row not in self._asked:
            self._wanted[row] = reason

    def took(self, rows: Iterable[int]) -> None:
        """Note that these nodes accepted a bind."""
        for row in rows:
            self._rows.pop(row, None)
            self._wanted.pop(row, None)

    # --- what follows -------------------------------------------------------------------------

    def changes(self, now: float, present: Collection[int]) -> dict[int, Quarantine | None]:
        """The changes to store: nodes that enter quarantine, and (None) nodes that leave it.

        ``present``: the rows of all existing nodes.
        """
        if not self._wanted and not (self._due and self._due[0][0] <= now):
            return {}
        out: dict[int, Quarantine | None] = {}
        while self._due and self._due[0][0] <= now:
            until, row = heapq.heappop(self._due)
            record = self.now.get(row)
            # A heap entry stays when its record changes: one that names another end is void.
            if record is not None and record.until == until and row not in self._asked:
                out[row] = None
        # Changes that the ledger has not confirmed count as well, or two steps in a row would
        # exceed the limit.
        room = self._limit(len(present)) - len(self.now.keys() | self._asked)
        for row, reason in sorted(self._wanted.items()):
            if row not in present:
                continue
            if room <= 0:
                self.withheld += 1
                del self._rows[row]  # counted anew: told again only when it goes on
                continue
            room -= 1
            out[row] = self._next(row, reason, now)
        self._wanted.clear()
        self._asked.update(out)
        return out

    @staticmethod
    def _limit(nodes: int) -> int:
        # A lone node is never left out: there would be no other to prefer.
        return 0 if nodes < 2 else max(1, int(nodes * SHARE))

    def _next(self, row: int, reason: str, now: float) -> Quarantine:
        before, times = self._before.get(row), 1
        if before is not None and now - before.until <= AGAIN_SECONDS:
            times = before.times + 1
        seconds = min(self.seconds * 2 ** min(times - 1, 10), QUARANTINE_LIMIT_SECONDS)
        return Quarantine(reason, now, now + max(seconds, self.seconds), times)

    def stored(self, changes: Mapping[int, Quarantine | None]) -> None:
        """Apply changes that are durable now."""
        for row, quarantine in changes.items():
            self._asked.discard(row)
            self._rows.pop(row, None)
            if quarantine is None:
                self._back(row)
            else:
                self.count += 1
                self._put(row, quarantine)

    def gone(self, row: int) -> None:
        """Forget a deleted node: if it comes back, it may be another machine."""
        self._rows.pop(row, None)
        self._before.pop(row, None)
        self._wanted.pop(row, None)
        if row in self.now and row not in self._asked:
            record = self.now[row]
            self._put(
                row, Quarantine(record.reason, record.since, 0.0, record.times)
            )  # over at once

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Restore the quarantined nodes from the ledger's objects."""
        for key, data in objects.items():
            if (row := quarantined_row(key)) >= 0:
                self._put(row, decode_quarantine(data))

    def forget(self, keys: Iterable[str]) -> None:
        """Forget nodes whose quarantine the ledger no longer holds."""
        for key in keys:
            if (row := quarantined_row(key)) >= 0:
                self._back(row)

    def _put(self, row: int, quarantine: Quarantine) -> None:
        self.now[row] = quarantine
        heapq.heappush(self._due, (quarantine.until, row))

    def _back(self, row: int) -> None:
        record = self.now.pop(row, None)
        if record is not None:
            self._before[row] = record

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None
