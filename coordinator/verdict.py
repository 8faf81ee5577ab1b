"""From the figures of a funnel to the one reason, with what is short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.reason_words import Reason, Why, cut, of_counts, skip_of, told_counts
from coordinator.wording import listed, name_of, plural, quantity, some
from shard_worker.findings import Finding, RoleFunnel
from shard_worker.funnel import Funnel
from shared.messages import OutcomeCode
from shared.model import Requests
from shared.slots import PODS

KEPT = frozenset(
    {
        Reason.DEACTIVATED,
        Reason.MISCONFIGURED,
        Reason.EXCEEDS_CAPABILITY,
        Reason.QUEUE_CLOSED,
        Reason.GATED,
        Reason.NOT_ENOUGH_TASKS,
        Reason.WAITING_FOR_VICTIMS,
    }
)
"""Reasons that no look at the nodes can change."""


ROOM = frozenset({Reason.NOT_ENOUGH_RESOURCES, Reason.FRAGMENTED})
"""Which of the two it is follows from the totals of the cluster."""


def settled(told: Why, finding: Finding, requests: Requests, names: Sequence[str]) -> Why:
    """What is known since a worker looked, with the figures of its funnel. The word stays what
    everybody else tells of the job.

    ``requests``: of one task of the role that the finding's first funnel is about."""
    if told.reason in KEPT or finding.code is OutcomeCode.STALE:
        return told
    if finding.code is not OutcomeCode.INFEASIBLE:
        return _fits(told)
    if told.reason is Reason.WAITING_FOR_QUOTA or not finding.funnels or skip_of(finding.reasons):
        return told
    found = from_funnel(finding.funnels[0], requests, names)
    if _beyond(finding.funnels[0]):
        return told
    if found.reason is told.reason:
        return found
    if not {found.reason, told.reason} <= ROOM:
        return told
    return replace(found, reason=told.reason)


def _fits(told: Why) -> Why:
    """There is room now: what it waits for is its quota or its turn."""
    if told.reason in (
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.WAITING_FOR_QUOTA,
        Reason.REPEATED_CONFLICT,
        Reason.WAITING_FOR_TURN,
        Reason.PENDING_EVALUATION,
    ):
        return told
    text = "there is room for it now; it is placed when its turn comes"
    return replace(told, reason=Reason.PENDING_EVALUATION, message=text, short={}, evaluated_at=0.0)


def from_funnel(role: RoleFunnel, requests: Requests, names: Sequence[str]) -> Why:
    """The reason that the figures of one role give; nobody's quota is looked at."""
    f, wanted = role.funnel, role.wanted
    if not f.total:
        return Why(Reason.NOT_ENOUGH_RESOURCES, "the cluster has no nodes")
    if not f.matching:
        return Why(Reason.NO_MATCHING_NODES, cut(f"none of {_nodes(f)} matches: {_first(f)}"))
    each = {slot: amount for slot, amount in requests if slot != PODS or len(requests) == 1}
    if not f.empty:
        text = f"one task asks {listed(each, names)}, which none of the {f.matching} matching "
        return Why(
            Reason.EXCEEDS_NODE_CAPACITY,
            f"{text}nodes has even when nothing runs on it",
            requested=each,
        )
    could = min(f.starts, wanted)
    lacking = set(f.scarce) & set(each) or set(each)
    asked = {s: a * wanted for s, a in each.items() if s in lacking}
    give = {s: a * could for s, a in each.items() if s in lacking}
    short = {s: asked[s] - give[s] for s in asked}
    idle = dict(f.idle)
    enough = all(idle.get(slot, 0) >= amount * wanted for slot, amount in requests)
    reason = Reason.FRAGMENTED if enough else Reason.NOT_ENOUGH_RESOURCES
    who = f"gang of {wanted}" if wanted > 1 else "one task"
    if role.role and wanted > 1:
        who += f" ({role.role})"
    now = f"{could} can start now" if could else "none can start now"
    amounts = _asks(asked, give, names)
    text = f"{who}, {now}; short by {listed(short, names)} ({amounts})"
    if f.empty < wanted:
        text += f"; even empty, the matching nodes hold only {plural(f.empty, 'task')}"
    return Why(reason, cut(text), requested=asked, available=give, short=short)


def _asks(asked: Mapping[int, float], give: Mapping[int, float], names: Sequence[str]) -> str:
    """Of one resource the numbers suffice: it was named just before."""
    if len(asked) != 1:
        return f"asks {listed(asked, names)}, could give {listed(give, names)}"
    (slot,) = asked
    name = name_of(slot, names)
    return f"asks {quantity(name, asked[slot])}, could give {quantity(name, give[slot])}"


def from_session(finding: Finding, role: RoleFunnel) -> Why | None:
    """What a session said, where the figures of one role do not tell why; None where they do."""
    if (skip := skip_of(finding.reasons)) is not None:
        return Why(skip[0], cut(skip[1]))
    if not _beyond(role) or not finding.reasons:
        return None
    return Why(of_counts(finding.reasons), cut(told_counts(finding.reasons)))


def _beyond(role: RoleFunnel) -> bool:
    """Is it more than amounts that holds the tasks back?"""
    live = any(check.kind == "live" for check in role.funnel.checks)
    return live or role.funnel.starts >= role.wanted


def can_ever(role: RoleFunnel) -> bool:
    """Whether the matching nodes, all empty, would hold the tasks that have to start together."""
    return role.funnel.empty >= role.wanted


def larger_than_shards(findings: Sequence[Finding]) -> str:
    """Behind walls: what to say where no shard could ever hold what all of them together could;
    "" where one could, or they could not either."""
    roles = [finding.funnels[0] for finding in findings if finding.funnels]
    if len(roles) < 2 or any(map(can_ever, roles)):
        return ""
    wanted = max(role.wanted for role in roles)
    if sum(role.funnel.empty for role in roles) < wanted:
        return ""
    text = f"no shard could ever hold its {wanted} tasks, all shards together could"
    return f"{text}; use fewer shards, or mode soft"


def _nodes(f: Funnel) -> str:
    return plural(f.total, "node")


def _first(f: Funnel) -> str:
    return some([f"{check.count} {check.name}" for check in f.checks], 4)
