"""What a session did, as a replay tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import COMPLETED, Status
from shard_worker.session_model.world import World
from shared.policy.model import Policy

_SCHEDULED = Status.RUNNING | Status.BOUND | COMPLETED


@dataclass(slots=True)
class ReplayResult:
    """What one session did. Keys are ``namespace/name``."""

    id: str
    binds: dict[str, str]
    """Pod -> node. Pods that are placed and wait for a volume are not among them yet."""
    evicted: list[str]
    pipelined: dict[str, str]
    """Pod -> node, of every task that a node is promised to when the session ends."""
    pod_groups: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, int]]
    """PodGroup -> state -> how many of its tasks are in it."""
    victims: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Evicted pod -> its node, and the rule by which; for people."""
    alone: dict[str, list[str]] = field(default_factory=dict)
    """Pod without a PodGroup that waits -> why."""

    def as_json(self) -> dict[str, Any]:
        """``pods`` only where some without a PodGroup wait."""
        document = {
            "id": self.id,
            "binds": self.binds,
            "evicted": self.evicted,
            "pipelined": self.pipelined,
            "podGroups": self.pod_groups,
            "tasks": self.tasks,
        }
        alone = {pod: {"reasons": reasons} for pod, reasons in self.alone.items()}
        return {**document, "pods": alone} if alone else document


def result_of(name: str, ssn: Session, standings: Iterable[PlacedJob]) -> ReplayResult:
    """Read what the session left behind. ``standings``: of all jobs before it; of those that it
    did not look at, as their queue is not there, nothing is different."""
    world = ssn.world
    operations = ssn.committed
    groups = [job for job in world.session_jobs() if job.job.kind == "PodGroup"]
    skipped = [s for s in standings if s.job.kind == "PodGroup" and s.job.jid not in world.jobs]
    result = ReplayResult(
        id=name,
        binds={
            op.task.key: world.node(op.row).name
            for op in operations
            if op.kind is OpKind.ALLOCATE and not _waits_for_volume(world, op.task)
        },
        evicted=[op.task.key for op in operations if op.kind is OpKind.EVICT],
        pipelined={
            task.key: world.node(task.row).name
            for task in world.tasks()
            if task.status is Status.PIPELINED
        },
        pod_groups={
            job.job.key: {"phase": phase_of(ssn, job), "reasons": reasons_of(ssn, job)}
            for job in groups
        },
        tasks={job.job.key: by_word(job.census.by_status) for job in groups},
        victims={
            op.task.key: (world.node(op.row).name, op.reason)
            for op in operations
            if op.kind is OpKind.EVICT
        },
        alone={
            job.job.key: reasons_of(ssn, job)
            for job in world.session_jobs()
            if job.job.kind == "Pod" and job.census.by_status.get(Status.PENDING)
        },
    )
    for standing in skipped:
        if not standing.job.dangling:
            _take_left(result, standing)
    return result


def _take_left(result: ReplayResult, standing: PlacedJob) -> None:
    job = standing.job
    reason = f"queue {job.queue} does not exist"
    result.pod_groups[job.key] = {"phase": job.phase or "Pending", "reasons": [reason]}
    states = Counter(standing.states.get(tix, Status.PENDING) for tix in range(job.tasks))
    result.tasks[job.key] = by_word(states)


def by_word(counts: Mapping[Status, int]) -> dict[str, int]:
    """How many tasks are in each state, by Volcano's word."""
    return {str(status.name).capitalize(): n for status, n in sorted(counts.items()) if n}


def _waits_for_volume(world: World, task: TaskInfo) -> bool:
    """It has its node, and is bound to it once its volumes are bound."""
    constraints = task.cls.constraints
    claims, namespace = world.objects.volume_claims, task.job.job.namespace
    for name in () if constraints is None else constraints.volumes:
        claim = claims.get(f"{namespace}/{name}")
        if claim is None or not (claim.volume and (claim.bound or claim.phase == "Bound")):
            return True
    return False


def phase_of(ssn: Session, job: SessionJob) -> str:
    """The phase that Volcano writes when the session closes."""
    leaving = sum(1 for task in job.tasks if task.status is Status.RELEASING and task.row >= 0)
    unschedulable = _unschedulable(ssn, job)
    return phase_by(
        job.census.by_status,
        leaving=leaving,
        minimum=job.minimum,
        before=job.phase,
        unschedulable=unschedulable,
    )


def phase_by(
    counts: Mapping[Status, int],
    *,
    leaving: int,
    minimum: int,
    before: str,
    unschedulable: bool,
) -> str:
    """Section 3.14's rule. ``counts``: tasks by state; ``leaving``: those still on a node that are
    to go; ``unschedulable``: the gang plugin said so in this session."""
    if counts.get(Status.RUNNING) and unschedulable:
        return "Unknown"
    scheduled = sum(n for status, n in counts.items() if status & _SCHEDULED) + leaving
    if scheduled >= minimum:
        ended = sum(n for status, n in counts.items() if status & COMPLETED)
        return "Completed" if ended == scheduled else "Running"
    return "Inqueue" if before == "Inqueue" else "Pending"


def speaks(policy: Policy, plugin: str) -> bool:
    """Does the policy name this plugin?"""
    return any(option.name == plugin for tier in policy.tiers for option in tier)


def _unschedulable(ssn: Session, job: SessionJob) -> bool:
    """Did the gang plugin raise the condition Unschedulable?"""
    return speaks(ssn.policy, "gang") and not job.is_ready


def reasons_of(ssn: Session, job: SessionJob) -> list[str]:
    """Why not all of the job has a place, for people."""
    reasons = [f"{count} {text}" for text, count in sorted(job.unschedulable.items())]
    skipped: Mapping[int, Any] = getattr(ssn, "skipped", {})
    if job.job.jid in skipped:
        word, detail = skipped[job.job.jid]
        reasons.append(f"{word}: {detail}" if detail else str(word))
    return reasons
