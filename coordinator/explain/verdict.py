"""From the figures of a funnel to one reason, with the shortfall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.jobs.pending_reasons import Why, cut, of_counts, skip_of, told_counts
from shard_worker.inquiry.findings import InquiryFinding, RoleFunnel
from shard_worker.inquiry.funnel import Funnel
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


_QUEUES = frozenset({Reason.WAITING_FOR_QUOTA, Reason.EXCEEDS_CAPABILITY, Reason.QUEUE_CLOSED})
"""Reasons that a queue is the cause of, whatever nodes have."""


def room(finding: InquiryFinding, reason: Reason = Reason.WAITING_FOR_TURN) -> str:
    """How many of the tasks that start together a worker found room for, as a sentence.

    Tasks, never amounts: the amounts of a job are those of its published reason (decision 0036).
    """
    if finding.code is OutcomeCode.PLACED:
        if reason in _QUEUES:
            return "nodes have room for it now, its queue has not"
        return "there is room for it now; it is placed when its turn comes"
    role = finding.funnels[0]
    if finding.code is not OutcomeCode.INFEASIBLE or (role.funnel.matching and _beyond(role)):
        return ""
    if not role.funnel.matching:
        return ""  # the reason says it, and the checks below it by how many nodes
    return f"{_subject(role)}, {_now(role)}{_ever(role)}"


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
    subject, now, ever = _subject(role), _now(role), _ever(role)
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


def _subject(role: RoleFunnel) -> str:
    name = f" ({role.role})" if role.role else ""
    return f"gang of {role.needed}{name}" if role.needed > 1 else "one task"


def _now(role: RoleFunnel) -> str:
    could = min(role.funnel.starts, role.needed)
    return f"{could} can start now" if could else "none can start now"


def _ever(role: RoleFunnel) -> str:
    if can_ever(role):
        return ""
    return f"; even empty, the matching nodes hold only {plural(role.funnel.empty, 'task')}"


def _asks(requested: Mapping[int, float], give: Mapping[int, float], names: Sequence[str]) -> str:
    """Compare a task's request with the node's free amounts. A single resource is not named again,
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
