"""The devices of recorded nodes, and which of them running pods are on.

A pod that shares a device names it by a label, which is no index: the names on a node get its first
devices, in their order, and the pods with whole GPUs the next ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laboratory.replay.kai.scenario import Json
from shared.model.gpu_request import WHOLE, GpuRequest, gpu_request
from shared.model.kai_devices import PREFIX, device_memory, is_group_label
from shared.units.things import Things

GPUS = "nvidia.com/gpu"


@dataclass(slots=True)
class RecordedDevices:
    offered: dict[str, Things] = field(default_factory=dict)
    """Node -> its devices."""
    taken: dict[str, Things] = field(default_factory=dict)
    """Pod (``namespace/name``) -> what it has of its node's."""
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    """(node, device) -> the name that pods' labels have for it."""


def key_of(item: Mapping[str, Any]) -> str:
    """``namespace/name`` of an object."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def request_of_annotations(annotations: Mapping[str, str]) -> GpuRequest | None:
    """Request of a pod for shared devices; None where it shares none."""
    return gpu_request(annotations, 0)


def label_of(device: str) -> str:
    """The name of a group that this device is opened for."""
    return device.replace("/", "-")


def recorded_devices(items: Iterable[Json]) -> RecordedDevices:
    """The devices of every node, and who is on them."""
    devices = RecordedDevices()
    pods: dict[str, list[Json]] = {}
    nodes: dict[str, Json] = {}
    for item in items:
        if item["kind"] == "Node":
            nodes[item["metadata"]["name"]] = item
        elif item["kind"] == "Pod" and _part(item, "status").get("phase") == "Running":
            pods.setdefault(_part(item, "spec").get("nodeName", ""), []).append(item)
    for name, node in nodes.items():
        _of_node(devices, name, node, sorted(pods.get(name, []), key=key_of))
    return devices


def _of_node(found: RecordedDevices, name: str, node: Json, pods: Sequence[Json]) -> None:
    number = _number((_part(node, "status").get("allocatable") or {}).get(GPUS))
    devices = [f"{PREFIX}{at}" for at in range(number)]
    if not devices:
        return
    found.offered[name] = tuple((device, (WHOLE,)) for device in sorted(devices))
    memory = device_memory(node["metadata"].get("labels") or {})
    groups = sorted({group for pod in pods for group in _groups(pod)})
    # A group that was opened here is called after its device, so that no two have one name.
    by_group = {label_of(device): device for device in devices if label_of(device) in groups}
    free = iter([device for device in devices if label_of(device) not in groups])
    for group in groups:
        if group not in by_group and (device := next(free, None)) is not None:
            by_group[group] = device
    found.labels |= {(name, device): group for group, device in by_group.items()}
    for pod in pods:
        request = request_of_annotations(pod["metadata"].get("annotations") or {})
        if request is not None:
            part = request.parts_of(memory)
            shares = [(by_group[group], (part,)) for group in _groups(pod) if group in by_group]
        else:
            device_numbers = range(_whole(pod))
            shares = [(device, (WHOLE,)) for _, device in zip(device_numbers, free, strict=False)]
        if shares:
            found.taken[key_of(pod)] = tuple(sorted(shares))


def _groups(pod: Json) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    return sorted(value for key, value in labels.items() if is_group_label(key))


def _whole(pod: Json) -> int:
    containers = _part(pod, "spec").get("containers") or ()
    requests = [(c.get("resources") or {}).get("requests") or {} for c in containers]
    return sum(_number(each.get(GPUS)) for each in requests)


def _part(item: Json, name: str) -> Json:
    return item.get(name) or {}


def _number(written: object) -> int:
    """A number of devices; 0 where it is none, which admission says of the object."""
    text = str(written)
    return int(text) if text.isdecimal() else 0
