"""gang: a job starts with all the members it needs, or not at all.

A job needs its own minimum (group 0) and that of each role that has one (the other groups). Members
that ask for nothing count as present while they are still pending. The roles' minima are not looked
at where the job's own minimum is below their sum: then the user wants fewer than all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_worker.session import PERMIT, REJECT, Session
from shard_worker.workload import ClusterInfo, JobInfo, Progress
from shared.messages import Group
from shared.policy import PluginOption


class Gang:
    name = "gang"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_valid_fn(job_valid)
        ssn.add_job_ready_fn(None, counted=job_ready)
        ssn.add_job_pipelined_fn(None, counted=job_pipelined)
        ssn.add_job_starving_fn(job_starving)
        ssn.add_job_order_fn(key=job_order)


def job_ready(progress: Progress) -> bool:
    """The members with a place, and those that ask for nothing, reach every minimum."""
    held, extra = progress.held, progress.best_effort
    return _reached(progress.minimum, lambda group: held[group] + extra[group])


def job_pipelined(progress: Progress) -> int:
    """As :func:`job_ready`, with the nominated members counted too; a vote."""
    held, waiting, extra = progress.held, progress.waiting, progress.best_effort
    reached = _reached(progress.minimum, lambda g: held[g] + waiting[g] + extra[g])
    return PERMIT if reached else REJECT


def job_starving(info: JobInfo) -> bool:
    """The job's own minimum is out of reach, nominations counted, best-effort members not."""
    return info.held[0] + info.waiting[0] < info.job.groups[0].minimum


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs that are not ready come before those that only want more members."""
    return 1.0 if info.held[0] + info.best_effort[0] >= info.job.groups[0].minimum else 0.0


def job_valid(info: JobInfo, cluster: ClusterInfo) -> str | None:
    """Enough members exist for every minimum; failed ones do not count.

    How many members of one role failed is not known here: for roles all that were asked for count.
    """
    job = info.job
    if not _roles_bypassed([group.minimum for group in job.groups]):
        reason = _short_role(info, job.groups)
        if reason is not None:
            return reason
    alive, needed = job.tasks - info.failed, job.groups[0].minimum
    if alive < needed:
        return f"NotEnoughPods: {alive} of the {needed} members that the job needs exist"
    return None


def _short_role(info: JobInfo, groups: tuple[Group, ...]) -> str | None:
    """Why some role cannot reach its minimum; None where all can."""
    for group in range(1, len(groups)):
        members = [role for role in info.job.roles if role.group == group]
        count, needed = sum(role.count for role in members), groups[group].minimum
        if count < needed:
            names = ", ".join(role.name for role in members) or f"of group {group}"
            return f"NotEnoughPodsOfTask: {count} of the {needed} that role {names} needs exist"
    return None


def _reached(minimum: list[int], present: Callable[[int], int]) -> bool:
    """Does ``present(group)`` reach the minimum in every group that counts?"""
    if present(0) < minimum[0]:
        return False
    if len(minimum) == 1 or _roles_bypassed(minimum):
        return True
    return all(present(group) >= minimum[group] for group in range(1, len(minimum)))


def _roles_bypassed(minimum: list[int]) -> bool:
    """Index of ``minimum``: group. Volcano: MinAvailable < TaskMinAvailableTotal."""
    return minimum[0] < sum(minimum[1:])
