"""The client of a server in memory, in the place of the library's: the commands that
:class:`shared.ledger.redis.client.RedisLedger` uses, with the same answers. No call waits."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from shared.ledger.memory.server import MemoryServer
from shared.ledger.memory.streams import ConsumerGroup, Entry, id_of, number_of

Entries = list[tuple[bytes, dict[bytes, bytes]]]
"""Ids and fields of entries."""
Field = bytes | str | int


class MemoryClient:
    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    async def execute_command(self, name: str, *args: Any) -> Any:
        """The two that the ledger's client sends by name: SCRIPT LOAD and EVALSHA."""
        return self._server.load(*args) if name == "SCRIPT LOAD" else self._server.evalsha(*args)

    async def info(self, section: str) -> dict[str, str]:
        return {"run_id": self._server.run_id}

    def pipeline(self, *, transaction: bool) -> _Pipeline:
        return _Pipeline(self)

    # --- hashes ---------------------------------------------------------------------------------

    async def hget(self, key: bytes, field: Field) -> bytes | None:
        value: bytes | None = self._server.call(b"HGET", key, _bytes(field))
        return value

    async def hmget(self, key: bytes, *fields: Field | Sequence[Field]) -> list[bytes | None]:
        values: list[bytes | None] = self._server.call(b"HMGET", key, *_flattened(fields))
        return values

    async def hset(self, key: bytes, field: Field, value: Field) -> None:
        self._server.call(b"HSET", key, _bytes(field), _bytes(value))

    async def hdel(self, key: bytes, *fields: Field) -> None:
        self._server.call(b"HDEL", key, *_flattened(fields))

    async def hscan(self, key: bytes, cursor: int, *, count: int) -> tuple[int, dict[bytes, bytes]]:
        """The whole hash as one page: there is no other caller to be held up."""
        return 0, self._server.hash(key)

    async def get(self, key: bytes) -> bytes | None:
        return self._server.text(key)

    # --- streams --------------------------------------------------------------------------------

    async def xinfo_stream(self, key: bytes) -> dict[str, bytes]:
        return {"last-generated-id": id_of(self._server.stream(key).last)}

    async def xinfo_groups(self, key: bytes) -> list[dict[str, bytes]]:
        return [
            {"name": name, "last-delivered-id": id_of(group.delivered)}
            for name, group in self._server.stream(key).groups.items()
        ]

    async def xgroup_create(self, key: bytes, name: str, *, id: str, mkstream: bool) -> None:
        groups = self._server.stream(key).groups
        if name.encode() in groups:
            raise ResponseError("BUSYGROUP Consumer Group name already exists")
        groups[name.encode()] = ConsumerGroup(number_of(id))

    async def xpending(self, key: bytes, name: str) -> dict[str, Any]:
        pending = self._group(key, name).pending
        return {"pending": len(pending), "min": id_of(min(pending)) if pending else None}

    async def xrange(self, key: bytes, first: str = "0", last: str = "+") -> Entries:
        return _with_ids(self._server.stream(key).between(first.encode(), last.encode()))

    async def xrevrange(self, key: bytes, *, max: str, count: int) -> Entries:
        entries = self._server.stream(key).between(b"0", max.encode())
        return _with_ids(entries[: -count - 1 : -1])

    async def xtrim(self, key: bytes, *, minid: str, approximate: bool) -> None:
        self._server.stream(key).trim(minid.encode())

    async def xread(
        self, streams: dict[bytes, str], *, count: int, block: int | None
    ) -> list[tuple[bytes, Entries]]:
        [(key, after)] = streams.items()
        entries = self._server.stream(key).after(number_of(after), count)
        return [(key, _with_ids(entries))] if entries else []

    async def xreadgroup(
        self, name: str, consumer: str, streams: dict[bytes, str], *, count: int, block: int | None
    ) -> list[tuple[bytes, Entries]]:
        (key,) = streams
        group = self._group(key, name)
        entries = self._server.stream(key).after(group.delivered, count)
        if not entries:
            return []
        group.delivered = entries[-1][0]
        group.pending.update(number for number, _ in entries)
        return [(key, _with_ids(entries))]

    async def xautoclaim(
        self, key: bytes, name: str, consumer: str, *, min_idle_time: int, count: int
    ) -> tuple[bytes, Entries]:
        pending = self._group(key, name).pending
        if not pending:  # most often: whoever looks back has acknowledged everything
            return b"0-0", []
        entries = self._server.stream(key).between(id_of(min(pending)), id_of(max(pending)))
        return b"0-0", _with_ids([entry for entry in entries if entry[0] in pending][:count])

    async def xack(self, key: bytes, name: str, *ids: str) -> None:
        self._group(key, name).pending.difference_update(map(number_of, ids))

    def _group(self, key: bytes, name: str) -> ConsumerGroup:
        return self._server.stream(key).group(name.encode())


class _Pipeline:
    """Its commands are carried out by ``execute``, in their order."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client
        self._calls: list[Awaitable[Any]] = []

    def xread(self, streams: dict[bytes, str], *, count: int, block: int | None) -> None:
        self._calls.append(self._client.xread(streams, count=count, block=block))

    def hget(self, key: bytes, field: Field) -> None:
        self._calls.append(self._client.hget(key, field))

    async def execute(self) -> list[Any]:
        return [await call for call in self._calls]


def _bytes(value: Field) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _flattened(fields: Sequence[Field | Sequence[Field]]) -> list[bytes]:
    """Fields one by one, or one sequence of them: the library takes either."""
    if fields and not isinstance(fields[0], Field):
        return [_bytes(field) for field in fields[0]]
    return [_bytes(field) for field in fields if isinstance(field, Field)]


def _with_ids(entries: Sequence[Entry]) -> Entries:
    return [(id_of(number), fields) for number, fields in entries]
