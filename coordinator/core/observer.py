"""Who is told what the state machine learns, for people's eyes: objects, events, stories.

Every call is about many tasks at once and must cost little: it stands in the path of every turn.
Nothing that a listener does may change a decision.
"""

from __future__ import annotations

from typing import Protocol

from coordinator.ledger_audit.findings import Finding
from shared.messages.messages import Outcome, StatusItem
from shared.records.quarantine import Aside


class Observer(Protocol):
    def outcome(self, shard: int, outcome: Outcome) -> None:
        """A turn came back and was believed; Order knows of it already."""
        ...

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None:
        """The ledger recorded the state ``item.state`` of these tasks; Order knows of it."""
        ...

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None:
        """Tasks have to leave their nodes; told again where a coordinator was lost meanwhile."""
        ...

    def job_moved(self, jid: int) -> None:
        """Something else about a job changed (it waits for another reason, it lost its place)."""
        ...

    def shard_changed(self, shard: int, reason: str) -> None:
        """``ShardLost``, ``ShardRecovered`` or ``ShardRebalanced``."""
        ...

    def node_changed(self, name: str, aside: Aside | None) -> None:
        """The node is set aside from now on, or (None) not any more."""
        ...

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        """The ledger audit found a record wrong. Returns the name of the object, for people."""
        ...


class Unobserved:
    """Nobody listens."""

    def outcome(self, shard: int, outcome: Outcome) -> None: ...

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None: ...

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None: ...

    def job_moved(self, jid: int) -> None: ...

    def shard_changed(self, shard: int, reason: str) -> None: ...

    def node_changed(self, name: str, aside: Aside | None) -> None: ...

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        return str(finding.subject)
