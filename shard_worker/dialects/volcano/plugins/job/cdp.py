"""cdp: protect tasks that have only just started from eviction (cool-down protection).

A task that is evicted again and again soon after its start never gets anywhere. In Volcano the rule
speaks in preempt, reclaim and shuffle; here it holds in gang evictions, too, and what a job's
annotation says counts for its pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.policy.model import PluginOption, read_duration

COOLDOWN = "volcano.sh/cooldown-time"
"""Annotation or label of a pod, or of its job: a duration such as 600s."""


class Cdp:
    name = "cdp"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_preemptable_fn(lambda _, victims, world: rested(victims, world))
        ssn.add_reclaimable_fn(lambda _, victims, world: rested(victims, world))
        ssn.add_unified_evictable_fn(lambda _, victims, __, world: rested(victims, world))
        ssn.add_victim_tasks_fn(evictable=rested)


def rested(victims: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
    """The victims whose cool-down time, if they have one, is over."""
    return [victim for victim in victims if not _protected(victim, world.now)]


def _protected(task: TaskInfo, now: float) -> bool:
    """Whether the task has run for less than its cool-down time. A task that does not run yet is
    not protected. Without a start time, the creation time counts."""
    # What does not run yet has no work to lose.
    if task.status is not Status.RUNNING:
        return False
    seconds = cooldown(task)
    return seconds > 0 and (task.started or task.created) + seconds > now


def cooldown(task: TaskInfo) -> float:
    """Cool-down time in seconds; 0 where none is set, or the value is not a duration."""
    role, job = task.role, task.job.job
    for marks in (role.labels, role.annotations, job.annotations, job.labels):
        for key, value in marks:
            if key == COOLDOWN:
                return read_duration(value) or 0.0
    return 0.0
