"""Counters of the coordinator since its start, one tally per shard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from coordinator.jobs.wait_times import Waits
from coordinator.ledger_audit.figures import AuditFigures
from shared.messages.messages import Outcome, OutcomeCode


@dataclass(slots=True)
class ShardTally:
    """Counts of one shard's workers."""

    statements: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)
    outcomes: Counter[OutcomeCode] = field(default_factory=Counter)
    turns_lost: int = 0
    """Turns whose outcome never arrived."""

    @property
    def judged(self) -> tuple[int, int]:
        """(statements that the ledger judged, those of them that lost a conflict with another
        shard)"""
        statements = self.statements
        lost = statements["conflicts_true"]
        return statements["committed"] + lost + statements["conflicts_read"], lost

    def count(self, outcome: Outcome) -> None:
        self.outcomes[outcome.code] += 1
        self.statements["committed"] += outcome.committed
        self.statements["rechecked"] += outcome.rechecked
        self.statements["conflicts_true"] += outcome.conflicts_true
        self.statements["conflicts_read"] += outcome.conflicts_read
        if outcome.code in (OutcomeCode.PLACED, OutcomeCode.NOMINATED):
            for p in outcome.placements:
                if len(p.levels) == 1:  # most of them; an update takes four times as long
                    self.levels[p.levels[0]] += 1
                else:
                    self.levels.update(p.levels)


@dataclass(slots=True)
class CoordinatorTally:
    """Counts since the start of this coordinator."""

    shards: dict[int, ShardTally] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    workers_lost: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    """Repaired differences to the cluster or the ledger, by kind."""
    unexplained: dict[str, int] = field(default_factory=dict)
    """Differences that the last reconcile pass cannot repair, by kind."""
    ledger_audit: AuditFigures = field(default_factory=AuditFigures)
    evicted: Counter[str] = field(default_factory=Counter)
    """Evicted tasks, by the action and the plugins that agreed."""
    late_binds: int = 0
    """Pods that a leader before this one bound while this one led."""
    nodes_moved: int = 0
    """Nodes that changed their shard."""

    def of(self, shard: int) -> ShardTally:
        if shard not in self.shards:
            self.shards[shard] = ShardTally()
        return self.shards[shard]

    def total(self) -> ShardTally:
        """The sum over all shards."""
        total = ShardTally()
        for tally in self.shards.values():
            total.statements.update(tally.statements)
            total.levels.update(tally.levels)
            total.outcomes.update(tally.outcomes)
            total.turns_lost += tally.turns_lost
        return total
