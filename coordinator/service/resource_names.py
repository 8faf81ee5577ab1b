"""From time to time: slots of resources that nothing uses are given back, durably.

A number is given to another name only when no class, node or queue has it, and the ledger counts
nothing under it. What is read of the ledger stays true until the slot is freed: amounts of tasks
come from jobs alone, and those of others (foreign pods) are written by the loop that calls this.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.resource_names import (
    doubt,
    doubtful_slots,
    free,
    keep_slots,
    look,
)
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.records import HEAD, WIDTH, unpack_nodes
from shared.ledger.retry import insist
from shared.messages.messages import Rows
from shared.units.slots import BASE, FREE

ROWS = 1000
"""Node records read and looked at in one go."""

log = structlog.get_logger(__name__)


class ReadsCounts(Protocol):
    """The ledger's methods that resource names need."""

    async def read_moved(self, changed: ChangedKeys) -> Snapshot: ...

    async def read_nodes(self, rows: list[int]) -> Rows: ...


async def free_unused_names(ledger: ReadsCounts, intake: Intake, writer: IntakeWriter) -> list[str]:
    """Returns the names that have no slot any more. Raises StoreRefused."""
    registry = intake.registry
    if not set(registry.slots.names) - {*BASE, FREE}:
        return []

    def begin(now: float) -> Admission:
        doubt(registry)  # here no list is half admitted, whose names would not be seen
        return Admission()

    # In the writer's order: what is admitted from here on strikes its names out again, and what was
    # admitted before is seen by the walk.
    await writer.apply(begin)
    for _ in look(registry):
        await asyncio.sleep(0)
    if registry.doubtful:
        await _keep_counted(ledger, registry)
    if not registry.doubtful:
        return []
    freed: list[str] = []

    def work(now: float) -> Admission:
        freed[:] = sorted(registry.doubtful)  # a batch that is refused is worked on again
        return free(registry)

    await writer.apply(work)
    log.info("Resources that nothing uses have no slot any more", names=freed)
    return freed


async def _keep_counted(ledger: ReadsCounts, registry: Registry) -> None:
    """Keep the names under whose slots the ledger counts an amount."""
    changed = ChangedKeys(queues={queue.qid for queue in registry.queues.values()})
    part = await insist(lambda: ledger.read_moved(changed), call_name="read queues")
    for record in part.queues.values():
        for amounts in (record.used, record.capability, record.guarantee, record.leaving):
            keep_slots(registry, [slot for slot in doubtful_slots(registry) if slot in amounts])
    for first in range(0, registry.next_row, ROWS):
        rows = [*range(first, min(first + ROWS, registry.next_row))]
        nodes = await insist(partial(ledger.read_nodes, rows), call_name="read nodes")
        if nodes.records:
            keep_slots(registry, _counted(unpack_nodes(nodes.records), doubtful_slots(registry)))


def _counted(nodes: NDArray[np.int64], slots: list[int]) -> list[int]:
    """The slots, of these, in which some node has an amount other than 0."""
    starts = {slot: HEAD + WIDTH * slot for slot in slots}
    return [slot for slot, at in starts.items() if nodes[:, at : at + WIDTH].any()]
