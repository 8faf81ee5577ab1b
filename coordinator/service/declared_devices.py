"""Stores the devices of nodes that a ledger does not have yet.

A ledger from before nodes declared their devices has none, and nobody would be given any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from shared.ledger.entries.intake_batch import IntakeOp, PutNode
from shared.ledger.protocol import Ledger
from shared.ledger.records import ALLOCATABLE, WIDTH, unpack_thing
from shared.ledger.retry import insist
from shared.model.model import Node
from shared.model.node_devices import declared
from shared.records.specs import encode_node


async def declare_devices(
    ledger: Ledger,
    nodes: Mapping[int, Node],
    slot_names: Sequence[str],
    store: Callable[[list[IntakeOp]], Awaitable[object]],
) -> None:
    """Store each of these nodes whose devices the ledger has otherwise. Nothing is read where no
    node declares any."""
    declared_rows = {
        row: things for row, node in nodes.items() if (things := declared(node, slot_names))
    }
    if not declared_rows:
        return
    snapshot = await insist(lambda: ledger.snapshot(workload=False), call_name="read devices")
    stored = {
        (row, name): tuple(unpack_thing(record)[1][ALLOCATABLE::WIDTH])
        for row, name, record in snapshot.nodes.things
    }
    ops: list[IntakeOp] = []
    for row, things in declared_rows.items():
        if any(stored.get((row, name)) != capacity for name, capacity in things):
            node = nodes[row]
            allocatable, spec = list(node.allocatable), encode_node(node)
            ops.append(PutNode(row, allocatable, node.spec, spec, things))
    if ops:
        await store(ops)
