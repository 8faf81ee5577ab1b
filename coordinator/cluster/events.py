"""What a cluster tells the history: what it was asked for, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal["bind", "start", "releasing", "succeeded", "failed", "delete", "lost"]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """What the cluster received (bind, delete) or did, for the history. Parallel columns.

    ``answers`` is empty except for binds, where it tells what became of each request in truth, not
    what a faulty connection made of the answer. A delete has no nodes, and uids only where it was
    asked for certain incarnations.
    """

    t: float
    kind: EventKind
    tasks: list[str]
    nodes: list[str]
    uids: list[str]
    answers: list[str]
    durations: list[float | None] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    """Of binds, as they were asked for: a process that comes back knows how long pods run."""
