"""gang: a job starts with all the members it needs, or not at all, and no eviction breaks it up.

A job needs its own minimum (group 0), that of each role that has one (the other groups), and as
many sub jobs as its policies ask for. Members that ask for nothing count as present while they are
still pending. The roles' minima are not looked at where the job's own minimum is below their sum:
then the user wants fewer than all of them.

The rules are Volcano's, but for victims: Volcano asks whether the job keeps its minimum, here its
roles and sub jobs keep theirs, too (:mod:`shard_worker.eviction.gang_slack`). Without this plugin
members bind one by one, and the statement says so to the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from shard_worker.eviction.disruption import complete_units, is_complete, leaves_whole
from shard_worker.eviction.gang_slack import SurplusMembers
from shard_worker.framework.extension_points import JOB_READY, SUB_JOB_READY
from shard_worker.framework.rules import PERMIT, REJECT, Purpose
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Demand, Preference
from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
from shard_worker.session_model.status import OCCUPYING
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress
from shard_worker.session_model.world import World
from shared.messages.messages import Group
from shared.policy.model import PluginOption
from shared.units.amount_text import some


class Gang:
    name = "gang"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(Demand.SUB_GROUPS, at=SUB_JOB_READY)
        ssn.serve(Preference.GANG, at=JOB_READY)
        ssn.add_job_valid_fn(job_valid)
        ssn.add_job_ready_fn(whole_job_ready, counted=job_ready)
        ssn.add_job_pipelined_fn(whole_job_pipelined, counted=job_pipelined)
        ssn.add_job_starving_fn(job_starving)
        ssn.add_job_order_fn(key=job_order)
        ssn.add_sub_job_ready_fn(lambda sub, _: sub.ready)
        ssn.add_sub_job_pipelined_fn(lambda sub, _: PERMIT if sub.pipelined else REJECT)
        ssn.add_sub_job_order_fn(sub_job_order)
        ssn.add_preemptable_fn(evictable)
        ssn.add_reclaimable_fn(evictable)
        ssn.add_unified_evictable_fn(evictable_together)


# --- sessions over a world ------------------------------------------------------------------------


def whole_job_ready(job: SessionJob, world: World) -> bool:
    """Whether roles, sub jobs and the whole job have their minimum."""
    del world
    return (
        job.is_ready
        and job.roles_reach(lambda now: now.ready + now.pending_best_effort)
        and job.subs_reach(lambda sub: sub.ready)
    )


def whole_job_pipelined(job: SessionJob, world: World) -> int:
    """As :func:`whole_job_ready`, counting pipelined members too. Returns a vote."""
    del world
    reached = (
        job.is_pipelined
        and job.roles_reach(lambda now: now.ready + now.waiting + now.pending_best_effort)
        and job.subs_reach(lambda sub: sub.pipelined)
    )
    return PERMIT if reached else REJECT


def sub_job_order(left: SubJob, right: SubJob, world: World) -> float:
    """Sub jobs that are not ready come first."""
    del world
    return float(left.ready) - float(right.ready)


# --- victims --------------------------------------------------------------------------------------


def evictable(_: TaskInfo, victims: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
    """Surplus members, which their jobs can spare, and whole jobs whose members are one victim, in
    the given order."""
    del world
    spares = SurplusMembers()
    complete = {id(v) for v in complete_units(v for v in victims if leaves_whole(v))}
    return [victim for victim in victims if id(victim) in complete or spares.take(victim)]


def evictable_together(
    _: SessionJob, victims: Sequence[TaskInfo], purpose: Purpose, world: World
) -> list[TaskInfo]:
    """As :func:`evictable`; or all tasks of a job that is named as a whole, since then no member is
    left waiting for the others."""
    del purpose, world
    # Whole means all that occupy a node, on whichever node: the search names them all where it
    # takes a whole bundle.
    spares, named = SurplusMembers(), Counter(id(v.job) for v in victims if v.status & OCCUPYING)
    return [v for v in victims if is_complete(v.job, named[id(v.job)]) or spares.take(v)]


# --- the fast path, and Order ---------------------------------------------------------------------


def job_ready(progress: Progress) -> bool:
    """Whether members with a place and best-effort members reach every minimum."""
    placed, extra = progress.held, progress.best_effort
    return _reached(progress.minimum, lambda group: placed[group] + extra[group])


def job_pipelined(progress: Progress) -> int:
    """As :func:`job_ready`, counting nominated members too. Returns a vote."""
    placed, waiting, extra = progress.held, progress.waiting, progress.best_effort
    reached = _reached(progress.minimum, lambda g: placed[g] + waiting[g] + extra[g])
    return PERMIT if reached else REJECT


def job_starving(info: JobInfo) -> bool:
    """Whether placed and nominated members, without best-effort ones, are below the job's own
    minimum."""
    return info.held[0] + info.waiting[0] < info.job.groups[0].minimum


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs that are not ready come before jobs that are and want more members."""
    return 1.0 if info.held[0] + info.best_effort[0] >= info.job.groups[0].minimum else 0.0


def job_valid(info: JobInfo, cluster: ClusterInfo) -> str | None:
    """Check that enough members exist for every minimum; failed and leaving ones do not count.
    Order does not know the roles of failed members: there all requested members count.
    """
    del cluster
    if isinstance(info, SessionJob):
        reason, alive = _short_part(info), info.census.valid
    else:
        minima = [group.minimum for group in info.job.groups]
        reason = None if _roles_bypassed(minima) else _short_role(info, info.job.groups)
        alive = info.job.tasks - info.failed
    needed = info.job.groups[0].minimum
    if reason is None and alive < needed:
        return f"NotEnoughPods: {alive} of the {needed} members that the job needs exist"
    return reason


def _short_part(job: SessionJob) -> str | None:
    """Why a role or policy cannot reach its minimum; None where all can."""
    if not job.roles_bypassed:
        for role, needed in job.job.role_minima:
            count = job.by_role[role].valid if role in job.by_role else 0
            if count < needed:
                return f"NotEnoughPodsOfTask: {count} of the {needed} that role {role} needs exist"
    if not job.subs_reach(lambda sub: sub.census.valid >= sub.minimum):
        return "NotEnoughPodsOfTask: too few sub groups have all their members"
    return None


def _short_role(info: JobInfo, groups: tuple[Group, ...]) -> str | None:
    """Why some role cannot reach its minimum; None where all can."""
    for group in range(1, len(groups)):
        members = [role for role in info.job.roles if role.group == group]
        count, needed = sum(role.count for role in members), groups[group].minimum
        if count < needed:
            names = some((role.name for role in members), 5) or _absent(info, group, needed)
            return f"NotEnoughPodsOfTask: {count} of the {needed} that role {names} needs exist"
    return None


def _absent(info: JobInfo, group: int, needed: int) -> str:
    """The name of a role that has a minimum and no members yet."""
    present = {role.name for role in info.job.roles}
    absent = (
        role for role, least in info.job.role_minima if least == needed and role not in present
    )
    return next(absent, f"of group {group}")


def _reached(minimum: list[int], present: Callable[[int], int]) -> bool:
    """Whether ``present(group)`` reaches the minimum in every group that counts."""
    if present(0) < minimum[0]:
        return False
    if len(minimum) == 1 or _roles_bypassed(minimum):
        return True
    return all(present(group) >= minimum[group] for group in range(1, len(minimum)))


def _roles_bypassed(minimum: list[int]) -> bool:
    """Whether the roles' minima are ignored, because the job's own is below their sum. Index of
    ``minimum``: group. Volcano: MinAvailable < TaskMinAvailableTotal."""
    return minimum[0] < sum(minimum[1:])
