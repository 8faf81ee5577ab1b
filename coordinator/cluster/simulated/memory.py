"""The state of the simulated kubelets after their process was killed, reconstructed from the
history.

Pods outlive the cluster process, as containers outlive a kubelet: running pods go on, and end when
their time is over. The cluster writes every action to the history before anybody is told of it, so
the history contains all that is needed. Report numbers continue too; the history does not
tell which reports were acknowledged, so all can be requested again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from coordinator.cluster.protocol import BindAnswer, Report, incarnation_of

UNREPORTED = "-"
"""Stands in for the node of a task whose end was never reported."""

_TAKEN = BindAnswer.OK.name
_REPORTS = {
    "start": Report.STARTED,
    "releasing": Report.RELEASING,
    "succeeded": Report.SUCCEEDED,
    "failed": Report.FAILED,
}
_ENDS = ("succeeded", "failed")


@dataclass(slots=True)
class KeptPod:
    """A pod on a node. Times are seconds since 1970, from the history."""

    uid: str
    node: str
    duration: float | None
    bound: float
    failing: bool
    """Whether it will end with a nonzero exit code."""
    started: bool = False
    releasing: bool = False
    deleted: float | None = None
    """When its early deletion was requested; None if it was not."""


@dataclass(slots=True)
class Memory:
    pods: dict[str, KeptPod] = field(default_factory=dict)
    """Task -> the pod on a node."""
    ended: dict[str, tuple[str, str, bool] | None] = field(default_factory=dict)
    """Task -> (uid, node, success) of a pod that ran, or (uid, NEVER, False) of one that did not
    end there: deleted before its bind, or lost. None: the same, whatever its uid."""
    reports: list[tuple[int, str, str, str]] = field(default_factory=list)
    """(kind, task, node, uid) of every report ever made, in order."""


def read_memory(path: Path) -> Memory:
    """Read the cluster's events of a history. An incomplete last line is ignored. Raises OSError,
    or ValueError if the file is not a history.
    """
    memory = Memory()
    if not path.exists():
        return memory
    with path.open("rb") as file:
        for line in file:
            if b'"src":"cluster"' in line and line.endswith(b"\n"):
                _take(memory, orjson.loads(line))
    return memory


def _take(memory: Memory, event: dict[str, Any]) -> None:
    kind = event["ev"]
    if kind == "bind":
        _bound(memory, event)
    elif kind == "delete":
        uids = event["uids"] or [""] * len(event["tasks"])
        for task, uid in zip(event["tasks"], uids, strict=True):
            _deleted(memory, task, uid, event["t"])
    elif kind == "lost":
        for task, uid in zip(event["tasks"], event["uids"], strict=True):
            memory.pods.pop(task, None)
            memory.ended[task] = (uid, UNREPORTED, False)
    elif kind in _REPORTS:  # the others are notes of others, and of the file itself
        _reported(memory, kind, event)


def _deleted(memory: Memory, task: str, uid: str, t: float) -> None:
    pod, end = memory.pods.get(task), memory.ended.get(task)
    if pod is not None:
        if uid in ("", pod.uid) and not pod.releasing and pod.deleted is None:
            pod.deleted = t
    elif end is None:
        memory.ended[task] = (uid, UNREPORTED, False) if uid and task not in memory.ended else None
    elif uid and incarnation_of(end[0]) < incarnation_of(uid):
        memory.ended[task] = (uid, UNREPORTED, False)


def _bound(memory: Memory, event: dict[str, Any]) -> None:
    tasks = event["tasks"]
    durations = event.get("durations") or [None] * len(tasks)
    codes = event.get("codes") or [0] * len(tasks)
    columns = (tasks, event["uids"], event["nodes"], event["answers"], durations, codes)
    for task, uid, node, answer, duration, code in zip(*columns, strict=True):
        if answer == _TAKEN:
            memory.pods[task] = KeptPod(uid, node, duration, event["t"], bool(code))


def _reported(memory: Memory, kind: str, event: dict[str, Any]) -> None:
    report = int(_REPORTS[kind])
    for task, uid, node in zip(event["tasks"], event["uids"], event["nodes"], strict=True):
        memory.reports.append((report, task, node, uid))
        pod = memory.pods.get(task)
        if pod is None:
            continue
        if kind in _ENDS:
            memory.ended[task] = (uid, node, kind == "succeeded")
            del memory.pods[task]
        elif kind == "releasing":
            pod.releasing = True
        else:
            pod.started = True
