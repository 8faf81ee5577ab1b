"""The devices that a pod has on its node, by what its binding wrote on it.

A ledger that is filled from a cluster learns of running pods by the watch. Their devices stand on
them: all by name where we made the binding, the shared ones by their groups where KAI's binder did.
A device that the node has not, or an amount beyond what it has, is none: whoever may write pods may
write that, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from shared.model.gpu_request import gpu_request
from shared.model.kai_devices import PREFIX, device_memory, is_group_label, shared_groups
from shared.model.model import Job, Node, Role
from shared.model.named_devices import ASSIGNED_DEVICES
from shared.model.node_devices import assigned_devices, node_devices
from shared.units.things import Things, joined_devices


class PodDevices:
    """The devices of tasks that are on nodes without our having bound them there."""

    def __init__(self, nodes: Mapping[int, Node], slot_names: Callable[[], Sequence[str]]) -> None:
        """``nodes``: by row. ``slot_names``: of the resources of nodes, as they are known now."""
        self._nodes = nodes
        self._slot_names = slot_names
        self.marks: Callable[[int, int], Mapping[str, str]] = lambda jid, tix: {}
        """(jid, tix) -> what of the task's pod tells its devices; replaced by who watches pods."""

        self.unread: Callable[[int, int, Exception], None] = lambda jid, tix, error: None
        """Gets (jid, tix) of a task whose devices could not be read; replaced as ``marks`` is."""

    def of(self, job: Job, tix: int, row: int) -> Things:
        """Devices that a task of the job has on the node, by its marks; none where it has no
        marks."""
        marks, node = self.marks(job.jid, tix), self._nodes.get(row)
        if not marks or node is None:
            return ()
        try:
            return devices_of_pod(node, marks, job.role_of(tix), self._slot_names())
        except Exception as error:  # whoever may write pods may write anything into them
            self.unread(job.jid, tix, error)
            return ()


def devices_of_pod(
    node: Node, marks: Mapping[str, str], role: Role, slot_names: Sequence[str]
) -> Things:
    """``marks``: the pod's annotations and labels that its binding wrote, by name. ``slot_names``:
    of the resources of nodes."""
    offered = {device.name: device.capacity for device in node_devices(node, slot_names)}
    devices = _named(marks.get(ASSIGNED_DEVICES, "")) or assigned_devices(node, marks)
    devices = devices or tuple(_shared(node, marks, role, offered))
    return tuple(
        (name, amounts)
        for name, amounts in sorted(devices)
        if name in offered and _is_within(amounts, offered[name])
    )


def _named(text: str) -> Things:
    """All devices, those of Volcano's too, which an annotation of a node may not name."""
    try:
        written: dict[str, int | list[int]] = orjson.loads(text or "{}")
        return joined_devices(
            (name, [amounts] if isinstance(amounts, int) else amounts)
            for name, amounts in written.items()
        )
    except (ValueError, TypeError, AttributeError):  # somebody else wrote it
        return ()


def _shared(
    node: Node, marks: Mapping[str, str], role: Role, offered: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shares of KAI's devices, by the ids of their groups."""
    groups = {text for name, text in marks.items() if is_group_label(name)}
    request = gpu_request(dict(role.annotations), 0)
    if not groups or request is None:
        return
    part = request.parts_of(device_memory(dict(node.labels)))
    for name in offered:
        share: tuple[str, tuple[int, ...]] = (name, (part,))
        if name.startswith(PREFIX) and groups.intersection(shared_groups((share,), node.name)):
            yield share


def _is_within(amounts: Sequence[int], capacity: Sequence[int]) -> bool:
    return len(amounts) == len(capacity) and all(
        0 <= amount <= most for amount, most in zip(amounts, capacity, strict=True)
    )
