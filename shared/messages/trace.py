"""The steps of a traced turn, as the worker that did the turn reports them with its outcome."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from shared.codec.packed import Count, Finite, Packed


class TraceStage(StrEnum):
    """The stage of scheduling that a step tells of, in the order of a turn's trip."""

    JOB = "job"
    """The job's state in the coordinator: ready, open, waiting and for what."""
    QUEUE = "queue"
    """Whether its queue may have a turn, and takes the tasks: overused, not allocatable."""
    JOB_ORDER = "jobOrder"
    """The job's position among those that wait in its queue."""
    TURN = "turn"
    """A turn was opened, and for which shard."""
    PRE_PREDICATE = "prePredicate"
    PREDICATE = "predicate"
    """The nodes that take a task, and the others by reason."""
    GRADIENT = "gradient"
    """The nodes of each of the four levels."""
    NODE_ORDER = "nodeOrder"
    """The best nodes of the level that has any, with their scores by plugin."""
    PLACEMENT = "placement"
    """The statement: how many tasks at which level, or why nothing was kept of it."""
    COMMIT = "commit"
    """The ledger's verdict on the statement."""
    OUTCOME = "outcome"
    """The result of the turn, as Order takes it."""


class TracedNode(Packed, frozen=True):
    """A candidate, with the part of its score that each plugin gives."""

    row: Count
    level: Count
    scores: dict[str, Finite]


class TraceStep(Packed, frozen=True):
    stage: TraceStage
    role: str = ""
    text: str = ""
    reasons: dict[str, Count] = msgspec.field(default_factory=dict)
    """Reason -> nodes (of victims: tasks) that it excludes."""
    levels: list[Count] = msgspec.field(default_factory=list)
    """Nodes, or placed tasks, by level: index 0 is level 1."""
    nodes: list[TracedNode] = msgspec.field(default_factory=list)
    """Best first."""
    rows: list[Count] = msgspec.field(default_factory=list)
    """Nodes that the text is about, and does not name."""
