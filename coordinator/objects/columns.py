"""Tables: the columns of each kind and their cells.

Cells are computed from the rendered object, so that a table always agrees with ``-o yaml``. Columns
of priority 1 are shown with ``-o wide``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coordinator.intake.documents.metadata import QUEUE, REASON, SHARD
from shared.units.times import moment, span

Json = dict[str, Any]
Cell = Callable[[Json, float], Any]
"""Computes a cell from the object and the current time in seconds since 1970."""

NONE = "<none>"
UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    description: str
    type: str = "string"
    wide: bool = False

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.description,
            "priority": int(self.wide),
        }


def table(kind: str, objects: list[Json], now: float) -> Json:
    """A Table's ``columnDefinitions`` and ``rows``; the rows do not include the objects."""
    columns = COLUMNS.get(kind, _PLAIN)
    return {
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [{"cells": [column.cell(value, now) for column in columns]} for value in objects],
    }


# --- cells --------------------------------------------------------------------------------------


def at(*path: str, otherwise: Any = NONE) -> Cell:
    def cell(value: Json, now: float) -> Any:
        part: Any = value
        for name in path:
            part = part.get(name) if isinstance(part, dict) else None
        return otherwise if part is None or part == "" else part

    return cell


def _name(value: Json, now: float) -> str:
    return str(value["metadata"]["name"])


def _age(value: Json, now: float) -> str:
    created = value["metadata"].get("creationTimestamp")
    return span(now - moment(created)) if created else UNKNOWN


def _annotation(name: str) -> Cell:
    return at("metadata", "annotations", name)


def _ready(value: Json, now: float) -> str:
    every = value["spec"].get("containers") or ()
    containers = value["status"].get("containerStatuses") or ()
    return f"{sum(bool(c['ready']) for c in containers)}/{len(every)}"


def pod_status(value: Json, now: float = 0.0) -> str:
    """The status of a pod in one word, as kubectl shows it."""
    phase, metadata = value["status"]["phase"], value["metadata"]
    if phase == "Succeeded":
        return "Completed"
    if phase == "Failed":
        return str(value["status"].get("reason") or "Failed")
    states = [c["state"] for c in value["status"].get("containerStatuses") or ()]
    leaving = any("running" in s for s in states) and phase == "Running" and not _is_ready(value)
    if metadata.get("deletionTimestamp") or leaving:
        return "Terminating"
    if phase == "Running":
        return "Running"
    if states or "startTime" in value["status"]:
        return "ContainerCreating"
    return "Binding" if value["spec"].get("nodeName") else "Pending"


