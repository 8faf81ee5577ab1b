"""The cluster's side of a history, from what the API server's watch says of pods.

A bind, a start and an end are each the difference between what was last said of a pod and what is
said now: after a list that had to be made anew they are found as well, only later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from coordinator.cluster.events import ClusterEvent, EventKind
from coordinator.cluster.kubernetes.api.objects import PodObject, spec_of
from laboratory.chaos.report import RunFailed
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutJob
from shared.ledger.entries.log import IntakeEntry, LogEntry
from shared.model.named_devices import ASSIGNED_DEVICES
from shared.records.specs_jobs import decode_job
from shared.units.things import Things

KNOWN_SECONDS = 60.0
"""How long the ledger's log may be silent about a pod that is bound: its server may be down."""

KAI_SCHEDULER, GPU_GROUP = "kai-scheduler", "runai-gpu-group"

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
        """Look up a known task by the uid of its pod."""
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
    """Translation of watched pods to cluster events. Pods without a node cause none.

    Between ``begin_list`` and ``end_list`` nothing comes out: who is in no new list went before
    those came that took its place, and is told of first.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._listed: set[str] = set()
        self.listing = False
        self._held: list[ClusterEvent] = []

    def knows(self, uid: str) -> bool:
        return uid in self._pods

    def take(self, pod: PodObject, task: NamedTask, at: float) -> list[ClusterEvent]:
        """The pod, which has a node, as it is now."""
        return self._or_hold(self._seen(pod, task, at))

    def gone(self, uid: str, at: float) -> list[ClusterEvent]:
        """It was deleted, or is in no new list."""
        return self._or_hold(self._ended(uid, at))

    def _or_hold(self, events: Iterator[ClusterEvent]) -> list[ClusterEvent]:
        if not self.listing:
            return list(events)
        self._held += events
        return []

    def _seen(self, pod: PodObject, task: NamedTask, at: float) -> Iterator[ClusterEvent]:
        uid = pod.metadata.uid
        self._listed.add(uid)
        pod_state = self._pods.get(uid)
        if pod_state is None:
            pod_state = self._pods[uid] = _Pod(task, spec_of(pod.spec).node_name)
            bind = _event(at, "bind", pod_state)
            yield replace(bind, devices=[_devices(pod)], gpus=_kai_gpus(pod))
        phase = pod.status.phase
        if phase == "Running" and not (pod_state.started or pod_state.leaving):
            pod_state.started = True
            yield _event(at, "start", pod_state)
        if pod.metadata.deletion_timestamp is not None and not (
            pod_state.leaving or pod_state.ended
        ):
            pod_state.leaving = True
            yield _event(at, "delete", pod_state)
            if phase not in _ENDS:
                yield _event(at, "releasing", pod_state)
        if phase in _ENDS and not pod_state.ended:
            pod_state.ended = True
            yield _event(at, _ENDS[phase], pod_state)

    def _ended(self, uid: str, at: float) -> Iterator[ClusterEvent]:
        pod_state = self._pods.pop(uid, None)
        if pod_state is None:
            return
        if pod_state.ended:
            yield _event(at, "erased", pod_state)
        else:
            yield _event(at, "failed" if pod_state.leaving else "lost", pod_state)

    def begin_list(self) -> None:
        """Also where a list before it broke off: what that one said stays to be told."""
        self._listed, self.listing = set(), True

    def end_list(self, at: float) -> list[ClusterEvent]:
        """Finish the list: report pods that it lacks as ended, then the pods that it has."""
        absent = [uid for uid in self._pods if uid not in self._listed]
        tasks = {self._pods[uid].task.name for uid in absent}
        # A list that broke off may have been the only one that had a pod.
        before = [event for event in self._held if event.tasks[0] in tasks]
        after = [event for event in self._held if event.tasks[0] not in tasks]
        ended = [event for uid in absent for event in self._ended(uid, at)]
        self.listing, self._held = False, []
        return [*before, *ended, *after]


def _devices(pod: PodObject) -> Things:
    """Devices in the annotation that its binding wrote. Parsed by hand, because the product's own
    parser is judged here."""
    written = orjson.loads((pod.metadata.annotations or {}).get(ASSIGNED_DEVICES, "{}"))
    return tuple(
        (name, tuple(amounts) if isinstance(amounts, list) else (amounts,))
        for name, amounts in sorted(written.items())
    )


def _kai_gpus(pod: PodObject) -> list[Things]:
    """Possible GPUs of the pod by KAI's marks; none where another scheduler is named. Parsed by
    hand, too."""
    if spec_of(pod.spec).scheduler_name != KAI_SCHEDULER:
        return []
    notes, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    match notes.get("received-resource-type"):
        case "Fraction":
            part = round(1000 * float(notes.get("gpu-fraction", "0")))
            groups = (text for key, text in labels.items() if key.partition("/")[0] == GPU_GROUP)
            return [tuple((group, (part,)) for group in sorted(groups))]
        case "Regular":
            resources = (container.get("resources", {}) for container in _containers(pod))
            whole = sum(
                int(some.get("requests", {}).get("nvidia.com/gpu", 0)) for some in resources
            )
            return [(("", (1000 * whole,)),)]
        case _:
            return [()]


def _containers(pod: PodObject) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = orjson.loads(bytes(pod.spec))["containers"]
    return containers


def _event(at: float, kind: EventKind, pod: _Pod) -> ClusterEvent:
    answers = ["OK"] if kind == "bind" else []
    return ClusterEvent(at, kind, [pod.task.name], [pod.node], [pod.task.job_uid], answers)
