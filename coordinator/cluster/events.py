"""Events of the cluster for the history: requests it received and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal["bind", "start", "releasing", "succeeded", "failed", "delete", "lost", "erased"]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Requests that the cluster received (bind, delete), or what it did, as parallel columns.

    ``answers`` is empty except for binds, where it has the true result of each request, not what a
    faulty connection made of the answer. A delete has no nodes, and uids only if it was for certain
    incarnations.
    """

    t: float
    kind: EventKind
    tasks: list[str]
    nodes: list[str]
    uids: list[str]
    answers: list[str]
    durations: list[float | None] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    """Of binds, like ``durations``, as requested: a restarted process learns from both how long
    pods run and how they end."""
