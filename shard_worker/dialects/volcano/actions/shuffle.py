"""shuffle: evict the running tasks that plugins want to move; later turns place them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.status import Status

if TYPE_CHECKING:
    from shard_worker.framework.session import Session

NAME = "shuffle"


def execute(ssn: Session) -> None:
    """Evict the tasks that VictimTasks names."""
    running = [task for task in ssn.world.linked_tasks() if task.status is Status.RUNNING]
    statement, victims = WorldStatement(ssn), ssn.victim_tasks(running)
    why = f"{NAME} ({', '.join(ssn.decided_by)})"
    for victim in victims:
        if victim.status is Status.RUNNING:
            statement.evict(victim, why)
    statement.commit()
