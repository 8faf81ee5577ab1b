"""Kinds of tasks: what finds a place where each other does."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask
from shard_worker.kube_scheduler.filters.pod_affinity import required
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo


def kind_of(task: TaskInfo) -> object:
    """The same for tasks of one kind."""
    return task.cid, task.role.labels, task.role.annotations


class OpenKinds:
    """Kinds of victims that may still find a place. What a simulation places takes room and gives
    none back, so that a kind without a place has none until the end."""

    def __init__(self, ssn: KaiSession, tasks: Sequence[TaskInfo], rows: Mask) -> None:
        self._ssn = ssn
        self._rows = rows
        self._open = {kind_of(task): task for task in tasks}
        self._of_job: dict[int, set[object]] = {}
        for task in tasks:
            self._of_job.setdefault(task.job.job.jid, set()).add(kind_of(task))

    def may_fit(self, job: KaiJob) -> bool:
        """Whether a task of a victim's job may find a place."""
        return any(kind in self._open for kind in self._of_job[job.job.job.jid])

    def failed(self, job: KaiJob) -> None:
        """Close the kinds of a job that was not placed and have no place."""
        for kind in self._of_job[job.job.job.jid]:
            self._look(kind)

    def any_fits(self) -> bool:
        """Whether a task of any kind finds a place now."""
        return any(self._look(kind) for kind in list(self._open))

    def _look(self, kind: object) -> bool:
        task = self._open.get(kind)
        if task is None:
            return False
        if any(not term.anti for term in required(task.cls)):
            return True  # whoever is placed may be the neighbour that it waits for
        fits = bool(feasible(self._ssn, task, within=self._rows).mask.any())
        if not fits:
            del self._open[kind]
        return fits
