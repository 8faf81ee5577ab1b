"""The entries of the ledger's log: every change leaves one, in the order in which they happened."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.ledger.entries.intake_batch import IntakeOp
from shared.messages.messages import Epoch, EvictRun, Rows, Run, StatusItem, Verdict


@dataclass(frozen=True, slots=True)
class Committed:
    """An accepted statement as the log records it; ``tail`` has accepted operations only."""

    jid: int
    verdict: Verdict
    priority: int
    core: list[Run]
    tail: list[Run]
    dropped: list[int]
    """Jobs whose nominations ended with this statement: its own earlier ones and displaced ones."""
    expiry: float = 0.0
    evictions: list[EvictRun] = field(default_factory=list)
    reason: str = ""
    """The reason of its evictions: the action and the plugins."""


@dataclass(frozen=True, slots=True)
class CommitEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    accepted: list[Committed]
    refused: list[tuple[int, Verdict]]
    """(jid, verdict) of refused cores and, with their own verdict, of refused tail operations."""
    fresh: Rows


@dataclass(frozen=True, slots=True)
class StatusEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    items: list[StatusItem]
    """Only the items that changed something."""
    expired: list[int]
    fresh: Rows


@dataclass(frozen=True, slots=True)
class IntakeEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    ops: list[IntakeOp]
    fresh: Rows
    dropped: list[int] = field(default_factory=list)
    """Jobs whose nominations ended with this batch: the job was deleted, or its specification
    changed."""
    documents: list[str] = field(default_factory=list)
    """Keys of the documents that were written or deleted: followers read them again."""


@dataclass(frozen=True, slots=True)
class EpochEntry:
    id: str
    writer: str
    epoch: Epoch


LogEntry = CommitEntry | StatusEntry | IntakeEntry | EpochEntry
