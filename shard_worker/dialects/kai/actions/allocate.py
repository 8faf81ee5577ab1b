"""allocate: place pending tasks, one turn of one job at a time.

A turn is what a job's tree asks for next, placed as a whole or not at all. Each sub group is tried
on one set of nodes after the other, and what a failed set had placed is taken back; within a set a
task takes the best node that has room, and is not moved again. A task is bound where its node has
room now, else the place is promised to it; if a gang is not there without a promise, the whole turn
becomes promises. A job that was placed and wants more goes back into its queue; one that failed is
out until the next session, and those behind it are tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.placing import Placing
from shard_worker.dialects.kai.rules.groups import must_wait, tasks_to_allocate
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.kai.tree_search import TreeSearch
from shard_worker.dialects.kai.turn_order import TurnOrder
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import OCCUPYING
from shared.model.groups import COMPOSITE

NAME = "allocate"


def execute(ssn: KaiSession) -> None:
    """Give turns until no job is left to try."""
    jobs = (job for job in ssn.kai_jobs.values() if job.waits and job.root.ready)
    order = TurnOrder(ssn, jobs, depth=ssn.kai.queue_depth.get(NAME))
    while (job := order.pop()) is not None:
        if turn(ssn, job) and job.waits:
            order.push(job)
        order.changed(job)


def turn(ssn: KaiSession, job: KaiJob) -> bool:
    """Place what the job asks for next; False where nothing was placed."""
    had_tasks = job.job.census.of(OCCUPYING) > 0
    statement = WorldStatement(ssn)
    tasks = _placed(ssn, job, Placing(ssn, statement, job))
    if not tasks:
        statement.rollback()
        return False
    if must_wait(job.root):
        statement.promise(job.job)
    elif not had_tasks and _binds(statement, tasks):
        ssn.started[job.job.job.jid] = ssn.world.now
    statement.commit()
    return True


def _placed(ssn: KaiSession, job: KaiJob, placing: Placing) -> list[TaskInfo]:
    """The tasks that were placed together; [] for none."""
    if job.job.job.kind == COMPOSITE:
        search = TreeSearch(ssn, placing, job)
        for tasks in search.selections():
            if _may_have(ssn, job, tasks) and search.place(tasks, ssn.rows()):
                ssn.over_capacity.pop(job.job.job.jid, None)
                return tasks
        return []
    tasks = tasks_to_allocate(job.root)
    is_placed = tasks and _may_have(ssn, job, tasks) and placing.place(job.root, tasks, ssn.rows())
    return tasks if is_placed else []


def _may_have(ssn: KaiSession, job: KaiJob, tasks: Sequence[TaskInfo]) -> bool:
    """Whether the queues of the job's chain take a turn of these tasks."""
    refusal = ssn.refused_capacity(job, ssn.asked_by(tasks, at_least=True))
    if refusal is not None:
        ssn.over_capacity[job.job.job.jid] = refusal
    return refusal is None


def _binds(statement: WorldStatement, tasks: Sequence[TaskInfo]) -> bool:
    return bool(statement.operations) and any(task.status & OCCUPYING for task in tasks)
