"""How a job is made: groups from role minima, roles from members that come one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared.messages import Group
from shared.model import Job, Role

UNREACHABLE = 2**31 - 1
"""Minimum of a job whose PodGroup does not exist: whatever asks, nothing of it can start."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod that joins a job. ``key`` orders the members that come together."""

    name: str
    role: str
    cid: int
    priority: int
    duration: float | None
    exit_code: int
    key: tuple[int, float, str]


def make_groups(minimum: int, role_minima: Sequence[tuple[str, int]]) -> tuple[Group, ...]:
    """Group 0 for the job, then one per role minimum.

    Volcano does not look at the roles where the job's minimum is below the sum of theirs, so there
    their groups ask for nothing.
    """
    ignored = minimum < sum(n for _, n in role_minima)
    return (
        Group(-1, minimum),
        *(Group(0, 0 if ignored else n) for _, n in role_minima),
    )


def merge_minima(
    known: Sequence[tuple[str, int]], wanted: Iterable[tuple[str, int]]
) -> tuple[tuple[str, int], ...]:
    """The minima of a changed PodGroup: known roles keep their place (and group), new follow."""
    left = dict(wanted)
    merged = [(role, left.pop(role, 0)) for role, _ in known]
    return (*merged, *left.items())


def group_of(role: str, role_minima: Sequence[tuple[str, int]]) -> int:
    """The group that members of a role count for: that of its own minimum, or the whole job."""
    for i, (name, _) in enumerate(role_minima):
        if name == role:
            return i + 1
    return 0


def member_key(name: str, created: float, uid: str) -> tuple[int, float, str]:
    """Volcano's order of a role's tasks: the number at the end of the name, creation, uid."""
    _, _, index = name.rpartition("-")
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else -1
    return number, created, uid


def join(job: Job, members: list[Member]) -> tuple[Job, dict[str, int]]:
    """The job with more members, and the task index of each (by pod name).

    Members of one kind become one role as far as they came together; a role that is the job's last
    one grows.
    """
    kinds: dict[tuple[str, int, int, float | None, int], list[Member]] = {}
    for member in members:
        kind = (member.role, member.cid, member.priority, member.duration, member.exit_code)
        kinds.setdefault(kind, []).append(member)
    roles = list(job.roles)
    first = job.tasks
    tasks: dict[str, int] = {}
    for (role, cid, priority, duration, code), those in kinds.items():
        those.sort(key=lambda m: m.key)
        names = tuple(m.name for m in those)
        tasks.update((name, first + i) for i, name in enumerate(names))
        group = group_of(role, job.role_minima)
        fresh = Role(role, cid, first, len(names), group, priority, names, duration, code)
        first += len(names)
        if roles and _grows(roles[-1], fresh):
            names = roles[-1].names + names
            roles[-1] = replace(roles[-1], names=names, count=len(names))
        else:
            roles.append(fresh)
    return replace(job, roles=tuple(roles), spec=job.spec + 1), tasks


def _grows(last: Role, more: Role) -> bool:
    """Whether they differ in nothing but who is in them."""
    return replace(last, first=0, count=0, names=()) == replace(more, first=0, count=0, names=())


def without(job: Job, members: Iterable[int]) -> Job:
    """The job after members went: their indices stay, under no name, and are not used again."""
    gone = set(members)
    roles = tuple(_unnamed(role, gone) for role in job.roles)
    return replace(job, roles=roles, spec=job.spec + 1)


def _unnamed(role: Role, gone: set[int]) -> Role:
    if gone.isdisjoint(range(role.first, role.first + role.count)):
        return role
    named = enumerate(role.names, role.first)
    return replace(role, names=tuple("" if tix in gone else name for tix, name in named))


def regroup(job: Job) -> tuple[Role, ...]:
    """The roles of a job with their groups as its role minima say."""
    return tuple(replace(r, group=group_of(r.name, job.role_minima)) for r in job.roles)
