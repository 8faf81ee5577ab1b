"""The devices that a node declares, as named things: one record for each.

Shared GPUs of Volcano are declared in two ways, and both at once is possible: by an annotation that
lists virtual GPUs, and by the resources ``volcano.sh/gpu-number`` and ``volcano.sh/gpu-memory``.
They have three dimensions. Devices of any other kind, for plugins of others, are listed in an
annotation of ours (:mod:`shared.model.named_devices`).

A device is named by its position in the node, as in Volcano, so that nodes of one kind have
devices of the same names, and a view keeps each name as one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.model.model import Node
from shared.model.named_devices import (
    ASSIGNED_DEVICES,
    DEVICES,
    GPU,
    MOST_DEVICES,
    VGPU,
    devices_of,
    is_volcanos,
    written_devices,
)
from shared.units.bounded_numbers import whole_number
from shared.units.things import Things, Vector, joined_devices

GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
REGISTER = "volcano.sh/node-vgpu-register"
"""Annotation of a node: its devices, each ``id,shares,memory,type,healthy[,mode]`` followed by a
colon."""
ASSIGNED = "volcano.sh/vgpu-ids-new"
"""Annotation of a pod: its virtual GPUs, each ``id,type,memory,cores`` followed by a colon."""
ASSIGNED_NODE = "volcano.sh/vgpu-node"
GPU_INDEX = "volcano.sh/gpu-index"
"""Annotation of a pod: the positions of its GPUs."""
DEVICE_MARKS = (ASSIGNED_DEVICES, ASSIGNED, ASSIGNED_NODE, GPU_INDEX)
"""Annotations that tell a pod's devices; the scheduler writes them."""
UNIT = 1000
"""Amounts of these resources come in thousandths."""

DIMENSIONS = 3
SHARES, MEMORY, CORES = range(DIMENSIONS)
"""Dimensions of a GPU of Volcano: tasks on it, memory, percent of its cores."""
ALL_CORES = 100
ENDLESS = 1 << 30
"""Tasks on a device that says nothing of their number."""


@dataclass(frozen=True, slots=True)
class NodeDevice:
    name: str
    """Name of the thing."""
    id: str
    """As the node and pods' annotations of Volcano have it."""
    type: str
    capacity: Vector


def node_devices(node: Node, slot_names: Sequence[str]) -> list[NodeDevice]:
    """All devices that a node declares."""
    offered = {
        slot_names[slot]: amount // UNIT
        for slot, amount in node.allocatable
        if slot < len(slot_names) and slot_names[slot] in (GPU_NUMBER, GPU_MEMORY)
    }
    number = offered.get(GPU_NUMBER, 0)
    memory = offered.get(GPU_MEMORY, 0) // (number or 1)
    capacity = (ENDLESS, memory, ALL_CORES)
    whole = [NodeDevice(f"{GPU}{i}", f"{i}", "", capacity) for i in range(number)[:MOST_DEVICES]]
    annotations = dict(node.annotations)
    others = devices_of(annotations, DEVICES)
    named = [NodeDevice(name, "", "", capacity) for name, capacity in others]
    return [*registered(annotations.get(REGISTER, "")), *whole, *named]


def registered(text: str) -> list[NodeDevice]:
    """The healthy devices of a node's annotation. Entries that do not parse are left out; they
    count for the position of those behind them."""
    devices = []
    for position, entry in enumerate(text.split(":")[:MOST_DEVICES]):
        parts = [part.strip() for part in entry.split(",")]
        if len(parts) < 5 or parts[4].lower() != "true":
            continue
        shares, memory = whole_number(parts[1]), whole_number(parts[2])
        if shares is not None and memory is not None:
            capacity = (shares, memory, ALL_CORES)
            devices.append(NodeDevice(f"{VGPU}{position}", parts[0], parts[3], capacity))
    return devices


def device_annotations(node: Node, devices: Things) -> dict[str, str]:
    """The annotations that tell a pod which devices of its node it has: Volcano's for those that it
    knows, and ours for the others."""
    names = {device.name: device for device in registered(dict(node.annotations).get(REGISTER, ""))}
    shares = [
        f"{names[name].id},{names[name].type},{amounts[MEMORY]},{amounts[CORES]}:"
        for name, amounts in devices
        if name in names
    ]
    indexes = [name.removeprefix(GPU) for name, _ in devices if name.startswith(GPU)]
    assigned = {ASSIGNED: "".join((*shares, ";")), ASSIGNED_NODE: node.name} if shares else {}
    assigned |= {GPU_INDEX: ",".join(indexes)} if indexes else {}
    others = tuple((name, amounts) for name, amounts in devices if not is_volcanos(name))
    return assigned | ({ASSIGNED_DEVICES: written_devices(others)} if others else {})


def assigned_devices(node: Node, annotations: Mapping[str, str]) -> Things:
    """The virtual GPUs of its node, and devices of other kinds, that a pod has by its annotations.
    What does not parse, or is not on the node, is left out."""
    by_id = {device.id: device for device in registered(dict(node.annotations).get(REGISTER, ""))}
    own = {name for name, _ in devices_of(dict(node.annotations), DEVICES)}
    own_devices = [
        listed for listed in devices_of(annotations, ASSIGNED_DEVICES) if listed[0] in own
    ]
    for entry in annotations.get(ASSIGNED, "").replace(";", ":").split(":"):
        id, _, amounts = entry.partition(",")
        _, *numbers = map(whole_number, amounts.split(","))
        if id not in by_id or len(numbers) != 2:
            continue
        device, (memory, cores) = by_id[id], numbers
        if memory is not None and cores is not None:
            shares = device.capacity[SHARES] if cores == ALL_CORES else 1
            own_devices.append((device.name, (shares, memory, cores)))
    return joined_devices(own_devices)


def none_left(node: Node, slot_names: Sequence[str]) -> Things:
    """Every device of a deleted node, with capacity 0."""
    devices = node_devices(node, slot_names)
    return tuple(sorted((device.name, (0,) * len(device.capacity)) for device in devices))


def declared(node: Node, slot_names: Sequence[str], *, before: Node | None = None) -> Things:
    """The capacity of each device that the node declares. ``before``: the node's previous form;
    its devices that are gone now are included with capacity 0."""
    things = {} if before is None else dict(none_left(before, slot_names))
    things.update((device.name, device.capacity) for device in node_devices(node, slot_names))
    return tuple(sorted(things.items()))
