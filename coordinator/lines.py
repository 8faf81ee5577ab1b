"""Lines: where jobs wait for their turn, and what they are told meanwhile.

Jobs of one queue that need the same (so many tasks of such classes) stand in one line, best first.
What holds back the first of a line holds back the rest. Beside the lines stand the urgent: jobs
that lost a conflict, or whose nominations can be taken up; they go first, without backoff.

Entries are never searched: a job that leaves gets a new stamp, and an entry with an old stamp is
void when it comes to the top.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.accounts import Capacity
from coordinator.jobs import JobState, Need, Standing
from coordinator.reason_words import Reason, word
from shard_worker.workload import Amounts, QueueInfo

PROBE_SECONDS = 0.02
"""How long an infeasible line waits at least before freed capacity wakes it; doubles each time."""

PROBE_LIMIT_SECONDS = 1.0
"""The longest such wait: freed capacity is never ignored for longer."""

LineKey = tuple[float, ...]
Entry = tuple[LineKey, float, int, int]
"""(job key, created, jid, stamp): the order of a line."""


@dataclass(slots=True)
class Line:
    """Jobs of one queue with the same need, best first."""

    need: Need
    amounts: Amounts
    heap: list[Entry] = field(default_factory=list)
    infeasible_at: int = -1
    """A worker found it infeasible, and had seen this many capacity changes; -1 where none did."""
    not_before: float = 0.0
    wait: float = PROBE_SECONDS
    reasons: Counter[str] = field(default_factory=Counter)
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


class Lines:
    """All lines of all queues, the urgent jobs, and the counts of jobs by where they stand."""

    def __init__(self, jobs: dict[int, JobState], capacity: Capacity, *, count_first: bool) -> None:
        """``count_first``: a line whose need exceeds what the cluster can give is held back."""
        self.queues: dict[int, QueueState] = {}
        self.standings: Counter[Standing] = Counter()
        """Jobs by where they stand."""
        self._reasons: Counter[str] = Counter()
        """Jobs outside the lines, by why they wait."""
        self._urgent: deque[tuple[int, int]] = deque()
        self._jobs = jobs
        self._capacity = capacity
        self._count_first = count_first

    # --- standing -----------------------------------------------------------------------------

    def enter(self, state: JobState) -> None:
        """A job that was not known before."""
        self.standings[state.standing] += 1

    def leave(self, state: JobState) -> None:
        """A job that is to be forgotten."""
        self.stand(state, Standing.WAITING, "")
        self.standings[Standing.WAITING] -= 1

    def stand(
        self, state: JobState, standing: Standing, reason: str, line: Line | None = None
    ) -> None:
        """Move a job to where it stands now, with the reason it is told by."""
        before = self._reasons if state.line is None else state.line.reasons
        before[state.reason] -= 1
        (self._reasons if line is None else line.reasons)[reason] += 1
        self.standings[state.standing] -= 1
        self.standings[standing] += 1
        state.standing, state.reason, state.line = standing, reason, line

    def join(self, state: JobState, reason: str, *, line: Line, key: LineKey) -> None:
        """Stand in a line."""
        self.stand(state, Standing.READY, reason, line)
        heapq.heappush(line.heap, (key, state.job.created, state.job.jid, state.stamp))

    def join_urgent(self, state: JobState, reason: str) -> None:
        self.stand(state, Standing.READY, reason)
        self._urgent.append((state.job.jid, state.stamp))

    # --- who is next --------------------------------------------------------------------------

    def pop_urgent(self) -> JobState | None:
        """The first urgent job; its share was judged before."""
        while self._urgent:
            jid, stamp = self._urgent.popleft()
            state = self._jobs.get(jid)
            if state is not None and state.stamp == stamp and state.standing is Standing.READY:
                return state
        return None

    def top(self, queue: QueueState, line: Line) -> Entry | None:
        """The first entry of a line that still stands; an empty line disappears."""
        while line.heap:
            entry = line.heap[0]
            state = self._jobs.get(entry[2])
            if state is not None and state.stamp == entry[3] and state.standing is Standing.READY:
                return entry
            heapq.heappop(line.heap)
        del queue.lines[line.need]
        return None

    def head(self, queue: QueueState) -> Line | None:
        """The line whose first job is the first of the queue, held back or not."""
        tops = [
            (top, line) for line in list(queue.lines.values()) if (top := self.top(queue, line))
        ]
        return min(tops, key=lambda found: found[0])[1] if tops else None

    def held_back(self, line: Line, now: float) -> bool:
        """Whether trying the line now is known to be in vain."""
        if line.infeasible_at == self._capacity.changes:
            return True
        if line.infeasible_at >= 0 and now < line.not_before:
            return True
        return self._count_first and not self._capacity.covers(line.amounts)

    def alone(self) -> bool:
        """Whether at most one job waits in all lines."""
        return not self._urgent and sum(len(line.heap) for line in self._all()) <= 1

    def next_due(self) -> float | None:
        """When a line may be tried again though nothing happens until then; None: none may."""
        due = [
            line.not_before
            for line in self._all()
            if 0 <= line.infeasible_at < self._capacity.changes
        ]
        return min(due, default=None)

    # --- tell ---------------------------------------------------------------------------------

    def reasons(self, now: float) -> Counter[str]:
        """Why jobs wait, counted by the words of the closed list. Jobs of a line that is held back
        wait for resources."""
        reasons = Counter(self._reasons)
        for line in self._all():
            if self.held_back(line, now):
                reasons["NotEnoughResources"] += line.reasons.total()
            else:
                reasons.update(line.reasons)
        del reasons[""]
        told: Counter[str] = Counter()
        for reason, count in reasons.items():
            told[word(reason).value] += count
        return +told

    def outside(self) -> Counter[Reason]:
        """Jobs that stand in no line, by why they wait."""
        told: Counter[Reason] = Counter()
        for reason, count in self._reasons.items():
            told[word(reason)] += count if reason else 0
        return told

    def _all(self) -> Iterator[Line]:
        for queue in self.queues.values():
            yield from queue.lines.values()
