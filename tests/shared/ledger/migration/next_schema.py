"""A made-up next version, with a schema of its own: the worked example of a migration.

Three steps stand for what a real one does. None can be done twice without a trace: numbers and
versions would rise again.
"""

from __future__ import annotations

import pytest

from shard_worker.worker import worker_version
from shared.ledger import migration, schema
from shared.ledger.entries.stored import Write
from shared.ledger.migration import Convert, MigrationStep, RecordReader
from shared.ledger.records import pack_node, unpack_node
from shared.ledger.redis import acceptance, ownership
from shared.ledger.schema import SCHEMA
from shared.records.specs import NUMBERS_KEY, decode_numbers, encode_numbers

NEXT = SCHEMA + 1
RESERVED = 1000
"""From the next schema on, so many more numbers of jobs, queues and classes are left out."""

NOTE = "note"
"""A field of the meta record that the next schema does without."""


async def _numbers(_: RecordReader) -> Convert:
    """Convert one record of a hash; all others stay."""

    def convert(name: bytes, value: bytes) -> list[Write]:
        if name != NUMBERS_KEY.encode():
            return []
        jid, qid, cid = (number + RESERVED for number in decode_numbers(value))
        return [Write("object", name, encode_numbers(jid, qid, cid))]

    return convert


async def _nodes(reader: RecordReader) -> Convert:
    """Convert every record, by something that is read from another hash before."""
    written = (await reader.values("object", [NUMBERS_KEY.encode()]))[0] is not None

    def convert(name: bytes, value: bytes) -> list[Write]:
        version, spec_version, slots = unpack_node(value)
        return [Write("node", name, pack_node(version + written, spec_version, slots))]

    return convert


async def _note(_: RecordReader) -> Convert:
    """Delete a record."""

    def convert(name: bytes, _: bytes) -> list[Write]:
        return [Write("meta", name, None)] if name == NOTE.encode() else []

    return convert


STEPS = (
    MigrationStep("numbers", "object", _numbers),
    MigrationStep("versions of nodes", "node", _nodes),
    MigrationStep("the note", "meta", _note),
)


def become_next_version(patch: pytest.MonkeyPatch) -> None:
    """From now on the code in this process has the next schema, and migrates today's to it."""
    for module in (schema, ownership, acceptance, worker_version):
        patch.setattr(module, "SCHEMA", NEXT)
    patch.setitem(migration.STEPS, SCHEMA, STEPS)
