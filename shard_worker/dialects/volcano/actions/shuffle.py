"""shuffle: evict the running tasks that plugins want to move; later turns place them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.eviction.disruption import complete_units
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.status import Status

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo

NAME = "shuffle"


def execute(ssn: Session) -> None:
    """Evict the tasks that VictimTasks names, those of each job by a statement of its own, as a
    service does."""
    running = [task for task in ssn.world.linked_tasks() if task.status is Status.RUNNING]
    by_job: dict[int, list[TaskInfo]] = {}
    for victim in complete_units(ssn.victim_tasks(running)):
        if victim.status is Status.RUNNING:
            by_job.setdefault(victim.job.job.jid, []).append(victim)
    why = f"{NAME} ({', '.join(ssn.decided_by)})"
    for victims in by_job.values():
        statement = WorldStatement(ssn)
        for victim in victims:
            statement.evict(victim, why)
        statement.commit()
