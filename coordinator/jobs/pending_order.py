"""A line of jobs with equal needs, and the sorted lines of a queue that has many.

Few lines are scanned: every line for every pick. Where there are many, a pick is a search in a tree
(:mod:`.pending_tree`) that skips the lines without room, and those that a worker found infeasible
until capacity was freed and their pause is over: each of them is touched twice per hopeless turn,
not once per pick. Reasons and measurements: docs/decisions/0041.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from coordinator.jobs.charges.cluster_capacity import ClusterCapacity
from coordinator.jobs.pending_tree import Entry, LineNode, LineTree
from coordinator.jobs.state import Need
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.messages.reason import WaitReason
from shared.model.model import Requests

LineId = tuple[Need, Hashable]

RESTS, SKIPPED = -1, -2
"""Pseudo slots: a resting or skipped line requests one of them. None exists, so that a search skips
it like any line without room, and a branch of such lines as a whole."""

NONE_OF_THOSE: Mapping[int, float] = {RESTS: 0, SKIPPED: 0}

PROBE_SECONDS = 0.02
"""First pause of an infeasible line before freed capacity wakes it; doubles each time."""
PROBE_LIMIT_SECONDS = 1.0
"""Longest such pause: freed capacity is never ignored for longer."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """State of a blocked line: when it may be tried again; see :class:`Line`."""

    infeasible_at: int
    not_before: float
    wait: float


@dataclass(slots=True, eq=False)
class Line:
    """Jobs of one queue with the same need that are placed alike, best first."""

    need: Need
    likeness: Hashable
    """Inputs of placing that are not of the classes in the need; None for none."""
    amounts: Amounts
    requests: Requests | None
    """The amounts as rules over queues take them; None: they are not the same on every node."""
    queue: PendingQueue
    number: int = 0
    """Unique per line."""
    jobs: int = 0
    """Number of jobs in it."""
    order: LineOrder | None = None
    """None where the lines of its queue are scanned."""
    node: LineNode[Line] | None = None
    """Its node in that order."""
    resting: bool = False
    """Whether that order leaves it out because a worker found it infeasible."""
    heap: list[Entry] = field(default_factory=list)
    starving: list[Entry] = field(default_factory=list)
    """Heap of the entries whose jobs may evict others."""
    infeasible_at: int = -1
    """Count of capacity changes that the worker had seen which found it infeasible; -1 for none."""
    not_before: float = 0.0
    wait: float = PROBE_SECONDS
    reasons: Counter[WaitReason] = field(default_factory=Counter)
    """Jobs in the line, by the reason that each has of its own."""

    def hold(self, *, since: int, now: float) -> None:
        """Wait for capacity freed after ``since`` changes; each pause in a row is longer."""
        self.infeasible_at = since
        self.not_before = now + self.wait
        self.wait = min(self.wait * 2, PROBE_LIMIT_SECONDS)

    @property
    def key(self) -> LineId:
        """Tells the line from others of its queue."""
        return self.need, self.likeness

    @property
    def block(self) -> LineBlock | None:
        """Block since a worker found the line infeasible; None if it may be tried."""
        if self.infeasible_at < 0:
            return None
        return LineBlock(self.infeasible_at, self.not_before, self.wait)


@dataclass(slots=True)
class PendingQueue:
    info: QueueInfo
    lines: dict[LineId, Line] = field(default_factory=dict)
    waiting: int = 0
    """Number of jobs in its lines."""
    order: LineOrder | None = None
    """The sorted lines, where there are many."""


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
        """Add a line in its present state."""
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
        """Start a session: lines skipped in the last one, and those whose pause is over, may be
        tried."""
        # Opened by the first pick in this queue: a session that never comes to it costs it nothing.
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
            # The line may have left the queue, been woken or been held anew since this entry was
            # pushed: entries are not removed.
            if line.order is self and line.resting and line.not_before == until:
                self._wake(line)

    def rest(self, line: Line) -> None:
        """Leave out a line that a worker found infeasible, until capacity was freed since and its
        pause is over."""
        # Two places to rest, so that a line is touched when something is freed and when its pause
        # ends, and not at every pick in between.
        if line.infeasible_at == self._capacity.changes:
            self._unchanged.append(line)
        else:
            heapq.heappush(self._due, (line.not_before, line.number, line))
        if not line.resting:
            line.resting = True
            self._mark(line, RESTS)

    def wake_all(self) -> None:
        """Wake every resting line: earlier findings of workers no longer count."""
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
        """When a pause ends although nothing happens until then."""
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
