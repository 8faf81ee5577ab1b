"""A PodGroup's tree of sub groups as the engine's groups: what its job is admitted with, and what
the ledger holds it to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2s

from shared.ledger.gang_minimum import stored_minimum
from shared.messages.messages import Group
from shared.model.kai import Below, KaiPodGroup, KaiSubGroup
from shared.model.model import Job

TREE = "quadrant.dev/kai-tree"
"""Annotation of a job whose PodGroup has sub groups or a topology constraint. A session places it,
and not the columns; the value differs where the tree does, so that the job is another."""
NO_PART = 2**31 - 1
"""Minimum of a sub group that its PodGroup does not name any more: nobody satisfies it."""


@dataclass(frozen=True, slots=True)
class GangGroups:
    """The groups of a job below the job itself, each after the one that it is in."""

    names: list[str] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    """Name -> the group that it is in; "" for the job itself."""
    members: dict[str, int] = field(default_factory=dict)
    """Name -> the pods that it needs at least."""
    children: dict[str, int] = field(default_factory=dict)
    """Name -> how many of the groups in it must have what they need; 0 for a pod set. "" is the
    job."""
    optional: set[str] = field(default_factory=set)
    """Groups that the job can do without."""

    @property
    def always(self) -> tuple[tuple[str, int], ...]:
        """(name, pods that it needs in any case)"""
        return tuple((n, 0 if n in self.optional else self.members[n]) for n in self.names)


def gang_of(group: KaiPodGroup) -> GangGroups:
    gang = GangGroups()
    if group.sub_groups:
        gang.members[""] = _take(gang, group.below(), "", group.min_sub_group, optional=False)
    else:
        gang.members[""] = group.min_member
    return gang


def _take(
    gang: GangGroups, below: Below, parent: str, needed: int | None, *, optional: bool
) -> int:
    """Take the sub groups below one; returns the pods that it needs at least."""
    subs = below.get(parent, ())
    gang.children[parent] = least = len(subs) if needed is None else needed
    optional |= least < len(subs)
    return sum(sorted(_member(gang, below, sub, optional=optional) for sub in subs)[:least])


def _member(gang: GangGroups, below: Below, sub: KaiSubGroup, *, optional: bool) -> int:
    gang.names.append(sub.name)
    gang.parents[sub.name] = sub.parent
    if optional:
        gang.optional.add(sub.name)
    if sub.name not in below:
        gang.members[sub.name] = sub.min_member or 0
        gang.children[sub.name] = 0
    else:
        least = _take(gang, below, sub.name, sub.min_sub_group, optional=optional)
        gang.members[sub.name] = least
    return gang.members[sub.name]


def stored_groups(job: Job, groups: list[Group], group: object) -> list[Group]:
    """A job's groups with the minima that the ledger holds it to; as they are where ``group`` is no
    PodGroup of KAI's. A sub group that the PodGroup does not have any more is satisfied by
    nobody."""
    if not isinstance(group, KaiPodGroup) or not job.kai_group or job.dangling:
        return groups
    gang, names = gang_of(group), ("", *(name for name, _ in job.role_minima))
    return [
        Group(
            held.parent,
            stored_minimum(gang.members.get(name, NO_PART), gang.children.get(name, 0)),
            held.held,
        )
        for name, held in zip(names, groups, strict=True)
    ]


def tree_mark(group: KaiPodGroup) -> tuple[tuple[str, str], ...]:
    """The annotation of the group's job; none where columns place it."""
    if group.topology is None and not group.sub_groups:
        return ()
    described = repr((group.min_sub_group, group.sub_groups, group.topology)).encode()
    return ((TREE, blake2s(described, digest_size=8).hexdigest()),)


def lacking_sub_group(group: KaiPodGroup, pods: Mapping[str, int]) -> str:
    """The shortage of the first sub group that lacks something; "" where all are
    there that it needs. ``pods``: how many exist, by pod set."""
    return _lacking(group.below(), "", group.min_sub_group, pods)


def _lacking(below: Below, name: str, needed: int | None, pods: Mapping[str, int]) -> str:
    subs = below.get(name, ())
    missing: list[str] = []
    for sub in subs:
        if sub.name in below:
            lacks = _lacking(below, sub.name, sub.min_sub_group, pods)
        else:
            present, least = pods.get(sub.name, 0), sub.min_member or 0
            lacks = "" if present >= least else f"{present} of the {least} pods"
            lacks = lacks and f"{lacks} that sub group {sub.name} needs exist"
        missing += [lacks] if lacks else []
    least = len(subs) if needed is None else needed
    if len(subs) - len(missing) >= least:
        return ""
    if missing:
        return missing[0]
    return f"{len(subs)} of the {least} sub groups that {name or 'the job'} needs exist"


def is_satisfied(group: KaiPodGroup, name: str, pods: Mapping[str, int]) -> bool:
    """Whether a sub group, or the root (""), has what it needs. ``pods``: by pod set."""
    needed, below = group.min_sub_group, group.below()
    if name:
        sub = next((sub for sub in group.sub_groups if sub.name == name), None)
        if sub is None:
            return False
        if name not in below:
            return pods.get(name, 0) >= (sub.min_member or 0)
        needed = sub.min_sub_group
    return not _lacking(below, name, needed, pods)
