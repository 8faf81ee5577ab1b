"""GPUs of a node as devices under a policy of KAI's: ``kai-gpu/0`` and so on, of
:data:`~shared.model.gpu_request.WHOLE` parts each (docs/decisions/0063)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid5

from shared.model.gpu_request import ONE, WHOLE
from shared.model.model import Node, Pairs
from shared.model.named_devices import DEVICES, MOST_DEVICES, devices_of, written_devices
from shared.units.bounded_numbers import whole_number
from shared.units.things import Things

PREFIX = "kai-gpu/"
MEMORY_LABEL = "nvidia.com/gpu.memory"
LEAST_MEMORY = 100
"""MiB of a device of a node without the label; labels are rounded down to hundreds."""
_MIB = 1 << 20

_GROUPS = UUID("6f0a6f8e-3f0c-5b52-9d0e-6c2b8b0f1d8a")
"""Namespace of the ids of shared devices; another one would part pods that share a device."""


def memory_of(label: str) -> int:
    """MiB of a device of a node whose label says this; "" for none."""
    memory = whole_number(label) or 0
    if memory >= _MIB:  # GPU feature discovery wrote bytes once, and KAI reads them so
        memory //= _MIB
    return max(memory // 100 * 100, LEAST_MEMORY)


def device_memory(labels: Mapping[str, str]) -> int:
    """MiB of a device of a node with these labels."""
    return memory_of(labels.get(MEMORY_LABEL, ""))


def has_gpus(node: Node) -> bool:
    """Whether the node declares devices of KAI's."""
    devices = devices_of(dict(node.annotations), DEVICES)
    return any(name.startswith(PREFIX) for name, _ in devices)


def with_gpus(annotations: Pairs, allocatable: Sequence[tuple[str, int]]) -> Pairs:
    """The annotations of a node that declare each of its GPUs as a device, beside those that they
    declare already. ``allocatable``: by name, in thousandths."""
    gpus = sum(amount for name, amount in allocatable if name.endswith("gpu")) // ONE
    marks = dict(annotations)
    named = dict(devices_of(marks, DEVICES))
    own: Things = tuple((f"{PREFIX}{at}", (WHOLE,)) for at in range(min(gpus, MOST_DEVICES)))
    if not own or any(name.startswith(PREFIX) for name in named):
        return annotations
    marks[DEVICES] = written_devices(tuple(sorted((named | dict(own)).items())))
    return tuple(sorted(marks.items()))


GROUP_LABEL = "runai-gpu-group"
RECEIVED = "received-resource-type"
"""Annotation of a pod: what of GPUs it got, Fraction or Regular."""


def received(devices: Things) -> dict[str, str]:
    """The annotation that tells what kind of GPUs a pod got; none without devices of KAI's."""
    if not any(name.startswith(PREFIX) for name, _ in devices):
        return {}
    return {RECEIVED: "Fraction" if shared_devices(devices) else "Regular"}


def shared_devices(devices: Things) -> list[str]:
    """The devices of KAI's of which a pod has a part."""
    return [name for name, parts in devices if name.startswith(PREFIX) and parts[0] < WHOLE]


def shared_groups(devices: Things, node: str) -> list[str]:
    """The ids of the devices of this node which a pod shares, as a whole cluster knows them: KAI's
    binder finds the pods and the reservation of a group by its id alone, on whatever node. KAI's
    own are drawn UUIDs; these are the same again for whoever knows node and device."""
    return [str(uuid5(_GROUPS, f"{node}/{device}")) for device in shared_devices(devices)]


def labels_of(groups: Sequence[str]) -> dict[str, str]:
    """The labels that name shared devices, as KAI's binder writes them: one, or one for each of
    several."""
    if len(groups) == 1:
        return {GROUP_LABEL: groups[0]}
    return {f"{GROUP_LABEL}/{group}": group for group in groups}


def is_group_label(label: str) -> bool:
    return label == GROUP_LABEL or label.startswith(f"{GROUP_LABEL}/")


def group_labels(devices: Things) -> dict[str, str]:
    """The labels of a pod that shares these devices, on the simulated cluster."""
    return labels_of([name.replace("/", "-") for name in shared_devices(devices)])
