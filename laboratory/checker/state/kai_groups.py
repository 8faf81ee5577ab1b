"""The tree of a KAI PodGroup: which of its groups hold pods, and less than they need.

A pod set needs its minimum of pods, a group above others its minimum of satisfied children, all of
them where it names none. Taken from KAI's own object: the gangs that the scheduler derives for its
ledger are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from laboratory.checker.state.job import (
    BINDING,
    PENDING,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    CheckedJob,
)

Facts = dict[str, Any]

SUB_GROUP = "kai.scheduler/subgroup-name"
_ROOT = ""


def in_part(job: CheckedJob, facts: Facts, best_effort: set[int]) -> frozenset[str]:
    """The groups of the tree that hold pods, but less than they need; "" is the root."""
    subs = facts.get("sub_groups", [])
    if not subs or _has_lost_count(job):
        return frozenset()
    members = _held(job, best_effort)
    minima = {sub["name"]: sub for sub in subs} | {_ROOT: facts}
    partial = set[str]()
    _judge(_ROOT, subs, minima, members, partial)
    return frozenset(partial)


def short_pod_sets(
    job: CheckedJob, facts: Facts, best_effort: set[int], moved: Iterable[int]
) -> list[str]:
    """The pod sets that hold less than their minimum. ``moved``: tasks that were evicted and are
    promised another place; they count."""
    if _has_lost_count(job):
        return []
    subs = facts.get("sub_groups", [])
    members = _held(job, best_effort)
    for tix in moved:
        name = job.role_of(tix).labels.get(SUB_GROUP, "").lower()
        members[name] = members.get(name, 0) + 1
    inner = {sub.get("parent", _ROOT) for sub in subs}
    leaves = (sub for sub in subs if sub["name"] not in inner)
    return [s["name"] for s in leaves if members.get(s["name"], 0) < (s.get("min_member") or 0)]


def _has_lost_count(job: CheckedJob) -> bool:
    """Whether pods that succeeded were removed: they count for a pod set that nothing names."""
    return any(state == SUCCEEDED and not job.member[tix] for tix, state in enumerate(job.states))


def _held(job: CheckedJob, best_effort: set[int]) -> dict[str, int]:
    """Pod set -> its members that have a node, succeeded, or ask for nothing and wait. One that
    leaves counts until it has left, unless it was evicted."""
    counts: dict[str, int] = {}
    for role in job.roles:
        name = role.labels.get(SUB_GROUP, "").lower()
        for tix in range(role.first, role.first + role.count):
            state = job.states[tix]
            waits = state == PENDING and job.cids[tix] in best_effort
            leaves = state == RELEASING and tix not in job.evicted
            if waits or leaves or BINDING <= state <= RUNNING or state == SUCCEEDED:
                counts[name] = counts.get(name, 0) + 1
    return counts


def _judge(
    name: str,
    subs: list[Facts],
    minima: Mapping[str, Facts],
    held: Mapping[str, int],
    found: set[str],
) -> tuple[int, bool]:
    """(what a group holds, whether that is enough); adds those in part to ``found``."""
    children = [sub["name"] for sub in subs if sub.get("parent", _ROOT) == name]
    if not children:
        total = held.get(name, 0)
        enough = total >= (minima[name].get("min_member") or 0)
    else:
        parts = [_judge(child, subs, minima, held, found) for child in children]
        total = sum(part for part, _ in parts)
        needed = minima[name].get("min_sub_group")
        satisfied = sum(is_enough for _, is_enough in parts)
        enough = satisfied >= (len(children) if needed is None else needed)
    if total and not enough:
        found.add(name)
    return total, enough
