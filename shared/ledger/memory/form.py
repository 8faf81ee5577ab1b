"""The double's checks of the form of a call, and copies of what it stores and hands out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutJob, PutPartition
from shared.ledger.errors import LedgerArgument
from shared.messages.messages import StatusBatch, TaskState
from shared.units.slots import LIMIT
from shared.units.things import DIMENSIONS, LONGEST_NAME, Things, Vector

K = TypeVar("K")

_MOST_SLOTS = 4096


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
        if item.restarts and (
            item.state is not TaskState.PENDING or len(item.restarts) != len(item.tasks)
        ):
            rule = "tasks begin anew as pending, each after an incarnation"
            raise LedgerArgument(f"status item of job {item.jid}: {rule}")
        check_devices(f"status item of job {item.jid}", item.devices)


def check_devices(subject: str, devices: Things, names_of_class: Collection[str] = ()) -> None:
    """``names_of_class``: things that the task's class names. A device among them is refused: the
    task would take it twice, and each amount would be compared with what is free by itself."""
    check_things(subject, [(name, amounts, 1) for name, amounts in devices])
    for name, _ in devices:
        if name in names_of_class:
            raise LedgerArgument(f"{subject}: its class names {name}")


# --- operations of intake ---------------------------------------------------------------------


def check_slots(subject: str, slots: Iterable[int]) -> None:
    for slot in slots:
        if not 0 <= slot < _MOST_SLOTS:
            raise LedgerArgument(f"{subject}: slot {slot} is outside 0..{_MOST_SLOTS - 1}")


def check_amounts(subject: str, amounts: Iterable[int], limit: int = LIMIT) -> None:
    for amount in amounts:
        if not 0 <= amount < limit:
            raise LedgerArgument(f"{subject}: {amount} is not a whole number below {limit}")


def check_things(subject: str, things: list[tuple[str, Vector, int]]) -> None:
    """``things``: (name, amounts, number of vectors that are concatenated in them)."""
    names: set[str] = set()
    for name, amounts, vectors in things:
        if not 0 < len(name.encode()) <= LONGEST_NAME or "\0" in name or name in names:
            raise LedgerArgument(
                f"{subject}: a thing without a proper name, or named twice: {name!r}"
            )
        names.add(name)
        if not vectors <= len(amounts) <= vectors * DIMENSIONS or len(amounts) % vectors:
            raise LedgerArgument(f"{subject}: {name} wants 1 to {DIMENSIONS} amounts")
        check_amounts(f"{subject}: an amount of {name}", amounts)


def checked_amounts(
    subject: str, pairs: list[tuple[int, int]], limit: int = LIMIT
) -> dict[int, int]:
    amounts = dict(pairs)
    check_slots(subject, amounts)
    check_amounts(subject, amounts.values(), limit)
    return amounts


def check_groups(op: PutJob) -> None:
    if not op.groups:
        raise LedgerArgument(f"job {op.jid}: groups are missing")
    for index, group in enumerate(op.groups):
        if not -1 <= group.parent < index or (index == 0 and group.parent != -1):
            raise LedgerArgument(f"job {op.jid}: the parent of group {index} must come before it")
        if group.minimum < 0:
            raise LedgerArgument(f"job {op.jid}: the minimum of group {index} must not be negative")
