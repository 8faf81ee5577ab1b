"""The cluster's side of a history, from what the API server's watch says of pods.

A bind, a start and an end are each the difference between what was last said of a pod and what is
said now: after a list that had to be made anew they are found as well, only later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coordinator.cluster.events import ClusterEvent, EventKind
from coordinator.cluster.kubernetes.api.objects import PodObject, spec_of
from coordinator.verification.chaos.report import RunFailed
from shared.ledger.entries.intake_batch import PutJob
from shared.ledger.entries.log import IntakeEntry, LogEntry
from shared.records.specs_jobs import decode_job

KNOWN_SECONDS = 60.0
"""How long the ledger's log may be silent about a pod that is bound: its server may be down."""

_ENDS: dict[str, EventKind] = {"Succeeded": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class NamedTask:
    """Which task a pod is in the ledger."""

    name: str
    """``jid.tix``"""
    job_uid: str


class TaskNames:
    """Pod's uid -> its task, from the jobs in the ledger's log."""

    def __init__(self) -> None:
        self._tasks: dict[str, NamedTask] = {}
        self._more = asyncio.Condition()

    async def learn(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            if isinstance(entry, IntakeEntry):
                for op in entry.ops:
                    if isinstance(op, PutJob):
                        self._learn_job(op)
        async with self._more:
            self._more.notify_all()

    def _learn_job(self, op: PutJob) -> None:
        job = decode_job(op.spec)
        if job.kind == "Pod":  # a job of its own: the pod's uid is the job's
            self._tasks[job.uid] = NamedTask(f"{op.jid}.0", job.uid)
        for role in job.roles:
            for i, uid in enumerate(role.uids):
                self._tasks[uid] = NamedTask(f"{op.jid}.{role.first + i}", job.uid)

    def knows(self, uid: str) -> bool:
        return uid in self._tasks

    def named(self, uid: str) -> NamedTask:
        """Of one that is known."""
        return self._tasks[uid]

    async def of(self, uid: str) -> NamedTask:
        """Raises RunFailed where the log does not come to name it."""
        try:
            async with asyncio.timeout(KNOWN_SECONDS), self._more:
                await self._more.wait_for(lambda: uid in self._tasks)
        except TimeoutError:
            raise RunFailed(
                f"pod {uid} is bound, and the ledger's log has no task for it"
            ) from None
        return self._tasks[uid]


@dataclass(slots=True)
class _Pod:
    task: NamedTask
    node: str
    started: bool = False
    leaving: bool = False
    ended: bool = False


class PodHistory:
    """What the watch says in, events out. Pods without a node are nobody's yet."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._listed: set[str] = set()

    def knows(self, uid: str) -> bool:
        return uid in self._pods

    def take(self, pod: PodObject, task: NamedTask, at: float) -> Iterator[ClusterEvent]:
        """The pod, which has a node, as it is now."""
        uid = pod.metadata.uid
        self._listed.add(uid)
        seen = self._pods.get(uid)
        if seen is None:
            seen = self._pods[uid] = _Pod(task, spec_of(pod.spec).node_name)
            yield _event(at, "bind", seen)
        phase = pod.status.phase
        if phase == "Running" and not (seen.started or seen.leaving):
            seen.started = True
            yield _event(at, "start", seen)
        if pod.metadata.deletion_timestamp is not None and not (seen.leaving or seen.ended):
            seen.leaving = True
            yield _event(at, "delete", seen)
            if phase not in _ENDS:
                yield _event(at, "releasing", seen)
        if phase in _ENDS and not seen.ended:
            seen.ended = True
            yield _event(at, _ENDS[phase], seen)

    def gone(self, uid: str, at: float) -> Iterator[ClusterEvent]:
        """It was deleted, or is in no new list."""
        seen = self._pods.pop(uid, None)
        if seen is None:
            return
        if seen.ended:
            yield _event(at, "erased", seen)
        else:
            yield _event(at, "failed" if seen.leaving else "lost", seen)

    def begin_list(self) -> None:
        self._listed = set()

    def end_list(self, at: float) -> Iterator[ClusterEvent]:
        """What the list did not have is gone."""
        for uid in [uid for uid in self._pods if uid not in self._listed]:
            yield from self.gone(uid, at)


def _event(at: float, kind: EventKind, pod: _Pod) -> ClusterEvent:
    answers = ["OK"] if kind == "bind" else []
    return ClusterEvent(at, kind, [pod.task.name], [pod.node], [pod.task.job_uid], answers)
