"""Victims: who may ask for them, in which order they go, and whether a node's would suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.priority_queue import PriorityQueue
from shard_worker.rules import Mask
from shard_worker.task_class import Mode
from shard_worker.tasks import EVICTABLE, TaskInfo
from shard_worker.workload import Amounts, QueueInfo, add

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob
    from shard_worker.world import World
    from shard_worker.world_statement import WorldStatement

NOT_LET_IN = ("", "Pending")
"""Phases of a PodGroup that no action but enqueue looks at."""


def starving_jobs(ssn: Session) -> list[SessionJob]:
    """The jobs for which others may be evicted: let in, valid, of a queue, and starving."""
    world = ssn.world
    return [
        job
        for job in world.session_jobs()
        if job.phase not in NOT_LET_IN
        and job.queue is not None
        and ssn.job_valid(job, world) is None
        and ssn.job_starving(job)
    ]


def by_turns(ssn: Session, starving: Iterable[SessionJob]) -> Iterator[SessionJob]:
    """Starving jobs, one of a queue at a time, so that shares are looked at anew after each. A
    queue that has its share, or no such job left, gets no further turn."""
    jobs: dict[int, PriorityQueue[SessionJob]] = {}
    mine: dict[int, QueueInfo] = {}
    for job in starving:
        if job.queue is not None:
            jobs.setdefault(job.qid, PriorityQueue(ssn.compare_jobs)).push(job)
            mine[job.qid] = job.queue
    queues = ssn.line_of_queues(mine.values())
    while queues:
        queue = queues.pop()
        waiting = jobs[queue.queue.qid]
        if waiting and not ssn.queue_overused(queue):
            yield waiting.pop()
            queues.push(queue)


def waiting_tasks(ssn: Session, job: SessionJob) -> PriorityQueue[TaskInfo]:
    """Its pending tasks that no gate holds back, in the order in which they are placed."""
    tasks = (task for task in job.pending_tasks() if not task.role.gated)
    return PriorityQueue(ssn.compare_tasks, tasks)


def reason(ssn: Session, action: str, evictor: str) -> str:
    """What is told of an eviction: the action, the rules that agreed, and for whom."""
    return f"{action} ({', '.join(ssn.decided_by)}): for {evictor}"


def later(ssn: Session, action: str, other: str) -> bool:
    """Does the policy run ``other`` after ``action``?"""
    actions = ssn.policy.actions
    return other in actions and action in actions and actions.index(other) > actions.index(action)


def settle(ssn: Session, statement: WorldStatement, job: SessionJob, action: str) -> bool:
    """Keep a statement whose job is pipelined with it, undo any other. True where it was kept.

    One that needed no eviction is left to allocate where that still comes: it can do better than
    a promise.
    """
    if not statement.operations:
        return False
    needless = not statement.evictions and later(ssn, action, "allocate")
    if needless or not ssn.pipelined(job):
        statement.rollback()
        return False
    statement.commit()
    return True


# --- order ----------------------------------------------------------------------------------------


def victim_order(ssn: Session, evictor: SessionJob) -> Callable[[TaskInfo, TaskInfo], float]:
    """A comparison: negative where the left task is evicted before the right one.

    Orphans go first; of one job the task that would be placed last; of one queue the job that would
    be; and between queues VictimQueueOrder says.
    """
    known, queue = ssn.world.jobs, evictor.queue

    def compare(left: TaskInfo, right: TaskInfo) -> float:
        if left.job is right.job:
            return -ssn.compare_tasks(left, right)
        mine, theirs = left.job.queue, right.job.queue
        orphan, other = (t.job.queue is None or t.job.job.jid not in known for t in (left, right))
        if orphan != other:
            return -1.0 if orphan else 1.0
        if mine is theirs or mine is None or theirs is None or queue is None:
            return -ssn.compare_jobs(left.job, right.job)
        return ssn.compare_victim_queues(mine, theirs, queue)

    return compare


def in_order(ssn: Session, evictor: SessionJob, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Tasks as they would be evicted if nothing changed meanwhile. Rules are asked in this order,
    so that those that let only some of a job go let go of the least important."""
    return victim_queue(ssn, evictor, tasks).drain()


def victim_queue(
    ssn: Session, evictor: SessionJob, victims: Iterable[TaskInfo]
) -> PriorityQueue[TaskInfo]:
    """Victims in the order in which they go, as it stands when each of them is taken."""
    return PriorityQueue(victim_order(ssn, evictor), victims)


# --- room -----------------------------------------------------------------------------------------


def suffice(world: World, task: TaskInfo, row: int, victims: Iterable[TaskInfo]) -> bool:
    """ValidateVictims: would the task fit the node if all of these left? There may be none, where
    others made more room than they needed."""
    gained: Amounts = {}
    for victim in victims:
        add(gained, victim.requests, 1)
    return all(
        world.room(row, slot) + gained.get(slot, 0) >= amount for slot, amount in task.requests
    )


def fits_now(ssn: Session, task: TaskInfo, row: int) -> bool:
    """Does it fit what will be idle there, and is it no neighbour's obstacle any more?"""
    return suffice(ssn.world, task, row, ()) and ssn.passes(task, row)


def shard_groups(world: World, rows: Mask) -> list[Mask]:
    """The rows of the own shard, then those of others; each tried out before the next."""
    if world.mode is not Mode.SOFT:
        return [rows]
    own = world.own()
    return [group for group in (rows & own, rows & ~own) if group.any()]


def inhabited(world: World, rows: Mask) -> Mask:
    """Those of the rows on which a task runs, or is about to."""
    found: Mask = np.zeros(world.size, np.bool_)
    looked_at, bits = rows.tolist(), EVICTABLE._value_  # plain numbers: asked for every task
    for row, tasks in world.resident.items():
        if looked_at[row]:
            for task in tasks:
                if task.status._value_ & bits:
                    found[row] = True
                    break
    return found
