"""stalegangeviction: let gangs go that have been below their minimum for too long."""

from __future__ import annotations

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules import stale
from shard_worker.dialects.kai.rules.groups import ACTIVE, is_stale
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.statement import WorldStatement

NAME = "stalegangeviction"


def execute(ssn: KaiSession) -> None:
    """Stamp the gangs that are broken, take the stamp off those that are whole again, and evict
    those whose grace is over."""
    usual = ssn.kai.options.default_staleness_grace_period
    for job in list(ssn.kai_jobs.values()):
        group = job.group
        verdict = stale.judge(
            stale=is_stale(job.root),
            since=group.stale_since,
            grace=usual if group.staleness_grace is None else group.staleness_grace,
            now=ssn.world.now,
        )
        if verdict.since != group.stale_since:
            ssn.stale[job.job.job.jid] = verdict.since
        if verdict.evict:
            evict(ssn, job)


def evict(ssn: KaiSession, job: KaiJob) -> bool:
    """Evict what is left of a broken gang; False where it is whole, or nothing is left."""
    if not is_stale(job.root):
        return False
    statement = WorldStatement(ssn)
    bits = ACTIVE._value_
    for task in list(job.root.tasks()):
        if task.status._value_ & bits:
            statement.evict(task, f"{NAME}: for {job.key}")
    evicted = bool(statement.operations)
    statement.commit()
    return evicted
