"""What a session did, as a replay tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shard_worker.session import Session
from shard_worker.session_job import SessionJob
from shard_worker.tasks import COMPLETED, Status
from shard_worker.world_statement import Kind

_SCHEDULED = Status.RUNNING | Status.BOUND | COMPLETED


@dataclass(slots=True)
class Result:
    """What one session did. Keys are ``namespace/name``."""

    id: str
    binds: dict[str, str]
    """Pod -> node."""
    evicted: list[str]
    pipelined: dict[str, str]
    """Pod -> node, of every task that a node is promised to when the session ends."""
    pod_groups: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, int]]
    """PodGroup -> state -> how many of its tasks are in it."""
    victims: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Evicted pod -> its node, and the rule by which; for people."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "binds": self.binds,
            "evicted": self.evicted,
            "pipelined": self.pipelined,
            "podGroups": self.pod_groups,
            "tasks": self.tasks,
        }


def result_of(name: str, ssn: Session) -> Result:
    """Read what the session left behind."""
    world = ssn.world
    kept = ssn.committed
    groups = [job for job in world.session_jobs() if job.job.kind == "PodGroup"]
    return Result(
        id=name,
        binds={op.task.key: world.node(op.row).name for op in kept if op.kind is Kind.ALLOCATE},
        evicted=[op.task.key for op in kept if op.kind is Kind.EVICT],
        pipelined={
            task.key: world.node(task.row).name
            for task in world.tasks()
            if task.status is Status.PIPELINED
        },
        pod_groups={
            job.job.key: {"phase": phase_of(ssn, job), "reasons": reasons_of(ssn, job)}
            for job in groups
        },
        tasks={job.job.key: _counts(job) for job in groups},
        victims={
            op.task.key: (world.node(op.row).name, op.reason)
            for op in kept
            if op.kind is Kind.EVICT
        },
    )


def phase_of(ssn: Session, job: SessionJob) -> str:
    """The phase that Volcano writes when the session closes (section 3.14)."""
    census = job.census
    if census.by_status[Status.RUNNING] and _unschedulable(ssn, job):
        return "Unknown"
    leaving = sum(1 for task in job.tasks if task.status is Status.RELEASING and task.row >= 0)
    scheduled = census.of(_SCHEDULED) + leaving
    if scheduled >= job.minimum:
        return "Completed" if census.of(COMPLETED) == scheduled else "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"


def _unschedulable(ssn: Session, job: SessionJob) -> bool:
    """Did the gang plugin raise the condition Unschedulable?"""
    if not any(option.name == "gang" for tier in ssn.policy.tiers for option in tier):
        return False
    return ssn.job_valid(job, ssn.world) is not None or not job.is_ready


def reasons_of(ssn: Session, job: SessionJob) -> list[str]:
    """Why not all of the job has a place, for people."""
    found = [f"{count} {text}" for text, count in sorted(job.unschedulable.items())]
    skipped: Mapping[int, Any] = getattr(ssn, "skipped", {})
    if job.job.jid in skipped:
        word, detail = skipped[job.job.jid]
        found.append(f"{word}: {detail}" if detail else str(word))
    return found


def _counts(job: SessionJob) -> dict[str, int]:
    counts = Counter(str(task.status.name).capitalize() for task in job.tasks)
    return dict(sorted(counts.items()))
