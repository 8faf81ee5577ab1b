"""From the figures of a funnel to one reason, with the shortfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.jobs.pending_reasons import Why, cut, of_counts, skip_of, told_counts
from shard_worker.inquiry.findings import InquiryFinding, RoleFunnel
from shard_worker.inquiry.funnel import Funnel
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode
from shared.messages.reason import Reason
from shared.model.model import Requests
from shared.units.amount_text import listed, name_of, plural, some
from shared.units.quantity import quantity
from shared.units.slots import PODS

KEPT = frozenset(
    {
        Reason.DEACTIVATED,
        Reason.MISCONFIGURED,
        Reason.PLUGIN_ERROR,
        Reason.NOT_SERVED,
        Reason.OTHER_SCHEDULER,
        Reason.EXCEEDS_CAPABILITY,
        Reason.QUEUE_CLOSED,
        Reason.GATED,
        Reason.NOT_ENOUGH_TASKS,
        Reason.WAITING_FOR_VICTIMS,
    }
)
"""Reasons that a look at the nodes cannot change."""


ROOM = frozenset({Reason.NOT_ENOUGH_RESOURCES, Reason.FRAGMENTED})
"""Two reasons that the totals of the cluster decide between."""


def settled(why: Why, finding: InquiryFinding, requests: Requests, names: Sequence[str]) -> Why:
    """Refine ``why`` with a worker's funnel; keep the reason already published.

    ``requests``: of one task of the role that the first funnel is about.
    """
    if why.reason in KEPT or finding.code is OutcomeCode.STALE:
        return why
    if finding.code is not OutcomeCode.INFEASIBLE:
        return _fits(why)
    if why.reason is Reason.WAITING_FOR_QUOTA or not finding.funnels or skip_of(finding.reasons):
        return why
    refined = from_funnel(finding.funnels[0], requests, names)
    if _beyond(finding.funnels[0]):
        return why
    if refined.reason is why.reason:
        return refined
    # The published reason stays: `get`, events and an explanation must not tell two stories of one
    # job (decision 0036).
    if not {refined.reason, why.reason} <= ROOM:
        return why
    return replace(refined, reason=why.reason)


def _fits(why: Why) -> Why:
    """The reason of a job that has room now: it waits for quota or for its turn."""
    if why.reason in (
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.WAITING_FOR_QUOTA,
        Reason.REPEATED_CONFLICT,
        Reason.WAITING_FOR_TURN,
        Reason.PENDING_EVALUATION,
    ):
        return why
    text = "there is room for it now; it is placed when its turn comes"
    return replace(why, reason=Reason.PENDING_EVALUATION, message=text, short={}, evaluated_at=0.0)


def from_funnel(role: RoleFunnel, requests: Requests, names: Sequence[str]) -> Why:
    """The reason by the figures of one role; ignores quota."""
    f, needed = role.funnel, role.needed
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
    could = min(f.starts, needed)
    subject = f"gang of {needed}" if needed > 1 else "one task"
    if role.role and needed > 1:
        subject += f" ({role.role})"
    now = f"{could} can start now" if could else "none can start now"
    most = f"; even empty, the matching nodes hold only {plural(f.empty, 'task')}"
    ever = most if f.empty < needed else ""
    if f.named and not set(f.scarce) & set(each):
        nodes = f"{f.fits} of {plural(f.matching, 'matching node')}"
        text = f"{subject}, {now}; each takes {some(f.named, 4)} of its node, free on {nodes}"
        return Why(Reason.NOT_ENOUGH_RESOURCES, cut(text + ever))
    lacking = set(f.scarce) & set(each) or set(each)
    requested = {s: a * needed for s, a in each.items() if s in lacking}
    give = {s: a * could for s, a in each.items() if s in lacking}
    short = {s: requested[s] - give[s] for s in requested}
    idle = dict(f.idle)
    enough = all(idle.get(slot, 0) >= amount * needed for slot, amount in requests)
    reason = Reason.FRAGMENTED if enough else Reason.NOT_ENOUGH_RESOURCES
    amounts = _asks(requested, give, names)
    text = f"{subject}, {now}; short by {listed(short, names)} ({amounts})"
    return Why(reason, cut(text + ever), requested=requested, available=give, short=short)


def _asks(requested: Mapping[int, float], give: Mapping[int, float], names: Sequence[str]) -> str:
    """What a task requests and what a node could give. A single resource is not named again,
    because the previous sentence did."""
    if len(requested) != 1:
        return f"asks {listed(requested, names)}, could give {listed(give, names)}"
    (slot,) = requested
    name = name_of(slot, names)
    return f"asks {quantity(name, requested[slot])}, could give {quantity(name, give[slot])}"


def from_session(finding: InquiryFinding, role: RoleFunnel) -> Why | None:
    """The reason that a session gave; None where the figures of one role explain the job's wait."""
    if (skip := skip_of(finding.reasons)) is not None:
        return Why(skip[0], cut(skip[1]))
    if not _beyond(role) or not finding.reasons:
        return None
    return Why(of_counts(finding.reasons), cut(told_counts(finding.reasons)))


def _beyond(role: RoleFunnel) -> bool:
    """Is something other than resources blocking the tasks?"""
    live = any(check.kind == "live" for check in role.funnel.checks)
    return live or role.funnel.starts >= role.needed


def can_ever(role: RoleFunnel) -> bool:
    """Whether the matching nodes, all empty, would hold the tasks that must start together."""
    return role.funnel.empty >= role.needed


def larger_than_shards(findings: Sequence[InquiryFinding]) -> str:
    """Hard mode: the sentence for a job that no single shard could ever hold although all together
    could; "" otherwise."""
    roles = [finding.funnels[0] for finding in findings if finding.funnels]
    if len(roles) < 2 or any(map(can_ever, roles)):
        return ""
    needed = max(role.needed for role in roles)
    if sum(role.funnel.empty for role in roles) < needed:
        return ""
    text = f"no shard could ever hold its {needed} tasks, all shards together could"
    return f"{text}; use fewer shards, or mode soft"


def _nodes(f: Funnel) -> str:
    return plural(f.total, "node")


def _first(f: Funnel) -> str:
    return some([f"{check.count} {check.name}" for check in f.checks], 4)
