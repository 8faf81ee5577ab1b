"""Kinds of tasks: what finds a place where each other does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask
from shard_worker.kube_scheduler.filters.pod_affinity import required
from shard_worker.kube_scheduler.filters.pod_index import SHARED, Neighbours
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo


def kind_of(task: TaskInfo, *, labels: bool = True) -> object:
    """The same for tasks of one kind. ``labels``: they count, see :func:`reads_labels`."""
    return task.cid, task.role.labels if labels else (), task.role.annotations


def reads_labels(ssn: KaiSession, tasks: Iterable[TaskInfo]) -> bool:
    """Whether labels of pods may decide where tasks find a place: terms between pods select by
    them, and plugins from outside may read them.

    Each Job's pods have labels of their own, so that 4,000 victims of 4,000 Jobs would be as many
    kinds, of which each is looked at.
    """
    if ssn.guarded:
        return True
    neighbours = ssn.shared.get(SHARED)
    if isinstance(neighbours, Neighbours) and neighbours.has_terms:
        return True
    return any(task.cls.constraints and task.cls.constraints.pod_terms for task in tasks)


class OpenKinds:
    """Kinds of victims that may still find a place. What a simulation places takes room and gives
    none back, so that a kind without a place has none until the end."""

    def __init__(
        self, ssn: KaiSession, own: Sequence[TaskInfo], tasks: Sequence[TaskInfo], rows: Mask
    ) -> None:
        """``own``: those that the victims go for."""
        self._ssn = ssn
        self._rows = rows
        self._open: dict[object, TaskInfo] = {}
        self._of_job: dict[int, set[object]] = {}
        labels = reads_labels(ssn, (*own, *tasks))
        for task in tasks:
            kind = kind_of(task, labels=labels)
            self._open[kind] = task
            self._of_job.setdefault(task.job.job.jid, set()).add(kind)

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
