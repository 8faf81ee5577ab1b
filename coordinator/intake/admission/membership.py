"""Building a job: groups from role minima, roles from members that arrive one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared.codec.packed import replace
from shared.messages.messages import Group
from shared.model.model import Job, Pairs, Role

T = TypeVar("T")

UNREACHABLE = 2**31 - 1
"""Minimum of a job whose PodGroup does not exist: no number of members satisfies it, so that none
of them starts."""


@dataclass(frozen=True, slots=True)
class RoleAttributes:
    """Attributes beyond the task class that separate roles. Most pods have none of them."""

    labels: Pairs = ()
    annotations: Pairs = ()
    gated: bool = False
    own_gate: bool = False
    priority_class: str = ""


NO_MORE = RoleAttributes()


@dataclass(frozen=True, slots=True)
class GangMember:
    """A pod that joins a job. ``key`` orders the members that arrive together."""

    name: str
    role: str
    cid: int
    priority: int
    duration: float | None
    exit_code: int
    key: tuple[int, float, str]
    more: RoleAttributes
    created: float | None = None
    """Seconds since 1970; only set where intake observes a running cluster, else None."""
    uid: str = ""


def make_groups(
    minimum: int,
    role_minima: Sequence[tuple[str, int]],
    parents: Mapping[str, str] | None = None,
) -> tuple[Group, ...]:
    """Group 0 for the job, then one per role minimum. ``parents``: see
    :attr:`PodGroupManifest.role_parents`.

    Volcano does not look at the roles where the job's minimum is below the sum of theirs, so there
    their groups ask for nothing.
    """
    if parents is not None:
        index = {name: at for at, (name, _) in enumerate(role_minima, start=1)}
        within = (index.get(parents.get(name, ""), 0) for name, _ in role_minima)
        least = (n for _, n in role_minima)
        return (Group(-1, minimum), *map(Group, within, least))
    ignored = minimum < sum(n for _, n in role_minima)
    return (
        Group(-1, minimum),
        *(Group(0, 0 if ignored else n) for _, n in role_minima),
    )


def merge_minima(
    minima: Sequence[tuple[str, int]], new_minima: Iterable[tuple[str, int]]
) -> tuple[tuple[str, int], ...]:
    """The minima of a changed PodGroup: known roles keep their position (and group), new ones
    follow."""
    remaining = dict(new_minima)
    merged = [(role, remaining.pop(role, 0)) for role, _ in minima]
    return (*merged, *remaining.items())


def group_of(role: str, role_minima: Sequence[tuple[str, int]]) -> int:
    """The group that members of a role count for: that of the role's minimum, else the job's."""
    for i, (name, _) in enumerate(role_minima):
        if name == role:
            return i + 1
    return 0


def member_key(name: str, created: float, uid: str) -> tuple[int, float, str]:
    """Volcano's order of a role's tasks: the number at the end of the name, creation, uid."""
    _, _, index = name.rpartition("-")
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else -1
    return number, created, uid


def join(job: Job, members: list[GangMember]) -> tuple[Job, dict[str, int]]:
    """The job with more members, and the task index of each (by pod name).

    Members of one kind become one role as far as they came together; a role that is the job's last
    one grows.
    """
    kinds: dict[tuple[str, int, int, float | None, int, RoleAttributes], list[GangMember]] = {}
    for m in members:
        kind = (m.role, m.cid, m.priority, m.duration, m.exit_code, m.more)
        kinds.setdefault(kind, []).append(m)
    roles = list(job.roles)
    first = job.tasks
    tasks: dict[str, int] = {}
    for (role, cid, priority, duration, code, more), those in kinds.items():
        # Volcano's order of tasks within a role, as far as they came together; whoever came earlier
        # keeps the lower index, because indices are never given again.
        those.sort(key=lambda m: m.key)
        names = tuple(m.name for m in those)
        tasks.update((name, first + i) for i, name in enumerate(names))
        group = group_of(role, job.role_minima)
        fresh = Role(role, cid, first, len(names), group, priority, names, duration, code)
        if more is not NO_MORE:
            fresh = with_more(fresh, more)
        first += len(names)
        append_role(roles, _known(fresh, those), job.created)
    return replace(job, roles=tuple(roles), spec=job.spec + 1), tasks


def with_more(role: Role, more: RoleAttributes) -> Role:
    return replace(
        role,
        labels=more.labels,
        annotations=more.annotations,
        gated=more.gated,
        own_gate=more.own_gate,
        priority_class=more.priority_class,
    )


def _known(role: Role, members: Sequence[GangMember]) -> Role:
    """The role with the members' creation times and uids, where they were given."""
    uids = tuple(m.uid for m in members)
    created = tuple(m.created for m in members if m.created is not None)
    if len(created) == len(members):
        role = replace(role, created=created)
    return replace(role, uids=uids) if any(uids) else role


