"""Victims: which jobs may evict, in which order victims are chosen, and whether a node's
suffice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from shard_worker.framework.left_room import LeftRoom
from shard_worker.framework.rules import Mask
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.session_model.workload import Amounts, add
from shard_worker.view.mode import Mode
from shared.units.things import Vector

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.framework.statement import WorldStatement
    from shard_worker.session_model.job import SessionJob
    from shard_worker.session_model.world import World


def starving_jobs(ssn: Session) -> list[SessionJob]:
    """The jobs for which others may be evicted: admitted, valid, with a queue, and starving."""
    world = ssn.world
    return [
        job
        for job in world.session_jobs()
        if not waits_for_entry(job.phase)
        and job.queue is not None
        and ssn.job_valid(job, world) is None
        and ssn.job_starving(job)
    ]


def by_turns(ssn: Session, starving: Iterable[SessionJob]) -> Iterator[SessionJob]:
    """Starving jobs, one of a queue at a time, so that shares are recomputed after each. A queue
    that has its share, or no such job left, gets no further turn."""
    jobs = ssn.jobs_by_queue(starving)
    queues = ssn.line_of_queues(ssn.world.queues[qid] for qid in jobs)
    while queues:
        queue = queues.pop()
        waiting = jobs[queue.queue.qid]
        if waiting and not ssn.queue_overused(queue):
            yield waiting.pop()
            queues.push(queue)


def waiting_tasks(ssn: Session, job: SessionJob) -> PriorityQueue[TaskInfo]:
    """A job's pending tasks without a scheduling gate, in the order in which they are placed."""
    tasks = (task for task in job.pending_tasks() if not task.role.gated)
    return PriorityQueue(ssn.compare_tasks, tasks)


_REASON = re.compile(r"(\w+) \(([^)]*)\)(.*)")
"""Parts of the text that :func:`reason` returns: the action, the rules, and the rest."""


def reason(ssn: Session, action: str, evictor: str) -> str:
    """The reason text of an eviction: the action, the plugins that agreed, and the beneficiary."""
    return f"{action} ({', '.join(ssn.decided_by)}): for {evictor}"


def joined(reasons: Iterable[str]) -> str:
    """One reason for all evictions of a statement: the first, with the plugins that decided for the
    others added to its own, separated by semicolons. A policy's tiers are evaluated per task that
    needs room, so that several may have decided."""
    first, *others = dict.fromkeys(reasons)
    begin = _REASON.fullmatch(first)
    if begin is None:
        return first
    matches = (begin, *map(_REASON.fullmatch, others))
    deciding = dict.fromkeys(match[2] for match in matches if match is not None)
    return f"{begin[1]} ({'; '.join(deciding)}){begin[3]}"


def later(ssn: Session, action: str, later_action: str) -> bool:
    """Does the policy run ``later_action`` after ``action``?"""
    actions = ssn.policy.actions
    return (
        later_action in actions
        and action in actions
        and actions.index(later_action) > actions.index(action)
    )


def settle(ssn: Session, statement: WorldStatement, job: SessionJob, action: str) -> bool:
    """Keep a statement if its job is pipelined with it, else undo it. True if it was kept.

    Its room is left to allocate if there are no evictions and that action still follows: an
    allocation is better than a nomination. Where allocate gives the room to another job the action
    is run again.
    """
    if not statement.operations:
        return False
    if not ssn.pipelined(job):
        statement.rollback()
        return False
    if statement.evictions or ssn.past_allocate or not later(ssn, action, "allocate"):
        statement.commit()
        return True
    # A nomination waits for the next turn to be bound; allocate binds now, in the same session.
    if ssn.left_to_allocate is None:
        statement.rollback()
    else:
        ssn.left_to_allocate += (LeftRoom(statement.rollback, job, action),)
    return False


# --- order ----------------------------------------------------------------------------------------


def victim_order(ssn: Session, evictor: SessionJob) -> Callable[[TaskInfo, TaskInfo], float]:
    """A comparison: negative if the left task is evicted before the right one.

    Tasks whose job or queue is not in the session first; within a job the task that is last in
    TaskOrder; within a queue the job that is last in JobOrder; between queues VictimQueueOrder
    decides.
    """
    jobs, queue = ssn.world.jobs, evictor.queue

    def compare(left: TaskInfo, right: TaskInfo) -> float:
        if left.job is right.job:
            return -ssn.compare_tasks(left, right)
        left_queue, right_queue = left.job.queue, right.job.queue
        left_orphan, right_orphan = (
            t.job.queue is None or t.job.job.jid not in jobs for t in (left, right)
        )
        # Nobody's share or gang is hurt by a task whose job or queue is gone.
        if left_orphan != right_orphan:
            return -1.0 if left_orphan else 1.0
        if left_queue is right_queue or left_queue is None or right_queue is None or queue is None:
            return -ssn.compare_jobs(left.job, right.job)
        return ssn.compare_victim_queues(left_queue, right_queue, queue)

    return compare


def in_order(ssn: Session, evictor: SessionJob, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Tasks in the order of eviction. Plugins get them in this order, so that those that allow only
    some of a job's tasks choose the least important."""
    return victim_queue(ssn, evictor, tasks).drain()


def victim_queue(
    ssn: Session, evictor: SessionJob, victims: Iterable[TaskInfo]
) -> PriorityQueue[TaskInfo]:
    """Victims in the order of eviction, evaluated at each pop."""
    return PriorityQueue(victim_order(ssn, evictor), victims)


# --- room -----------------------------------------------------------------------------------------


def suffice(world: World, task: TaskInfo, row: int, victims: Iterable[TaskInfo]) -> bool:
    """ValidateVictims: whether the task would fit the node if all of these left. There may be none,
    if earlier evictions freed more than was needed."""
    gained: Amounts = {}
    named: dict[str, list[Vector]] = {}
    for victim in victims:
        add(gained, victim.requests, 1)
        for name, amounts in victim.cls.things:
            named.setdefault(name, []).append(amounts)
    enough = all(
        world.room(row, slot) + gained.get(slot, 0) >= amount for slot, amount in task.requests
    )
    return enough and all(
        _suffices(world, row, name, amounts, named.get(name, []))
        for name, amounts in task.cls.things
    )


def _suffices(
    world: World, row: int, name: str, needed: Vector, given_back: Iterable[Vector]
) -> bool:
    """Whether a named thing suffices, including what the victims release."""
    future = world.view.things.future_at(name, len(needed), row)
    for amounts in given_back:
        future = [have + more for have, more in zip(future, amounts, strict=False)]
    return all(have >= amount for have, amount in zip(future, needed, strict=True))


def fits_now(ssn: Session, task: TaskInfo, row: int) -> bool:
    """Whether the task fits the node's future idle amounts and no neighbour excludes it."""
    return suffice(ssn.world, task, row, ()) and ssn.passes(task, row)


def shard_groups(world: World, rows: Mask) -> list[Mask]:
    """The rows of the own shard, then those of others; each is exhausted before the next."""
    if world.mode is not Mode.SOFT:
        return [rows]
    own_rows = world.own()
    return [group for group in (rows & own_rows, rows & ~own_rows) if group.any()]


def inhabited(world: World, rows: Mask) -> Mask:
    """The rows on which a task runs, or is about to."""
    return world.evictable_rows() & rows
