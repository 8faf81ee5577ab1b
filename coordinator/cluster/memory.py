"""What the simulated kubelets still know after their process was killed: read from the history.

Pods outlive the process that is asked about them, as containers outlive a kubelet: those that ran
go on, and end when their time is over. Whatever the cluster did stands in the history before
anybody was told of it, so the history is all the memory there has to be. Report numbers go on too;
which reports were acknowledged is not known, so all can be asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from coordinator.cluster.protocol import BindAnswer, Report

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
    """A pod on a node. Times are those of the history, seconds since 1970."""

    uid: str
    node: str
    duration: float | None
    bound: float
    failing: bool
    """Whether it will end with another exit code than 0."""
    started: bool = False
    releasing: bool = False
    deleted: float | None = None
    """Since when it was to end before its time."""


@dataclass(slots=True)
class Memory:
    pods: dict[str, KeptPod] = field(default_factory=dict)
    """Task -> what is on a node."""
    ended: dict[str, tuple[str, str, bool] | None] = field(default_factory=dict)
    """Task -> (uid, node, whether it succeeded) of what ran; None: deleted before it was ever
    bound, or lost."""
    reports: list[tuple[int, str, str]] = field(default_factory=list)
    """(kind, task, node) of every report ever made, in order."""


def read_memory(path: Path) -> Memory:
    """The cluster's side of a history. An incomplete last line counts as not written.

    Raises OSError, or ValueError where the file is not a history.
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
        for task in event["tasks"]:
            if (pod := memory.pods.get(task)) is not None:
                if not pod.releasing and pod.deleted is None:
                    pod.deleted = event["t"]
            else:
                memory.ended.setdefault(task, None)
    elif kind == "lost":
        for task in event["tasks"]:
            memory.pods.pop(task, None)
            memory.ended[task] = None
    else:
        _reported(memory, kind, event)


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
        memory.reports.append((report, task, node))
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
