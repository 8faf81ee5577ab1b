"""The migration steps from schema 4 to schema 5.

Later steps may rely on earlier ones being done; none may change what the ``prepare`` of an earlier
step reads (see :class:`shared.ledger.migration.take_up.MigrationStep`).
"""

from __future__ import annotations

from shared.codec.checked import Malformed
from shared.ledger.errors import LedgerAltered
from shared.ledger.migration.ports_4 import (
    Ports,
    class_without_ports,
    node_without_ports,
    ports_among,
    queue_without_ports,
    slots_without_ports,
)
from shared.ledger.migration.take_up import Convert, MigrationStep, RecordReader, Write
from shared.ledger.records import thing_field
from shared.records.specs import (
    NUMBERS_KEY,
    SLOTS_KEY,
    decode_numbers_4,
    decode_slots,
    encode_numbers,
    encode_slots,
)
from shared.units.slots import Slots


async def _numbers(reader: RecordReader) -> Convert:
    """Write the next number of a task class: classes are deleted from schema 5 on, so it can no
    longer be derived."""
    next_cid = 1 + max(map(int, await reader.names("class")), default=-1)

    def convert(name: bytes, value: bytes) -> list[Write]:
        if name != NUMBERS_KEY.encode():
            return []
        try:
            next_jid, next_qid = decode_numbers_4(value)
        except Malformed as error:
            raise LedgerAltered(f"object {NUMBERS_KEY}", str(error)) from error
        return [Write("object", name, encode_numbers(next_jid, next_qid, next_cid))]

    return convert


async def _ports(reader: RecordReader) -> Ports:
    """The slots that are host ports, recognized by name. The names change in the last step, so
    every step finds them here, begun anew or not."""
    (names,) = await reader.values("object", [SLOTS_KEY.encode()])
    return {} if names is None else ports_among(_names(names))


def _names(value: bytes) -> list[str]:
    try:
        return decode_slots(value).names
    except Malformed as error:
        raise LedgerAltered(f"object {SLOTS_KEY}", str(error)) from error


async def _nodes(reader: RecordReader) -> Convert:
    ports = await _ports(reader)

    def convert(name: bytes, value: bytes) -> list[Write]:
        record, things = node_without_ports(value, ports, f"node {name.decode()}")
        new_things = [Write("thing", thing_field(int(name), port), thing) for port, thing in things]
        return [Write("node", name, record), *new_things] if ports else []

    return convert


async def _classes(reader: RecordReader) -> Convert:
    ports = await _ports(reader)

    def convert(name: bytes, value: bytes) -> list[Write]:
        record_name = f"class {name.decode()}"
        try:
            record = class_without_ports(value, ports, record_name) if ports else value
        except Malformed as error:
            raise LedgerAltered(record_name, str(error)) from error
        return [Write("class", name, record)] if record != value else []

    return convert


async def _queues(reader: RecordReader) -> Convert:
    ports = await _ports(reader)

    def convert(name: bytes, value: bytes) -> list[Write]:
        if not ports:
            return []
        return [Write("queue", name, queue_without_ports(value, ports, f"queue {name.decode()}"))]

    return convert


async def _implied(_: RecordReader) -> Convert:
    """Delete the record of implied capacities: it was 1 of each port."""

    def convert(name: bytes, _: bytes) -> list[Write]:
        return [Write("meta", name, None)] if name == b"implied" else []

    return convert


async def _slots(_: RecordReader) -> Convert:
    def convert(name: bytes, value: bytes) -> list[Write]:
        if name != SLOTS_KEY.encode():
            return []
        remaining = Slots(slots_without_ports(_names(value)))
        return [Write("object", name, encode_slots(remaining))]

    return convert


STEPS = (
    MigrationStep("numbers", "object", _numbers),
    MigrationStep("host ports of nodes", "node", _nodes),
    MigrationStep("host ports of task classes", "class", _classes),
    MigrationStep("host ports of queues", "queue", _queues),
    MigrationStep("what ports implied", "meta", _implied),
    MigrationStep("names of slots", "object", _slots),
)
