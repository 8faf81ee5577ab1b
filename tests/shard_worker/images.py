"""Images of a world, to compare before and after."""

from __future__ import annotations

from shard_worker.framework.session import Session
from shard_worker.session_model.workload import Amounts


def image(session: Session) -> object:
    """Everything that a statement changes."""
    world = session.world
    jobs = [
        (
            *(list(counts) for counts in (job.held, job.waiting, job.best_effort)),
            *(job.pending, job.failed, _some(job.allocated), _some(job.requested)),
            {status: n for status, n in job.census.by_status.items() if n},
        )
        for job in world.session_jobs()
    ]
    queues = [_some(queue.allocated) for queue in world.queues.values()]
    tasks = [(task.key, task.status, task.row) for task in world.tasks()]
    where = {row: {task.key for task in there} for row, there in world.resident.items() if there}
    return world.view.columns.image(), jobs, queues, tasks, where


def _some(amounts: Amounts) -> Amounts:
    return {slot: amount for slot, amount in amounts.items() if amount}
