"""The reply to an inquiry: findings, with funnels and the scores of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_worker.inquiry.funnel import Funnel, FunnelCheck, Near
from shared.codec.checked import (
    count,
    each,
    indices,
    integer,
    mapping,
    number,
    pack_sealed,
    row,
    text,
    texts,
    unpack_sealed,
)
from shared.messages.messages import OutcomeCode, Placement
from shared.messages.wire import outcome_code, placement, placement_row

_FINDINGS = b"findings"


@dataclass(frozen=True, slots=True)
class NodeCandidate:
    """A node that the task could run on, with its score from each plugin."""

    row: int
    level: int
    """Level of the gradient, 1 to 4; 0 if the node would not be chosen in the current state."""
    scores: list[float]
    """In the order of :attr:`PlacementScores.plugins`; the sum decides within a level."""


@dataclass(frozen=True, slots=True)
class PlacementScores:
    """Why one task is on its node: the nodes it could run on now, judged as if it were not
    placed."""

    tix: int
    row: int
    """Row of its node, or of the node it would get; -1 if no node takes it."""
    plugins: list[str]
    nodes: list[int]
    """Number of nodes per level, index 0 for level 1."""
    candidates: list[NodeCandidate]
    """The best few nodes, best first, and the one that the task is on."""


@dataclass(frozen=True, slots=True)
class RoleFunnel:
    """The funnel of one role's task class."""

    cid: int
    role: str
    needed: int
    funnel: Funnel


@dataclass(frozen=True, slots=True)
class InquiryFinding:
    """The result that one turn would have. ``code``: PLACED, NOMINATED, INFEASIBLE, or STALE if the
    view does not know a class yet."""

    jid: int
    code: OutcomeCode
    placements: list[Placement] = field(default_factory=list)
    displaced: list[int] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    funnels: list[RoleFunnel] = field(default_factory=list)
    """One for each role, up to a limit; where the turn found no place, the role that failed comes
    first."""
    placement_scores: list[PlacementScores] = field(default_factory=list)
    """One entry for a turn that asks why a task is on its node; else empty."""


@dataclass(frozen=True, slots=True)
class InquiryFindings:
    """The findings of an inquiry, in the order of its turns. ``log_id``: position in the ledger's
    log up to which the view had read. Shorter than the list of turns if the time ran out."""

    log_id: str
    findings: list[InquiryFinding]

    def encode(self) -> bytes:
        return pack_sealed(_FINDINGS, [self.log_id, [_plain(finding) for finding in self.findings]])

    @classmethod
    def decode(cls, data: bytes) -> InquiryFindings:
        """Errors: Malformed."""
        log_id, findings = row(unpack_sealed(_FINDINGS, data), "findings", 2)
        return cls(text(log_id, "findings.log_id"), each(findings, "findings", _finding))


# --- wire ---------------------------------------------------------------------------------------


def _plain(f: InquiryFinding) -> list[object]:
    places = [placement_row(p) for p in f.placements]
    funnels = [[r.cid, r.role, r.needed, _plain_funnel(r.funnel)] for r in f.funnels]
    scored = [
        [h.tix, h.row, h.plugins, h.nodes, [[c.row, c.level, c.scores] for c in h.candidates]]
        for h in f.placement_scores
    ]
    return [f.jid, int(f.code), places, f.displaced, f.reasons, funnels, scored]


def _plain_funnel(f: Funnel) -> list[object]:
    checks = [[c.kind, c.name, c.slot, c.count, c.only, c.starts, c.examples] for c in f.checks]
    near = [[n.row, n.lacks] for n in f.near]
    figures = [f.total, f.fits, f.starts, f.later, f.matching, f.empty]
    return [figures, f.idle, f.scarce, f.named, checks, near, f.smaller]


def _finding(value: object, at: str) -> InquiryFinding:
    jid, code, places, displaced, reasons, funnels, scored = row(value, at, 7)
    return InquiryFinding(
        jid=count(jid, at),
        code=outcome_code(code, at),
        placements=each(places, f"{at}.placements", placement),
        displaced=indices(displaced, f"{at}.displaced"),
        reasons=mapping(reasons, f"{at}.reasons", text, count),
        funnels=each(funnels, f"{at}.funnels", _role),
        placement_scores=each(scored, f"{at}.here", _here),
    )


def _here(value: object, at: str) -> PlacementScores:
    tix, chosen, plugins, nodes, candidates = row(value, at, 5)
    return PlacementScores(
        tix=count(tix, at),
        row=integer(chosen, at),
        plugins=texts(plugins, at),
        nodes=indices(nodes, at),
        candidates=each(candidates, at, _candidate),
    )


def _candidate(value: object, at: str) -> NodeCandidate:
    node, level, scores = row(value, at, 3)
    return NodeCandidate(count(node, at), count(level, at), each(scores, at, number))


def _role(value: object, at: str) -> RoleFunnel:
    cid, role, needed, packed = row(value, at, 4)
    figures, idle, scarce, named, checks, near, smaller = row(packed, at, 7)
    total, fits, starts, later, matching, empty = (count(n, at) for n in row(figures, at, 6))
    funnel = Funnel(
        total=total,
        fits=fits,
        starts=starts,
        later=later,
        matching=matching,
        empty=empty,
        idle=each(idle, f"{at}.idle", _amount),
        scarce=indices(scarce, f"{at}.scarce"),
        named=texts(named, f"{at}.named"),
        checks=each(checks, f"{at}.checks", _check),
        near=each(near, f"{at}.near", _near),
        smaller=each(smaller, f"{at}.smaller", _amount),
    )
    return RoleFunnel(integer(cid, at), text(role, at), count(needed, at), funnel)


def _amount(value: object, at: str) -> tuple[int, int]:
    slot, amount = row(value, at, 2)
    return count(slot, at), integer(amount, at)


def _check(value: object, at: str) -> FunnelCheck:
    kind, name, slot, nodes, only, starts, examples = row(value, at, 7)
    return FunnelCheck(
        kind=text(kind, at),
        name=text(name, at),
        slot=integer(slot, at),
        count=count(nodes, at),
        only=count(only, at),
        starts=count(starts, at),
        examples=indices(examples, at),
    )


def _near(value: object, at: str) -> Near:
    node, lacks = row(value, at, 2)
    return Near(count(node, at), each(lacks, at, _lack))


def _lack(value: object, at: str) -> tuple[int, int, int, int]:
    slot, needs, idle, later = (integer(figure, at) for figure in row(value, at, 4))
    return slot, needs, idle, later
