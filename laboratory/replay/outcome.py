"""The result of a session in a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shard_worker.dialects.kai.not_placed import why_no_turn, why_not_placed
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import COMPLETED, Status
from shard_worker.session_model.world import World
from shared.model.groups import GROUP_KINDS
from shared.policy.model import Policy

GROUPS = (*GROUP_KINDS, "Job")
"""Kinds of jobs that are reported as PodGroups: a Job stands for its own, which has no object
yet."""
_SCHEDULED = Status.RUNNING | Status.BOUND | COMPLETED


@dataclass(slots=True)
class ReplayResult:
    """The result of one session. Keys are ``namespace/name``."""

    id: str
    binds: dict[str, str]
    """Pod -> node, without placed pods that wait for a volume."""
    evicted: list[str]
    pipelined: dict[str, str]
    """Pod -> node of every task with a nomination at the end of the session."""
    pod_groups: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, int]]
    """PodGroup -> state -> number of tasks."""
    victims: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Evicted pod -> (node, rule); for display."""
    alone: dict[str, list[str]] = field(default_factory=dict)
    """Pending pod without a PodGroup -> reasons."""
    awaiting_volumes: dict[str, str] = field(default_factory=dict)
    """Placed pod -> node, to be bound once its volumes are."""

    def as_json(self) -> dict[str, Any]:
        """As JSON; ``pods`` only if pods without a PodGroup are pending, ``awaitingVolumes`` only
        if placed pods wait for a volume."""
        document: dict[str, Any] = {
            "id": self.id,
            "binds": self.binds,
            "evicted": self.evicted,
            "pipelined": self.pipelined,
            "podGroups": self.pod_groups,
            "tasks": self.tasks,
        }
        alone = {pod: {"reasons": reasons} for pod, reasons in self.alone.items()}
        if alone:
            document["pods"] = alone
        if self.awaiting_volumes:
            document["awaitingVolumes"] = self.awaiting_volumes
        return document


def result_of(name: str, ssn: Session, placed_jobs: Iterable[PlacedJob]) -> ReplayResult:
    """Read a session's result. ``placed_jobs``: all jobs before it; jobs that it skipped because
    their queue does not exist are unchanged."""
    world = ssn.world
    operations = ssn.committed
    groups = [job for job in world.session_jobs() if job.job.kind in GROUPS]
    skipped = [s for s in placed_jobs if s.job.kind in GROUPS and s.job.jid not in world.jobs]
    placed = [op for op in operations if op.kind is OpKind.ALLOCATE]
    waiting = {op.task.key for op in placed if _waits_for_volume(world, op.task)}
    nodes = {op.task.key: world.node(op.row).name for op in placed}
    result = ReplayResult(
        id=name,
        binds={pod: node for pod, node in nodes.items() if pod not in waiting},
        awaiting_volumes={pod: node for pod, node in nodes.items() if pod in waiting},
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
    for placed_job in skipped:
        if not placed_job.job.dangling:
            take_left(result, placed_job)
    return result


def take_left(result: ReplayResult, placed_job: PlacedJob) -> None:
    """Add a PodGroup that nobody looked at, because its queue does not exist."""
    job = placed_job.job
    reason = f"queue {job.queue} does not exist"
    result.pod_groups[job.key] = {"phase": job.phase or "Pending", "reasons": [reason]}
    states = Counter(placed_job.states.get(tix, Status.PENDING) for tix in range(job.tasks))
    result.tasks[job.key] = by_word(states)


def by_word(counts: Mapping[Status, int]) -> dict[str, int]:
    """Number of tasks by state, with Volcano's names."""
    return {str(status.name).capitalize(): n for status, n in sorted(counts.items()) if n}


def _waits_for_volume(world: World, task: TaskInfo) -> bool:
    """Whether the task has a node but will be bound only when its volumes are."""
    constraints = task.cls.constraints
    claims, namespace = world.objects.volume_claims, task.job.job.namespace
    for name in () if constraints is None else constraints.volumes:
        claim = claims.get(f"{namespace}/{name}")
        if claim is None or not (claim.volume and (claim.bound or claim.phase == "Bound")):
            return True
    return False


def phase_of(ssn: Session, job: SessionJob) -> str:
    """The phase that Volcano writes at the end of a session."""
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
    """The phase by section 3.14. ``counts``: tasks by state; ``leaving``: tasks still on a node
    that have to leave; ``unschedulable``: set by the gang plugin in this session."""
    if counts.get(Status.RUNNING) and unschedulable:
        return "Unknown"
    scheduled = sum(n for status, n in counts.items() if status & _SCHEDULED) + leaving
    if scheduled >= minimum:
        ended = sum(n for status, n in counts.items() if status & COMPLETED)
        return "Completed" if ended == scheduled else "Running"
    return "Inqueue" if before == "Inqueue" else "Pending"


def speaks(policy: Policy, plugin: str) -> bool:
    """Whether the policy contains this plugin."""
    return any(option.name == plugin for tier in policy.tiers for option in tier)


def _unschedulable(ssn: Session, job: SessionJob) -> bool:
    """Whether the gang plugin set the condition Unschedulable."""
    return speaks(ssn.policy, "gang") and not job.is_ready


def reasons_of(ssn: Session, job: SessionJob) -> list[str]:
    """Why not all tasks of the job have a place; for display."""
    reasons = [f"{count} {text}" for text, count in sorted(job.unschedulable.items())]
    skipped: Mapping[int, Any] = getattr(ssn, "skipped", {})
    if job.job.jid in skipped:
        reasons.append(_sentence(*skipped[job.job.jid]))
    elif isinstance(ssn, KaiSession) and job.census.by_status.get(Status.PENDING):
        reasons += _reasons_of_kai(ssn, job)
    return reasons


def _reasons_of_kai(ssn: KaiSession, job: SessionJob) -> Iterator[str]:
    kai_job = ssn.kai_job(job)
    if kai_job is None or not kai_job.root.ready:
        yield _sentence(*why_no_turn(job, kai_job))
    elif refused := why_not_placed(ssn, kai_job):
        yield _sentence(*refused)
    if ended := ssn.searches.ended.get(job.job.jid):
        yield ended


def _sentence(word: object, detail: str) -> str:
    return f"{word}: {detail}" if detail else str(word)
