"""Observer of the state machine: feeds what people see (objects, events, timelines).

Each call covers many tasks and must be cheap, because it is on the path of every turn. An observer
never affects a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from coordinator.cluster.overdue import OverduePod
from coordinator.ledger_audit.findings import Finding
from shared.messages.messages import Outcome, StatusItem
from shared.messages.reason import Reason
from shared.records.quarantine import Quarantine


class EventReason(StrEnum):
    """The reasons of events, beside the phases of Jobs."""

    SHARD_LOST = "ShardLost"
    SHARD_RECOVERED = "ShardRecovered"
    SHARD_REFUSED = "ShardRefused"
    SHARD_REBALANCED = "ShardRebalanced"
    NODE_SET_ASIDE = "NodeSetAside"
    NODE_RETURNED = "NodeReturned"
    QUEUE_CLOSED = Reason.QUEUE_CLOSED.value
    LEDGER_CONTRADICTION = "LedgerContradiction"
    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    UNSCHEDULABLE = "Unschedulable"
    """FailedScheduling, of a gang: Volcano's word; KAI's also of a pod."""
    NOT_READY = "NotReady"
    """FailedScheduling, of a gang some of whose pods do not exist: KAI's word."""
    NOMINATED = "Nominated"
    COMMIT_CONFLICT = "CommitConflict"
    BIND_FAILED = "BindFailed"
    PREEMPTED = "Preempted"
    EVICTING = "Evicting"
    EVICTED = "Evicted"
    EVICTION_OVERDUE = "EvictionOverdue"
    EVICT = "Evict"
    """Tasks of the job are told to stop; EVICTED, which has this word in events, says for whom."""
    GANG_RELEASED = "GangReleased"
    RESTARTED = "Restarted"


class Observer(Protocol):
    def outcome(self, shard: int, outcome: Outcome) -> None:
        """A turn's outcome was accepted; Order has taken it already."""
        ...

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None:
        """The ledger recorded the state ``item.state`` of these tasks; Order has taken it."""
        ...

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None:
        """Tasks are evicted by a statement of the job ``by_jid``, which may be ``jid`` itself;
        repeated where a coordinator was lost meanwhile."""
        ...

    def victim_overdue(self, pod: OverduePod, waiting: Sequence[int]) -> None:
        """A task should have left its node, and has not; the jobs ``waiting`` are promised what it
        has."""
        ...

    def job_moved(self, jid: int) -> None:
        """A job changed in another way, without a turn: it lost a place or its nominations, or
        waits for another reason."""
        ...

    def shard_changed(self, shard: int, reason: EventReason, message: str = "") -> None:
        """A worker lost its shard, took it, or is not used; or nodes came or left. ``message``:
        what is said of it in place of what is always said."""
        ...

    def node_changed(self, name: str, quarantine: Quarantine | None) -> None:
        """The node entered quarantine, or (None) left it."""
        ...

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        """The ledger audit found a wrong record. Returns the object's name, for people."""
        ...


class Unobserved:
    """An observer that ignores everything."""

    def outcome(self, shard: int, outcome: Outcome) -> None: ...

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None: ...

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None: ...

    def victim_overdue(self, pod: OverduePod, waiting: Sequence[int]) -> None: ...

    def job_moved(self, jid: int) -> None: ...

    def shard_changed(self, shard: int, reason: EventReason, message: str = "") -> None: ...

    def node_changed(self, name: str, quarantine: Quarantine | None) -> None: ...

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        return str(finding.subject)
