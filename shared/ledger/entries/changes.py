"""The records that log entries changed: what a follower of the log has to read again.

The log says *which* records changed; the records themselves have the new values. So entries may be
noted in any portions, and a record that changed ten times since it was last read is read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropNode,
    DropQueue,
    IntakeOp,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import CommitEntry, EpochEntry, IntakeEntry, LogEntry, StatusEntry
from shared.messages.messages import ALLOCATE

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class ChangedKeys:
    """Numbers and keys of changed records. Nominations are left out: a new leader drops them
    all."""

    jobs: set[int] = field(default_factory=set)
    """Jobs that were added, changed or removed: all their records must be read."""
    tasks: dict[int, set[int]] = field(default_factory=dict)
    """jid -> changed tasks, of jobs that are not in ``jobs``."""
    nodes: set[int] = field(default_factory=set)
    queues: set[int] = field(default_factory=set)
    classes: set[int] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    partition: bool = False

    def note(self, entries: Iterable[LogEntry]) -> None:
        """Note the records that these log entries changed."""
        for entry in entries:
            match entry:
                case CommitEntry():
                    for statement in entry.accepted:
                        for run in (*statement.core, *statement.tail):
                            if run.kind == ALLOCATE:
                                self._moved(statement.jid, run.tasks)
                        for victims in statement.evictions:
                            self._moved(victims.jid, victims.tasks)
                case StatusEntry():
                    for item in entry.items:
                        self._moved(item.jid, item.tasks)
                case IntakeEntry():
                    self.documents.update(entry.documents)
                    for op in entry.ops:
                        self._stored(op)
                case EpochEntry():
                    pass

    def _moved(self, jid: int, tasks: list[int]) -> None:
        if jid not in self.jobs:
            self.tasks.setdefault(jid, set()).update(tasks)

    def _stored(self, op: IntakeOp) -> None:
        match op:
            case PutJob() | DropJob() | PurgeJob():
                self.jobs.add(op.jid)
                self.tasks.pop(op.jid, None)
            case PutNode() | DropNode():
                self.nodes.add(op.row)
            case PutQueue() | DropQueue():
                self.queues.add(op.qid)
            case PutClass() | DropClass():
                self.classes.add(op.cid)
            case PutObject():
                self.objects.add(op.key)
            case PutPartition():
                self.partition = True
            case Observe():
                pass  # what others use is in the views, not in the coordinator's books

    def __len__(self) -> int:
        """The number of records to read."""
        tasks = sum(len(those) for those in self.tasks.values())
        numbers = len(self.jobs) + len(self.nodes) + len(self.queues) + len(self.classes)
        return tasks + numbers + len(self.objects) + len(self.documents) + self.partition