def append_role(roles: list[Role], more: Role, created: float) -> None:
    """Append a role, merged into the last one where only their members differ."""
    # Only into the last role: an earlier one could not grow without moving the indices of those
    # behind it.
    if not roles or _kind(roles[-1]) != _kind(more):
        roles.append(more)
        return
    last = roles[-1]
    roles[-1] = replace(
        last,
        count=last.count + more.count,
        names=last.names + more.names,
        created=_both(last.created, more.created, last.count, more.count, created),
        uids=_both(last.uids, more.uids, last.count, more.count, ""),
    )


def _kind(role: Role) -> Role:
    return replace(role, first=0, count=0, names=(), created=(), uids=(), start=0)


def _both(a: tuple[T, ...], b: tuple[T, ...], m: int, n: int, usual: T) -> tuple[T, ...]:
    """Concatenate a column of two roles with ``m`` and ``n`` members; a role without the column
    gets ``usual`` for each member."""
    if not a and not b:
        return ()
    return (a or (usual,) * m) + (b or (usual,) * n)


def amend(job: Job, tix: int, more: RoleAttributes) -> Job:
    """The job after one member changed its labels, annotations or gates.

    The member keeps its index, so that a role may split, and neighbours that became equal are
    merged.
    """
    roles: list[Role] = []
    for role in job.roles:
        i = tix - role.first
        if not 0 <= i < role.count:
            append_role(roles, role, job.created)
            continue
        for part in (part_of_role(role, 0, i), with_more(part_of_role(role, i, i + 1), more)):
            if part.count:
                append_role(roles, part, job.created)
        if i + 1 < role.count:
            append_role(roles, part_of_role(role, i + 1, role.count), job.created)
    return replace(job, roles=tuple(roles), spec=job.spec + 1)


def part_of_role(role: Role, start: int, end: int) -> Role:
    """Role with members ``start`` to ``end`` alone, with their indices."""
    return replace(
        role,
        first=role.first + start,
        count=end - start,
        names=role.names[start:end],
        created=role.created[start:end],
        uids=role.uids[start:end],
        start=role.start + start,
    )


def without(job: Job, members: Iterable[int]) -> Job:
    """The job without these members. Indices are stable and not reused; removed ones have no
    name."""
    removed = set(members)
    roles = tuple(_unnamed(role, removed) for role in job.roles)
    return replace(job, roles=roles, spec=job.spec + 1)


def _unnamed(role: Role, removed: set[int]) -> Role:
    if removed.isdisjoint(range(role.first, role.first + role.count)):
        return role
    named = enumerate(role.names, role.first)
    return replace(role, names=tuple("" if tix in removed else name for tix, name in named))


def regroup(job: Job) -> tuple[Role, ...]:
    """The roles of a job, each with its group by the job's role minima."""
    return tuple(replace(r, group=group_of(r.name, job.role_minima)) for r in job.roles)


def add_held(groups: list[Group], group: int, count: int) -> None:
    """Add to a group and every ancestor of it."""
    while group >= 0:
        g = groups[group]
        groups[group] = Group(g.parent, g.minimum, g.held + count)
        group = g.parent
