"""The worksheet of allocate for one job: its sub-jobs, and the tasks of each in order.

A sheet lives for one run of the action, and records the progress of each sub-job. A dry run
continues in it and is undone by restoring a mark; no task is copied.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.status import Status

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo

Mark = tuple[tuple["SubSheet", ...], tuple[int, ...]]
"""The sub-jobs still queued, and the progress of each one of the sheet."""


@dataclass(slots=True, eq=False)
class SubSheet:
    """The tasks of one sub-job that allocate may place, and the index of the next."""

    sub: SubJob
    tasks: list[TaskInfo]
    at: int = 0
    failed: dict[str, None] = field(default_factory=dict)
    """Roles with a task that found no node: their other tasks are not tried."""
    mixed: frozenset[str] = frozenset()
    """Roles whose tasks have different classes."""
    needed: bool = False
    """Whether the job cannot reach its minimum of sub-jobs without this one."""

    def __len__(self) -> int:
        return len(self.tasks) - self.at

    def left(self) -> list[TaskInfo]:
        """The tasks not tried yet."""
        return self.tasks[self.at :]


@dataclass(slots=True, eq=False)
class Sheet:
    """The sub-jobs of one job."""

    job: SessionJob
    subs: list[SubSheet]
    """Sub sheets with tasks."""
    queued: list[SubSheet]
    """Sub sheets that may still get a turn."""

    def __len__(self) -> int:
        return sum(map(len, self.queued))

    def mark(self) -> Mark:
        return tuple(self.queued), tuple(sub.at for sub in self.subs)

    def restore(self, mark: Mark) -> None:
        """Restore the progress of a mark."""
        queued, at = mark
        self.queued = list(queued)
        for sub, where in zip(self.subs, at, strict=True):
            sub.at = where

    def put_back(self, sub: SubSheet, start: int) -> None:
        """Have the tasks from ``start`` on that were tried without success tried again, last."""
        tried = sub.tasks[start : sub.at]
        failed = [task for task in tried if task.status is Status.PENDING]
        if not failed:
            return
        placed = [task for task in tried if task.status is not Status.PENDING]
        sub.tasks[start:] = placed + sub.left() + failed
        sub.at = start + len(placed)
        if sub not in self.queued:
            self.queued.append(sub)

    def pop(self, ssn: Session) -> SubSheet:
        """Remove and return the next sub-job: needed ones first, then by the present
        SubJobOrder."""
        first = self.queued[0]
        for candidate in self.queued[1:]:
            if candidate.needed is not first.needed:
                ahead = candidate.needed
            else:
                # Compared anew for each pop and not kept in a heap: the order depends on what was
                # placed since.
                ahead = ssn.compare_sub_jobs(candidate.sub, first.sub) < 0
            if ahead:
                first = candidate
        self.queued.remove(first)
        return first


def sheet_of(ssn: Session, job: SessionJob) -> Sheet:
    """The worksheet of a job: its pending tasks, without those left to backfill and those with a
    scheduling gate other than the one that the scheduler removes itself."""
    needed = _needed(ssn, job)
    subs = []
    for sub in job.subs.values():
        tasks = [task for task in sub.tasks if _open(task)]
        if tasks:
            ordered = ssn.in_task_order(tasks)
            subs.append(SubSheet(sub, ordered, mixed=_mixed(tasks), needed=sub.name in needed))
    return Sheet(job, subs, list(subs))


def _open(task: TaskInfo) -> bool:
    role = task.role
    gated = role.gated and not role.own_gate
    return task.status is Status.PENDING and not gated and not task.backfilled


def _mixed(tasks: list[TaskInfo]) -> frozenset[str]:
    kinds = Counter(role for role, _ in {(task.role.name, task.cid) for task in tasks})
    return frozenset(role for role, classes in kinds.items() if classes > 1)


def _needed(ssn: Session, job: SessionJob) -> set[str]:
    """The first sub jobs, by SubJobOrder, that bring each policy to its minimum."""
    have = Counter(_policy(sub) for sub in job.subs.values() if ssn.sub_ready(sub))
    minima = {policy.name: policy.minimum for policy in job.job.sub_groups}
    missing = [sub for sub in job.subs.values() if not ssn.sub_ready(sub)]
    needed = set()
    for sub in PriorityQueue(ssn.compare_sub_jobs, missing).drain():
        policy = _policy(sub)
        if policy is not None and have[policy] < minima[policy]:
            have[policy] += 1
            needed.add(sub.name)
    return needed


def _policy(sub: SubJob) -> str | None:
    return None if sub.policy is None else sub.policy.name
