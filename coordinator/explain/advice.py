"""Proposals that would let a job start: each check of a funnel left out, smaller requests, fewer
members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.jobs.capability import BoundKind
from coordinator.jobs.pending_reasons import Why
from shard_worker.inquiry.findings import InquiryFinding, RoleFunnel
from shard_worker.inquiry.funnel import FunnelCheck
from shared.messages.messages import ALLOCATE, OutcomeCode
from shared.messages.reason import Reason
from shared.model.model import Job
from shared.policy.model import Dialect
from shared.units.amount_text import listed, name_of
from shared.units.quantity import quantity, unit_of

LINES = 6
"""Most proposals; those that suffice come first."""


def advice(
    why: Why,
    role: RoleFunnel,
    names: Sequence[str],
    *,
    job: Job,
    changes: Sequence[tuple[str, InquiryFinding]] = (),
    fits_now: bool,
) -> list[dict[str, Any]]:
    """Each ``{change, fits, starts, nodes}``: with this change alone, whether the tasks that must
    start together would start now, how many would, and how many more nodes take one.

    ``changes``: those that a worker has tried.
    """
    f, needed = role.funnel, role.needed
    if why.reason is Reason.WAITING_FOR_QUOTA:
        more = more_quota(why, job, names)
        quota = [] if changes else [_entry(more, f.starts, needed, 0, fits=fits_now)]
        return [*map(_tried, changes), *quota, *_within_quota(why, role, names, fits_now=fits_now)]
    if fits_now or not f.total:
        return []
    entries = [_tried(change) for change in changes]
    entries += [
        _entry(f"{quantity(name, amount)} {name} per task", needed, needed, 0)
        for slot, amount in f.smaller
        for name in [name_of(slot, names)]
    ]
    entries += [
        _entry(_without(check), check.starts, needed, check.only)
        for check in f.checks
        if check.kind not in ("amount", "stale") and check.only
    ]
    if needed > 1 and 0 < f.starts < needed:
        entries.append(
            _entry(f"a minimum of {f.starts} instead of {needed}", f.starts, f.starts, 0)
        )
    entries.sort(key=lambda entry: not entry["fits"])
    return entries[:LINES]


def _tried(change: tuple[str, InquiryFinding]) -> dict[str, Any]:
    label, finding = change
    starts = sum(len(p.tasks) for p in finding.placements if p.kind == ALLOCATE)
    return _entry(label, starts, starts, 0, fits=finding.code is OutcomeCode.PLACED)


def more_quota(why: Why, job: Job, names: Sequence[str]) -> str:
    """The quota that its queue lacks, as a proposal."""
    if not why.short:
        return "more quota"
    queue = job.queue if why.bound is None else why.bound.queue
    return f"{listed(why.short, names)} more for queue {queue}"


def _within_quota(
    why: Why, role: RoleFunnel, names: Sequence[str], *, fits_now: bool
) -> list[dict[str, Any]]:
    """A smaller request that quota and nodes admit; no other change helps while quota is short."""
    if len(why.short) != 1:
        return []
    (slot,) = why.short
    name, smaller = name_of(slot, names), dict(role.funnel.smaller)
    most = int(why.available[slot]) // role.needed
    if not fits_now:
        most = min(most, smaller.get(slot, 0))
    unit = unit_of(name)
    amount = most - most % unit if most >= unit else 0
    if not amount:
        return []
    change = f"{quantity(name, amount)} {name} per task"
    return [_entry(change, role.needed, role.needed, 0)]


def _entry(
    change: str, starts: int, needed: int, nodes: int, *, fits: bool | None = None
) -> dict[str, Any]:
    enough = starts >= needed if fits is None else fits
    return {"change": change, "fits": enough, "starts": starts, "nodes": nodes}


def _without(check: FunnelCheck) -> str:
    match check.kind:
        case "taint":
            return f"tolerate {check.name.removeprefix('taint ')}"
        case "selector":
            return f"without {check.name} in the selector"
        case "affinity":
            return "without the required node affinity"
        case "quarantined":
            return "repair the quarantined nodes, which refuse binds"
        case "foreign":
            return "nodes of other shards (mode soft)"
        case "promised":
            return "without what is promised to nominated jobs"
        case "check" if check.name == "were unschedulable":
            return "uncordon the nodes that are unschedulable"
        case _:
            return f"without the check {check.name!r}"


_CHANGE = "no task that ends makes room for it: change the request, or the nodes"
_WOKEN = "woken when capacity is freed or nodes come"
_NEXT = {
    Reason.DEACTIVATED: "activate the job",
    Reason.MISCONFIGURED: "it is looked at again as soon as what is missing exists",
    Reason.PLUGIN_ERROR: "repair the plugin, or take it out of the policy; see the log",
    Reason.OTHER_SCHEDULER: "the other scheduler places it; nothing is to be done here",
    Reason.NOT_SERVED: "change the policy or the job, as said above; the policy file is followed",
    Reason.NO_MATCHING_NODES: _CHANGE,
    Reason.EXCEEDS_NODE_CAPACITY: _CHANGE,
    Reason.EXCEEDS_CAPABILITY: ("change the request, or the {most} of queue {queue}"),
    Reason.LARGER_THAN_SHARD: "use fewer shards, mode soft, or a smaller gang",
    Reason.QUEUE_CLOSED: "open queue {queue}",
    Reason.GATED: "do as said above",
    Reason.NOT_ENOUGH_TASKS: "create the members that are missing",
    Reason.WAITING_FOR_QUOTA: "woken when queue {queue} uses less, or gets more",
    Reason.NOT_ENOUGH_RESOURCES: _WOKEN,
    Reason.FRAGMENTED: _WOKEN,
    Reason.TOPOLOGY_PLACEMENT_FAILED: _WOKEN,
    Reason.WAITING_FOR_VICTIMS: "woken when the last of the leaving tasks is gone",
    Reason.ATTEMPTS_EXHAUSTED: (
        "look why its binds or turns fail; change the job, or wait for room to be freed"
    ),
    Reason.REPEATED_CONFLICT: "tried again in a moment, later each time",
    Reason.WAITING_FOR_TURN: "its turn comes",
    Reason.PENDING_EVALUATION: "its turn comes",
}
"""Next step, by itself or by somebody. ``queue``: the job's, or the one above it that does not let
the job in; ``most``: its dialect's word for the bound."""


def next_step(why: Why, job: Job, dialect: Dialect = Dialect.VOLCANO) -> str:
    """Sentence on the next step: what happens, or what somebody has to do. ``dialect``: whose words
    for queues to use."""
    queue, most = job.queue, dialect.most
    if why.bound is not None:
        queue = why.bound.queue
        most = "quota" if why.bound.kind is BoundKind.QUOTA else most
    return _NEXT[why.reason].format(queue=queue, most=most)
