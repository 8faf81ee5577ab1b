"""A line of jobs with equal needs, and the lines of one queue in order where there are many.

Few lines are scanned: every line for every pick. Where there are many, those that wait for
something stand apart, and a pick is a search in a tree (:mod:`.pending_tree`) that leaves out what
there is no room for, and lines that a worker found infeasible until capacity was freed and their
pause is over: each of them is touched twice for a hopeless turn, not once for every pick. Why, and
what was measured: docs/decisions/0041.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.jobs.accounts import ClusterCapacity
from coordinator.jobs.pending_tree import Entry, LineNode, LineTree
from coordinator.jobs.state import Need
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.messages.reason import WaitReason

RESTS, SKIPPED = -1, -2
"""Slots that stand for no resource: a line that rests, or is skipped for this session, asks for one
of it. There is none, so a search leaves it out like any other line that there is no room for, and
a branch of nothing but such lines as a whole."""

NONE_OF_THOSE: Mapping[int, float] = {RESTS: 0, SKIPPED: 0}

PROBE_SECONDS = 0.02
"""How long an infeasible line waits at least before freed capacity wakes it; doubles each time."""
PROBE_LIMIT_SECONDS = 1.0
"""The longest such wait: freed capacity is never ignored for longer."""


@dataclass(slots=True, eq=False)
class Line:
    """Jobs of one queue with the same need, best first."""

    need: Need
    amounts: Amounts
    queue: QueueState
    number: int = 0
    """Different for each line."""
    jobs: int = 0
    """Jobs that stand in it."""
    order: LineOrder | None = None
    """None where the lines of its queue are scanned."""
    node: LineNode[Line] | None = None
    """Where it is in that order."""
    resting: bool = False
    """Whether that order leaves it out because a worker found it infeasible."""
    heap: list[Entry] = field(default_factory=list)
    infeasible_at: int = -1
    """A worker found it infeasible, and had seen this many capacity changes; -1 where none did."""
    not_before: float = 0.0
    wait: float = PROBE_SECONDS
    reasons: Counter[WaitReason] = field(default_factory=Counter)
    """Jobs that stand in it, by the reason each has of its own."""

    def hold(self, *, since: int, now: float) -> None:
        """Wait for capacity freed after ``since`` changes, a little longer each time in a row."""
        self.infeasible_at = since
        self.not_before = now + self.wait
        self.wait = min(self.wait * 2, PROBE_LIMIT_SECONDS)


@dataclass(slots=True)
class QueueState:
    info: QueueInfo
    lines: dict[Need, Line] = field(default_factory=dict)
    waiting: int = 0
    """Jobs that stand in them."""
    order: LineOrder | None = None
    """The lines in order, where there are many."""


class LineOrder:
    def __init__(self, capacity: ClusterCapacity) -> None:
        self.tree: LineTree[Line] = LineTree()
        self.emptied: list[Line] = []
        """Lines whose last job has left, and that may have got another one since."""
        self._capacity = capacity
        self._session = -1
        self._skipped: list[Line] = []
        self._unchanged: list[Line] = []
        """Lines that rest until anything is freed at all."""
        self._swept_at = -1
        """The count of capacity changes when those were looked through last."""
        self._due: list[tuple[float, int, Line]] = []
        """Heap of lines that rest until their pause is over: (when, number, line)."""

    # --- what is in it --------------------------------------------------------------------------

    def add(self, line: Line, top: Entry) -> None:
        """A line joins, as it stands."""
        line.order = self
        line.node = self.tree.add(line, top, line.amounts)
        if line.infeasible_at >= 0:
            self.rest(line)

    def remove(self, line: Line) -> None:
        self.tree.remove(_node(line))
        line.order = line.node = None

    def entered(self, line: Line, entry: Entry) -> None:
        """A job has joined the line."""
        node = _node(line)
        if entry < node.key:
            self.tree.move(node, entry)

    # --- who is left out ------------------------------------------------------------------------

    def begin(self, session: int, now: float) -> None:
        """The first look of a session: who was skipped in the last one may be tried again, and who
        has rested for long enough."""
        if session == self._session:
            return
        self._session = session
        self.unskip()
        changes = self._capacity.changes
        if changes != self._swept_at:
            self._swept_at = changes
            resting, self._unchanged = self._unchanged, []
            for line in resting:
                if line.order is self and line.resting:
                    self.rest(line)
        while self._due and self._due[0][0] <= now:
            until, _, line = heapq.heappop(self._due)
            if line.order is self and line.resting and line.not_before == until:
                self._wake(line)

    def rest(self, line: Line) -> None:
        """A worker found the line infeasible: leave it out until something was freed since then,
        and its pause is over."""
        if line.infeasible_at == self._capacity.changes:
            self._unchanged.append(line)
        else:
            heapq.heappush(self._due, (line.not_before, line.number, line))
        if not line.resting:
            line.resting = True
            self._mark(line, RESTS)

    def wake_all(self) -> None:
        """Wake every resting line: what workers found before no longer counts."""
        for node in list(self.tree):
            if node.line.resting:
                self._wake(node.line)
        self._unchanged.clear()
        self._due.clear()

    def skip(self, line: Line) -> None:
        """Leave the line out for the rest of the session."""
        self._skipped.append(line)
        self._mark(line, SKIPPED)

    def unskip(self) -> None:
        skipped, self._skipped = self._skipped, []
        for line in skipped:
            if line.order is self:
                self._unmark(line, SKIPPED)

    def skips(self, line: Line) -> bool:
        return SKIPPED in _node(line).asks

    def next_due(self) -> float | None:
        """When somebody's pause is over though nothing happens until then."""
        due = [self._due[0][0]] if self._due else []
        changes = self._capacity.changes
        if changes != self._swept_at:
            due += [line.not_before for line in self._unchanged if line.infeasible_at < changes]
        return min(due, default=None)

    def _wake(self, line: Line) -> None:
        line.resting = False
        self._unmark(line, RESTS)

    def _mark(self, line: Line, slot: int) -> None:
        node = _node(line)
        self.tree.ask(node, {**node.asks, slot: 1})

    def _unmark(self, line: Line, slot: int) -> None:
        node = _node(line)
        self.tree.ask(node, {s: amount for s, amount in node.asks.items() if s != slot})


def _node(line: Line) -> LineNode[Line]:
    assert line.node is not None, line.need
    return line.node
