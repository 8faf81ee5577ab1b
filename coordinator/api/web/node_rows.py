"""A row for each node that the scheduler knows: its shard, its state, what is used of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator.api.web.table import Row
from coordinator.core.coordinator import Coordinator
from coordinator.objects.columns import node_status
from shared.model.model import Node

NODE_COLUMNS = ("row", "name", "shard", "state", "promised", "used", "total")
"""``used`` and ``total`` are lists of amounts, in the order of the frame's resources; ``promised``
counts tasks. ``shard`` is -1 for a node that no shard owns."""
MOST_RESOURCES = 4


def shown_slots(core: Coordinator, names: Sequence[str]) -> list[int]:
    """The resources that rows have, accelerators first, as in ``quadrant top``."""
    total = core.order.accounts.cluster.total
    slots = [slot for slot in total if total[slot] and names[slot] != "pods"]
    return sorted(slots, key=lambda slot: ("/" not in names[slot], names[slot]))[:MOST_RESOURCES]


def node_row(core: Coordinator, node: Node, slots: Sequence[int], promised: int) -> Row:
    row = node.row
    idle, offered = core.dispatcher.idle_of(row), dict(node.allocatable)
    # As in the node's object: what is overfull counts as full where it is shown by idle alone.
    used = tuple(max(0, offered.get(slot, 0) - idle.get(slot, 0)) for slot in slots)
    return (
        row,
        node.name,
        core.dispatcher.shard_of.get(row, -1),
        node_status(
            ready=True,
            unschedulable=node.unschedulable,
            quarantined=row in core.quarantines.now,
        ),
        promised,
        used,
        tuple(offered.get(slot, 0) for slot in slots),
    )


def shown_resources(slots: Sequence[int], names: Sequence[str]) -> list[Any]:
    return [names[slot] for slot in slots]
