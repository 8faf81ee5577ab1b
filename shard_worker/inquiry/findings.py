"""The reply to an inquiry: findings, with funnels and the scores of nodes."""

from __future__ import annotations

import msgspec

from shard_worker.inquiry.funnel import Funnel
from shared.codec.packed import Codec, Count, Finite, Index, Packed
from shared.messages.messages import EvictRun, OutcomeCode, Placement


class NodeCandidate(Packed, frozen=True):
    """A node that the task could run on, with its score from each plugin."""

    row: Count
    level: Count
    """Level of the gradient, 1 to 4; 0 if the node would not be chosen in the current state."""
    scores: list[Finite]
    """In the order of :attr:`PlacementScores.plugins`; the sum decides within a level."""


class PlacementScores(Packed, frozen=True):
    """Why one task is on its node: the nodes it could run on now, judged as if it were not
    placed."""

    tix: Count
    row: int
    """Row of its node, or of the node it would get; -1 if no node takes it."""
    plugins: list[str]
    nodes: list[Index]
    """Number of nodes per level, index 0 for level 1."""
    candidates: list[NodeCandidate]
    """The best few nodes, best first, and the one that the task is on."""


class RoleFunnel(Packed, frozen=True):
    """The funnel of one role's task class."""

    cid: int
    role: str
    needed: Count
    funnel: Funnel


class InquiryFinding(Packed, frozen=True):
    """The result that one turn would have. ``code``: PLACED, NOMINATED, INFEASIBLE, or STALE if the
    view does not know a class yet."""

    jid: Count
    code: OutcomeCode
    placements: list[Placement] = msgspec.field(default_factory=list)
    displaced: list[Index] = msgspec.field(default_factory=list)
    reasons: dict[str, Count] = msgspec.field(default_factory=dict)
    funnels: list[RoleFunnel] = msgspec.field(default_factory=list)
    """One for each role, up to a limit; where the turn found no place, the role that failed comes
    first."""
    placement_scores: list[PlacementScores] = msgspec.field(default_factory=list)
    """One entry for a turn that asks why a task is on its node; else empty."""
    evictions: list[EvictRun] = msgspec.field(default_factory=list)
    """The victims of a turn that evicts."""
    evicted_by: str = ""
    """The action and the rule that name them."""


class InquiryFindings(Packed, frozen=True):
    """The findings of an inquiry, in the order of its turns. ``log_id``: position in the ledger's
    log up to which the view had read. Shorter than the list of turns if the time ran out."""

    log_id: str
    findings: list[InquiryFinding]


FINDINGS = Codec(b"findings", InquiryFindings)
