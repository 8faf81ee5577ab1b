"""The writes of a new leader before it leads: recounted records, and those of a migration
(:func:`shared.ledger.migration.take_up`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any

import msgpack

from shared.ledger.entries.stored import BindEntry, Write
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.keys import ORDER, key
from shared.ledger.migration import Stage
from shared.ledger.protocol import COORDINATOR
from shared.ledger.records import pack_devices
from shared.ledger.schema import SchemaState, TakeUpProgress
from shared.messages.messages import Epoch

_NUMBERS = {name: number for number, name in enumerate(ORDER, 1)}
"""The number of each key among those that every script gets."""

_PAGE = 1000


async def schema_of(client: Any) -> SchemaState:
    return SchemaState.of(*await client.hmget(key("meta"), "schema", "take_up"))


class TakingUp:
    """``run`` calls a script; ``client`` reads. Errors: Deposed where ``leader`` does not lead any
    more; LedgerUnavailable, after which the migration resumes from its progress in the ledger."""

    def __init__(self, run: Callable[..., Awaitable[Any]], client: Any, *, leader: Epoch) -> None:
        self._run = run
        self._client = client
        self._leader = leader

    async def stage(self) -> Stage:
        state = await schema_of(self._client)
        state.check()
        return state.schema, state.progress

    async def names(self, name: str) -> list[bytes]:
        fields: set[bytes] = set()
        cursor = 0
        while True:
            cursor, page = await self._client.hscan(key(name), cursor, count=_PAGE)
            fields.update(page)
            if not cursor:
                return list(fields)

    async def values(self, name: str, names: Sequence[bytes]) -> list[bytes | None]:
        records: list[bytes | None] = await self._client.hmget(key(name), names) if names else []
        return records

    async def write_slice(
        self, before: Stage, after: Stage, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        flat = [[_NUMBERS[w.key], w.name, False if w.value is None else w.value] for w in writes]
        packed = msgpack.packb(flat, use_bin_type=False)
        entries = msgpack.packb([*map(_content, binds)], use_bin_type=False)
        arguments = (*_fields(before), *_fields(after), packed, entries)
        code = await self._run("take_up", COORDINATOR, str(self._leader), *arguments)
        if code == 1:
            raise Deposed(f"epoch {self._leader} does not lead any more")
        if code == 2:
            raise LedgerUnavailable("the take-up is further than it was, or begun by another")


def _content(entry: BindEntry) -> list[list[Any]]:
    """An entry without evictions, as :func:`shared.ledger.replies.unpack_binds` reads it."""
    binds = ((jid, cid, len(tasks), *tasks, *rows) for jid, cid, tasks, rows in entry.binds)
    return [
        [*chain.from_iterable(binds)],
        [n for task, incarnation in entry.incarnations.items() for n in (*task, incarnation)],
        [],
        [v for task, devices in entry.devices.items() for v in (*task, pack_devices(devices))],
    ]


def _fields(stage: Stage) -> tuple[str, str]:
    schema, progress = stage
    return str(schema), progress.encode() if isinstance(progress, TakeUpProgress) else ""
