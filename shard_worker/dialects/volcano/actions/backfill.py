"""backfill: place best-effort tasks (those that ask for nothing) on any node that takes them.

Queue by queue, job by job, each task gets the best node that passes the checks; no queue's share is
checked, for such tasks use none. What is placed is bound once its job is ready, and with it
everything else of the job that got a place before. It does not fill holes with short jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.dialects.volcano.actions.allocate import may_place
from shard_worker.framework.operation import Operation, OpKind
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import best
from shard_worker.placement.error_cache import ErrorCache
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.queue_totals import opens_gate, waits_for_entry
from shard_worker.session_model.status import Status
from shard_worker.topology.label_domains import LabelSearch
from shared.messages.reason import Reason

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, TaskInfo

FULL = "Insufficient pods"


def execute(ssn: Session) -> None:
    """Place the best-effort tasks of every job that may be placed, in queue and job order."""
    jobs = ssn.jobs_by_queue(
        job
        for job in ssn.world.session_jobs()
        if job.queue is not None and _admitted(ssn, job) and any(_tasks(job))
    )
    queues = PriorityQueue(ssn.compare_queues, (ssn.world.queues[qid] for qid in jobs))
    while queues:
        waiting = jobs[queues.pop().queue.qid]
        while waiting:
            _place(ssn, waiting.pop())


def backfill_job(ssn: Session, job: SessionJob) -> int:
    """Place the job's best-effort tasks; returns how many found a node."""
    if job.queue is None or not _admitted(ssn, job):
        return 0
    return _place(ssn, job)


def _admitted(ssn: Session, job: SessionJob) -> bool:
    """Whether the job was admitted, by enqueue or, if the policy has no enqueue, by allocate.
    Backfill itself admits none."""
    if "allocate" not in ssn.policy.actions and waits_for_entry(job.phase):
        return False
    return may_place(ssn, job) and ssn.job_valid(job, ssn.world) is None


def _tasks(job: SessionJob) -> tuple[list[TaskInfo], list[TaskInfo]]:
    """(pipelined, pending) best-effort tasks."""
    best_effort = [task for task in job.tasks if task.best_effort]
    return (
        [task for task in best_effort if task.status is Status.PIPELINED],
        [task for task in best_effort if task.status is Status.PENDING and not task.role.gated],
    )


def _place(ssn: Session, job: SessionJob) -> int:
    pipelined, pending = _tasks(job)
    # Volcano's order too: a promise is given up first, as the place to have now may be the same
    # one.
    for task in pipelined:
        WorldStatement(ssn).unpipeline(task)
    _open_gates(ssn, job)
    placed = 0
    for task in ssn.in_task_order([*pipelined, *pending]):
        row = _row_for(ssn, task)
        if row is None:
            continue
        WorldStatement(ssn).allocate(task, row)
        placed += 1
        if ssn.ready(job):
            _dispatch(ssn, job)
    return placed


def _open_gates(ssn: Session, job: SessionJob) -> None:
    """Have the queue's own gates removed: no share has to have room for what asks for nothing.
    Volcano leaves such tasks to backfill, and passes over them there."""
    gated = [task for task in job.tasks if task.best_effort and task.role.gated]
    waiting = [task for task in gated if task.status is Status.PENDING]
    for task in waiting:
        if opens_gate(task.role):
            ssn.ungate(task)
    if waiting:
        ssn.skip(job, Reason.GATED, f"tasks that wait for their gate: {len(waiting)}")


def _row_for(ssn: Session, task: TaskInfo) -> int | None:
    """The best node of the own shard, else of another; None if no node takes the task."""
    job = task.job
    reason = ssn.pre_predicate(task)
    if reason is not None:
        _tell(job, task, {reason: int(ssn.world.view.exists().sum())})
        return None
    within = None if not job.job.topology_key else _domain(ssn, task)
    candidates = ErrorCache(ssn, "backfill").feasible(task, within=within, fit=False)
    room = _room(ssn, task)
    if not (candidates.mask & room).any():
        full = int((candidates.mask & ~room).sum())
        _tell(job, task, candidates.reasons | ({FULL: full} if full else {}))
        return None
    return best(ssn, task, np.flatnonzero(_nearest(ssn, candidates.mask & room)))


def _domain(ssn: Session, task: TaskInfo) -> Mask:
    """The nodes of the best domain of the job's label that is open to it."""
    job = task.job
    waiting = [task, *(other for other in _tasks(job)[1] if other is not task)]
    search = LabelSearch(ssn, job, waiting)
    domains = search.ranked()
    if not domains:
        ssn.skip(job, Reason.TOPOLOGY_PLACEMENT_FAILED, search.why_not())
        return np.zeros(ssn.world.size, np.bool_)
    return domains[0].mask(ssn.world.size)


def _room(ssn: Session, task: TaskInfo) -> Mask:
    """Nodes with a free pod slot. Leaving and nominated pods still occupy theirs."""
    return ssn.world.fits_idle(task.cls) & ssn.world.fits_future(task.cls)


def _nearest(ssn: Session, mask: Mask) -> Mask:
    own_rows = mask & ssn.world.own()
    return own_rows if own_rows.any() else mask


def _tell(job: SessionJob, task: TaskInfo, reasons: dict[str, int]) -> None:
    if not job.unschedulable:
        job.unschedulable, job.failed_role = reasons, task.role.name


def _dispatch(ssn: Session, job: SessionJob) -> None:
    """Bind every allocated task of a job that is ready."""
    ready = [task for task in job.tasks if task.status is Status.ALLOCATED]
    for task in ready:
        job.move(task, Status.BINDING)
    ssn.commit([Operation(OpKind.ALLOCATE, task, task.row, Status.PENDING) for task in ready])
