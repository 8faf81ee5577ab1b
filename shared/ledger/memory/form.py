"""The double's checks of the form of a call, and copies of what it stores and hands out."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.errors import LedgerArgument
from shared.messages.messages import StatusBatch, TaskState

K = TypeVar("K")


def update_specs(specs: dict[K, bytes], changes: dict[K, bytes | None]) -> None:
    for key, spec in changes.items():
        if spec is None:
            specs.pop(key, None)
        else:
            specs[key] = spec


def copy_partition(partition: PutPartition | None) -> PutPartition | None:
    if partition is None:
        return None
    shards = {shard: list(rows) for shard, rows in partition.shards.items()}
    moving = [replace(move, rows=list(move.rows)) for move in partition.moving]
    return replace(partition, shards=shards, moving=moving)


def check_items(batch: StatusBatch) -> None:
    for item in batch.items:
        if item.state is TaskState.BINDING:
            raise LedgerArgument(f"status item of job {item.jid}: only a commit makes BINDING")
        if len(item.tasks) != len(item.rows):
            raise LedgerArgument(f"status item of job {item.jid}: tasks and rows differ in length")
        if item.adopted and not TaskState.BOUND <= item.state <= TaskState.RELEASING:
            rule = "adopted tasks are bound, running or releasing"
            raise LedgerArgument(f"status item of job {item.jid}: {rule}")