def _is_ready(value: Json) -> bool:
    conditions = value["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def node_status(*, ready: bool, unschedulable: bool, quarantined: bool) -> str:
    """The state of a node in words, as kubectl shows it."""
    words = ["Ready" if ready else "NotReady"]
    if unschedulable:
        words.append("SchedulingDisabled")
    if quarantined:
        words.append("SetAside")
    return ",".join(words)


def _node_status(value: Json, now: float) -> str:
    conditions = value["status"].get("conditions") or ()
    return node_status(
        ready=_is_ready(value),
        unschedulable=bool(value["spec"].get("unschedulable")),
        quarantined=any(c["type"] == "SetAside" for c in conditions),
    )


def _used(resource: str) -> Cell:
    """A cell ``held/offered`` for a resource."""

    def cell(value: Json, now: float) -> str:
        offered = value["status"]["allocatable"].get(resource)
        if offered is None:
            return NONE
        allocated = (value["status"].get("allocated") or {}).get(resource, "0")
        return f"{allocated}/{offered}"

    return cell


def _gpu(value: Json, now: float) -> str:
    """``held/offered`` of the first resource whose name ends in ``gpu``."""
    offered = value["status"]["allocatable"]
    name = next((name for name in sorted(offered) if name.endswith("gpu")), None)
    return NONE if name is None else _used(name)(value, now)


def _taints(value: Json, now: float) -> str:
    taints = value["spec"].get("taints") or ()
    texts = [f"{t['key']}={t.get('value', '')}:{t.get('effect', '')}" for t in taints]
    return ",".join(texts) or NONE


def _labels(value: Json, now: float) -> str:
    labels = value["metadata"].get("labels") or {}
    return ",".join(f"{k}={v}" for k, v in sorted(labels.items())) or NONE


def _ports(value: Json, now: float) -> str:
    ports = (value.get("spec") or {}).get("ports") or []
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _entries(value: Json, now: float) -> int:
    return len(value.get("data") or {}) + len(value.get("binaryData") or {})


def _amounts(*path: str) -> Cell:
    read = at(*path, otherwise={})

    def cell(value: Json, now: float) -> str:
        texts = [f"{name}={amount}" for name, amount in read(value, now).items() if amount != "0"]
        return ",".join(texts) or NONE

    return cell


def _event_object(value: Json, now: float) -> str:
    about = value["involvedObject"]
    return f"{about['kind'].lower()}/{about['name']}"


def _seen(value: Json, now: float) -> str:
    return span(now - moment(value["lastTimestamp"]))


def _since(value: Json, now: float) -> str:
    return span(now - moment(value["firstTimestamp"]))


def _up(value: Json, now: float) -> str:
    return "Up" if value["status"]["up"] else "Down"


def _children(value: Json, now: float) -> str:
    return ",".join((value.get("status") or {}).get("childQueues") or ()) or NONE


def _members(value: Json, now: float) -> int:
    return len(value["spec"].get("members") or ())


# --- columns ------------------------------------------------------------------------------------

_NAME = Column("Name", _name, "Name of the object.")
_AGE = Column("Age", _age, "Time since it was created.")
_QUEUE = Column("Queue", _annotation(QUEUE), "The queue it waits or runs in.", wide=True)
_REASON = Column("Reason", _annotation(REASON), "Why it waits, in one word.", wide=True)
_SHARD = Column("Shard", _annotation(SHARD), "The shard of its node.", wide=True)
_PLAIN = (_NAME, _AGE)


def _number(name: str, cell: Cell, description: str, *, wide: bool = False) -> Column:
    return Column(name, cell, description, type="integer", wide=wide)


def _gang(part: str, minimum: str) -> tuple[Column, ...]:
    """Columns that Jobs and PodGroups share; ``minimum``: the field of ``part`` with the
    minimum."""
    least = at(part, minimum, otherwise=0)
    return (
        _number(minimum, least, "Members that must be there together."),
        _number("Runnings", at("status", "running", otherwise=0), "Members that run."),
        _AGE,
        Column("Queue", at("spec", "queue", otherwise="default"), "Its queue.", wide=True),
    )


COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": (
        _NAME,
        Column("Ready", _ready, "Containers that are ready, of all."),
        Column("Status", pod_status, "Where it stands."),
        _AGE,
        Column("Node", at("spec", "nodeName"), "The node it is bound to.", wide=True),
        _QUEUE,
        _SHARD,
        _REASON,
    ),
    "PodGroup": (
        _NAME,
        Column("Status", at("status", "phase"), "Phase of the gang."),
        *_gang("spec", "minMember"),
        _REASON,
    ),
    "Job": (
        _NAME,
        Column("Status", at("status", "state", "phase"), "Phase of the job."),
        *_gang("status", "minAvailable"),
        _REASON,
        _number("Pending", at("status", "pending", otherwise=0), "Not started yet.", wide=True),
        _number("Succeeded", at("status", "succeeded", otherwise=0), "Ended well.", wide=True),
        _number("Failed", at("status", "failed", otherwise=0), "Failed.", wide=True),
    ),
    "Queue": (
        _NAME,
        Column("Parent", at("spec", "parent"), "The queue above it."),
        _number("Weight", at("spec", "weight", otherwise=1), "Its weight among its siblings."),
        Column("State", at("status", "state"), "Open, or closed to new work."),
        _number("Inqueue", at("status", "inqueue", otherwise=0), "Gangs in turn."),
        _number("Pending", at("status", "pending", otherwise=0), "Gangs that cannot be tried."),
        _number("Running", at("status", "running", otherwise=0), "Gangs that run."),
        _AGE,
        Column("Allocated", _amounts("status", "allocated"), "What it uses.", wide=True),
        Column("Deserved", _amounts("spec", "deserved"), "What it deserves.", wide=True),
        Column("Capability", _amounts("spec", "capability"), "What it may have.", wide=True),
    ),
    "KaiQueue": (
        _NAME,
        Column("Priority", at("spec", "priority"), "Higher goes first; 100 where none is said."),
        Column("Parent", at("spec", "parentQueue"), "The queue above it."),
        Column("Children", _children, "The queues below it."),
        Column("DisplayName", at("spec", "displayName"), "Its name for people."),
        _AGE,
    ),
    "KaiPodGroup": (
        _NAME,
        _AGE,
        Column("Queue", at("spec", "queue", otherwise="default"), "Its queue.", wide=True),
    ),
    "KaiTopology": (_NAME, _AGE),
    "NativePodGroup": (_NAME, _AGE),
    "CompositePodGroup": (_NAME, _AGE),
    "Node": (
        _NAME,
        Column("Status", _node_status, "Whether it takes tasks."),
        Column("CPU", _used("cpu"), "Cores held by tasks, of all."),
        Column("Memory", _used("memory"), "Memory held by tasks, of all."),
        Column("GPU", _gpu, "Devices held by tasks, of all."),
        _AGE,
        _SHARD,
        Column("Pods", _used("pods"), "Pods, of those it takes.", wide=True),
        Column("Taints", _taints, "What keeps pods away.", wide=True),
        Column("Labels", _labels, "Its labels.", wide=True),
    ),
    "HyperNode": (
        _NAME,
        _number("Tier", at("spec", "tier", otherwise=0), "1 is the closest."),
        _number("Members", _members, "Nodes or hyper nodes right below it."),
        _AGE,
    ),
    "PriorityClass": (
        _NAME,
        _number("Value", at("value", otherwise=0), "Higher goes first."),
        Column(
            "Global-Default", at("globalDefault", otherwise=False), "Counts where none is named."
        ),
        _AGE,
        Column("PreemptionPolicy", at("preemptionPolicy"), "Whether it displaces.", wide=True),
    ),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", at("spec", "minAvailable", otherwise="N/A"), "Must stay."),
        Column("Max Unavailable", at("spec", "maxUnavailable", otherwise="N/A"), "May be missing."),
        _AGE,
    ),
    "ResourceQuota": (
        _NAME,
        Column("Hard", _amounts("spec", "hard"), "What may be used in all."),
        Column("Used", _amounts("status", "used"), "What is used."),
        _AGE,
    ),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", at("spec", "capacity", "storage"), "How large it is."),
        Column("Status", at("status", "phase"), "Whether it has a claim."),
        Column("Claim", at("spec", "claimRef", "name"), "The claim that has it."),
        Column("StorageClass", at("spec", "storageClassName"), "The class it is of."),
        _AGE,
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", at("status", "phase"), "Whether it has a volume."),
        Column("Volume", at("spec", "volumeName"), "The volume it has."),
        Column("StorageClass", at("spec", "storageClassName"), "The class it asks for."),
        _AGE,
    ),
    "StorageClass": (
        _NAME,
        Column("Provisioner", at("provisioner"), "Who makes the volumes."),
        Column(
            "VolumeBindingMode",
            at("volumeBindingMode", otherwise="Immediate"),
            "Whether claims wait for the node of their pod.",
        ),
        _AGE,
    ),
    "CSINode": (_NAME, _AGE),
    "ResourceClaim": (_NAME, _AGE),
    "ResourceClaimTemplate": (_NAME, _AGE),
    "ResourceSlice": (
        _NAME,
        Column("Node", at("spec", "nodeName"), "The node that has the devices."),
        Column("Driver", at("spec", "driver"), "Whose they are."),
        Column("Pool", at("spec", "pool", "name"), "The pool they are in."),
        _AGE,
    ),
    "DeviceClass": (_NAME, _AGE),
    "Numatopology": (_NAME, _AGE),
    "ConfigMap": (_NAME, _number("Data", _entries, "Texts in it."), _AGE),
    "Secret": (_NAME, Column("Type", at("type", otherwise="Opaque"), "What it is for."), _AGE),
    "Service": (
        _NAME,
        Column("Type", at("spec", "type", otherwise="ClusterIP"), "How it is reached."),
        Column("Port(s)", _ports, "Its ports."),
        _AGE,
    ),
    "ServiceAccount": (_NAME, _AGE),
    "Workload": (_NAME, _AGE),
    "Namespace": (_NAME, Column("Status", at("status", "phase"), "Active."), _AGE),
    "Shard": (
        _NAME,
        Column("Status", _up, "Whether a worker serves it."),
        _number("Nodes", at("status", "nodes", otherwise=0), "Nodes that it uses as its own."),
        _number("Desired", at("status", "desired", otherwise=0), "Nodes that it shall have."),
        _number("Outstanding", at("status", "outstanding", otherwise=0), "Tasks under way to it."),
        _number("Turns", at("status", "turns", otherwise=0), "Turns open at its worker."),
        _number("Limit", at("status", "turnLimit", otherwise=0), "How many turns may be open."),
        Column("Epoch", at("status", "epoch"), "The ownership its worker has."),
        Column("Idle", _amounts("status", "idle"), "What its nodes have left.", wide=True),
    ),
    "Event": (
        Column("Last Seen", _seen, "Time since it last happened."),
        Column("Type", at("type"), "Normal or Warning."),
        Column("Reason", at("reason"), "What happened, in one word."),
        Column("Object", _event_object, "What it happened to."),
        Column("Message", at("message", otherwise=""), "What happened."),
        Column("First Seen", _since, "Time since it first happened.", wide=True),
        _number("Count", at("count", otherwise=1), "How often it happened.", wide=True),
        Column("Name", _name, "Name of the event.", wide=True),
    ),
}
