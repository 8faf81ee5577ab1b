"""What the ledger stores of tasks, jobs and queues, and what it has the binder do.

Import these from :mod:`shared.ledger.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.messages.messages import Group
from shared.units.things import Vector


@dataclass(frozen=True, slots=True)
class ThingAsk:
    """What a task of a class takes of one named thing. Both vectors are of equal length."""

    name: str
    amounts: Vector
    offers: Vector
    """What a node has of it without saying so."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """Tasks of one job that have to leave their nodes. The three lists run in parallel."""

    jid: int
    by: int
    """The job whose statement it was."""
    reason: str
    tasks: list[int]
    rows: list[int]
    lives: list[int]
    """Which incarnation of each it is (see :attr:`TaskRecord.life`)."""


@dataclass(frozen=True, slots=True)
class BindEntry:
    """What one commit batch has the cluster do."""

    id: str
    binds: list[tuple[int, int, list[int], list[int]]]
    """Allocations: (jid, cid, tasks, rows)."""
    lives: dict[tuple[int, int], int] = field(default_factory=dict)
    """(jid, tix) -> incarnation, of those that were evicted before."""
    evicts: list[Evicted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    state: int
    """PENDING only where the task was evicted before: else it has no record."""
    row: int
    cid: int
    version: int
    group: int = 0
    life: int = 0
    """Incarnations of the task that were evicted and have ended."""
    by: int = -1
    """The job it is evicted for, and is leaving its node; -1 where it is not being evicted."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    spec_version: int
    qid: int
    gone: bool
    groups: list[Group]
    top: int = 0
    """One more than the highest task index that ever had a record."""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    parent: int
    used: dict[int, int]
    """By all that hold nodes, also while they leave."""
    capability: dict[int, int]
    guarantee: dict[int, int] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    """The part of ``used`` whose tasks are releasing."""
