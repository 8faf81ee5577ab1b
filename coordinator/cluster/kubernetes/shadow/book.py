"""Comparison of the shadow's decisions with the cluster's, per pod and per queue. No I/O and no
clock."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.cluster.kubernetes.shadow.record import ShadowRecord
from coordinator.cluster.kubernetes.state.pods import PodRow

ENTRIES = 20_000
"""Maximum number of pods with an entry of their own; the totals of queues go on beyond it."""


class ShadowVerdict(StrEnum):
    """How our decision about a pod compares with the cluster's."""

    SAME = "same node"
    OTHER = "other node"
    OURS_ALONE = "ours alone"  # we would have placed it, and it still waits
    THEIRS_ALONE = "theirs alone"  # it was placed, and we would have let it wait
    WAITS = "both wait"
    UNSEEN = "placed before"  # it had its node before we looked: nothing to compare


@dataclass(slots=True)
class ShadowEntry:
    """One pod. Times are seconds since 1970; 0: not yet."""

    pod: str
    queue: str
    arrived: float
    theirs: str = ""
    """Node that the cluster has it on; "" for none."""
    theirs_at: float = 0.0
    ours: str = ""
    ours_at: float = 0.0
    ended_at: float = 0.0
    seen: bool = True
    """False: it had its node before we looked."""
    why: str = ""
    """Why we let it wait, when the cluster placed it or as of now."""
    evicted: list[str] = field(default_factory=list)
    """Why we would have evicted it, each time."""

    @property
    def verdict(self) -> ShadowVerdict:
        if not self.seen:
            return ShadowVerdict.UNSEEN
        match bool(self.ours), bool(self.theirs):
            case True, True:
                return ShadowVerdict.SAME if self.ours == self.theirs else ShadowVerdict.OTHER
            case True, False:
                return ShadowVerdict.OURS_ALONE
            case False, True:
                return ShadowVerdict.THEIRS_ALONE
            case _:
                return ShadowVerdict.WAITS


@dataclass(slots=True)
class QueueTotals:
    """The pods of a queue that are not kept one by one any more."""

    verdicts: Counter[str] = field(default_factory=Counter)
    evictions: int = 0
    ours_waits: float = 0.0
    """Seconds from arrival to our placement, summed over ``compared`` pods."""
    theirs_waits: float = 0.0
    compared: int = 0

    def add(self, entry: ShadowEntry) -> None:
        self.verdicts[entry.verdict] += 1
        self.evictions += len(entry.evicted)
        if entry.seen and entry.ours and entry.theirs:
            self.compared += 1
            self.ours_waits += entry.ours_at - entry.arrived
            self.theirs_waits += entry.theirs_at - entry.arrived

    def plus(self, other: QueueTotals) -> None:
        self.verdicts.update(other.verdicts)
        self.evictions += other.evictions
        self.ours_waits += other.ours_waits
        self.theirs_waits += other.theirs_waits
        self.compared += other.compared


@dataclass(frozen=True, slots=True)
class ShadowFacts:
    """Look-ups of the coordinator's facts about jobs."""

    queue: Callable[[int], str] = lambda jid: ""
    why: Callable[[int], str] = lambda jid: ""
    """One sentence on why the job waits; "" where it does not."""


class ShadowBook:
    """A mirror's observer. ``facts`` is replaced once a coordinator leads."""

    def __init__(self, record: ShadowRecord | None = None) -> None:
        self.facts = ShadowFacts()
        self._record = record
        self.refused: OrderedDict[str, str] = OrderedDict()
        """Pod -> why it is not understood; the last of them."""
        self.refusals = 0
        self._entries: OrderedDict[str, ShadowEntry] = OrderedDict()
        self._past: dict[str, QueueTotals] = {}

    # --- what happens ---------------------------------------------------------------------------

    def arrived(self, row: PodRow, now: float) -> None:
        entry = ShadowEntry(f"{row.namespace}/{row.name}", self.facts.queue(row.jid), now)
        job = row.group or entry.pod
        self._write("arrived", row, now, pod=entry.pod, job=job, queue=entry.queue)
        if row.node:
            self._write("placed", row, now, node=row.node)
        if row.node:
            entry.theirs, entry.theirs_at = row.node, now
            entry.seen = row.was_pending
            if entry.seen:
                entry.why = self.facts.why(row.jid)
        self._entries[row.uid] = entry
        while len(self._entries) > ENTRIES:
            _, oldest = self._entries.popitem(last=False)
            self._past.setdefault(oldest.queue, QueueTotals()).add(oldest)

    def _write(self, event: str, row: PodRow, now: float, **facts: str) -> None:
        if self._record is not None:
            self._record.write(event, now, uid=row.uid, **facts)

    def flush(self) -> None:
        """Have the record in its file."""
        if self._record is not None:
            self._record.flush()

    def close(self) -> None:
        if self._record is not None:
            self._record.close()

    def placed(self, row: PodRow, now: float) -> None:
        self._write("placed", row, now, node=row.node)
        if (entry := self._entries.get(row.uid)) is not None and not entry.theirs:
            entry.theirs, entry.theirs_at = row.node, now
            if not entry.ours:
                entry.why = self.facts.why(row.jid)

    def ended(self, row: PodRow, now: float) -> None:
        self._write("ended", row, now, phase=row.phase.name.lower())
        if (entry := self._entries.get(row.uid)) is not None:
            entry.ended_at = now

    def would_bind(self, row: PodRow, node: str, now: float) -> None:
        self._write("would bind", row, now, node=node)
        if (entry := self._entries.get(row.uid)) is not None and not entry.ours:
            entry.ours, entry.ours_at, entry.why = node, now, ""

    def would_evict(self, row: PodRow, why: str) -> None:
        entry = self._entries.get(row.uid)
        if entry is not None and not entry.evicted:  # it is asked for until the pod ends
            entry.evicted.append(why)

    def not_understood(self, pod: str, why: str) -> None:
        self.refusals += 1
        self.refused[pod] = why
        if len(self.refused) > ENTRIES:
            self.refused.popitem(last=False)

    # --- what is told ---------------------------------------------------------------------------

    def entries(self, jid_of: Callable[[str], int]) -> list[ShadowEntry]:
        """The pods that are kept one by one, oldest first; those that wait with the reason of now.
        ``jid_of``: the job of a pod by its uid, -1 for none."""
        for uid, entry in self._entries.items():
            if not entry.ours and not entry.theirs and (jid := jid_of(uid)) >= 0:
                entry.why = self.facts.why(jid)
        return list(self._entries.values())

    def queues(self) -> dict[str, QueueTotals]:
        totals: dict[str, QueueTotals] = {}
        for queue, past in self._past.items():
            totals.setdefault(queue, QueueTotals()).plus(past)
        for entry in self._entries.values():
            totals.setdefault(entry.queue, QueueTotals()).add(entry)
        return totals
