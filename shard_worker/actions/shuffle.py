"""shuffle: running tasks that rules want elsewhere leave, and are placed anew later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.tasks import Status
from shard_worker.world_statement import WorldStatement

if TYPE_CHECKING:
    from shard_worker.session import Session

NAME = "shuffle"


def execute(ssn: Session) -> None:
    """Evict whom VictimTasks names."""
    running = [task for task in ssn.world.tasks() if task.status is Status.RUNNING]
    statement, victims = WorldStatement(ssn), ssn.victim_tasks(running)
    why = f"{NAME} ({', '.join(ssn.decided_by)})"
    for victim in victims:
        if victim.status is Status.RUNNING:
            statement.evict(victim, why)
    statement.commit()
