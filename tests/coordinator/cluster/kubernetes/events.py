"""Objects as an API server's streams have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from coordinator.cluster.kubernetes.state.mirror import Mirror, MirrorObserver

KINDS = ("Node", "PodGroup", "Pod")


def raw(item: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(orjson.dumps(item))


def pod(
    name: str,
    uid: str = "",
    *,
    node: str = "",
    phase: str = "Pending",
    group: str = "",
    version: int = 1,
    leaving: bool = False,
    scheduler: str = "quadrant",
    annotations: dict[str, str] | None = None,
    cpu: str = "1",
    grace: float = 0.0,
    finalizers: Sequence[str] = (),
) -> msgspec.Raw:
    notes = dict(annotations or {})
    if group:
        notes["scheduling.k8s.io/group-name"] = group
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-24T10:00:00Z",
        "annotations": notes,
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-11-24T11:00:00Z"
        metadata["deletionGracePeriodSeconds"] = int(grace)
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": scheduler}
    if node:
        spec = {"containers": [container], "nodeName": node, "schedulerName": scheduler}
    return raw({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def group(name: str, uid: str = "") -> msgspec.Raw:
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    return raw({"metadata": metadata, "spec": {"minMember": 2}})


def listed(
    *pods: msgspec.Raw,
    groups: tuple[msgspec.Raw, ...] = (),
    hold: float = 0.0,
    observer: MirrorObserver | None = None,
) -> Mirror:
    """A mirror after its first lists."""
    mirror = Mirror(
        KINDS, ours=lambda name: name == "quadrant", hold_seconds=hold, observer=observer
    )
    relist(mirror, "Node")
    relist(mirror, "PodGroup", *groups)
    relist(mirror, "Pod", *pods)
    return mirror


def relist(mirror: Mirror, kind: str, *items: msgspec.Raw) -> None:
    mirror.begin_list(kind)
    for item in items:
        mirror.take(kind, item)
    mirror.end_list(kind)


def admit(mirror: Mirror, *names: str, jid: int = 1) -> None:
    """As intake would answer what it was given."""
    mirror.take_delta(1000)
    for tix, name in enumerate(names):
        row = mirror.pods.by_key["default", name]
        mirror.admitted(row.key, row.uid, (jid, tix))


def reports(mirror: Mirror, after: int = 0) -> list[tuple[int, str, str]]:
    """(kind, task, node)"""
    report = mirror.reports.after(after)
    return list(zip(report.kinds, report.tasks, report.nodes, strict=True))
