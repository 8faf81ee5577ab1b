"""A job's tree with some of its tasks: the rules ask it what they would ask the job."""

from __future__ import annotations

from collections.abc import Collection

from shard_worker.dialects.kai.model import KaiJob, Member, Tree
from shard_worker.dialects.kai.rules.groups import ACTIVE, PodSet, SubGroupSet
from shard_worker.session_model.job import TaskInfo


def wanting(job: KaiJob, tasks: Collection[TaskInfo]) -> KaiJob:
    """The job as if it waited for these tasks alone: beside them it has those with a place, and no
    minimum is larger than what it has."""
    return KaiJob(job.job, job.group, job.queue, _wanting(job.root, set(tasks)), job.preemptible)


def _wanting(group: Tree, tasks: set[TaskInfo]) -> Tree:
    members: list[Member] = []
    for member in group.members:
        if isinstance(member, SubGroupSet):
            below = _wanting(member, tasks)
            if below.members:
                members.append(below)
            continue
        bits = ACTIVE._value_
        waiting = [task for task in member.tasks if task in tasks or task.status._value_ & bits]
        if waiting:
            members.append(PodSet(member.name, min(member.minimum, len(waiting)), waiting))
    needed = None if group.needed is None else min(group.needed, len(members))
    return SubGroupSet(group.name, members, needed)


def without(job: KaiJob, gone: Collection[TaskInfo]) -> KaiJob:
    """The job without these tasks, with the minima that it has."""
    return KaiJob(job.job, job.group, job.queue, _without(job.root, set(gone)), job.preemptible)


def _without(group: Tree, gone: set[TaskInfo]) -> Tree:
    members: list[Member] = [
        _without(member, gone)
        if isinstance(member, SubGroupSet)
        else PodSet(member.name, member.minimum, [t for t in member.tasks if t not in gone])
        for member in group.members
    ]
    return SubGroupSet(group.name, members, group.needed)
