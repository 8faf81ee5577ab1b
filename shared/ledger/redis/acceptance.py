"""Compare what a server holds with the expected ledger, and accept it by an operator's decision."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum

from redis.exceptions import WatchError

from shared.ledger.errors import LedgerIdentity
from shared.ledger.keys import key
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.access import Access
from shared.ledger.redis.calls import Calls, translated
from shared.ledger.redis.identity import LedgerIdentityNote
from shared.ledger.redis.log_entry import has_entry
from shared.ledger.redis.take_up import schema_of
from shared.ledger.schema import OLDEST, SCHEMA, SchemaState, TakeUpProgress

COUNTED = {"nodes": "node", "queues": "queue", "jobs": "job", "tasks": "task", "objects": "doc"}
"""Kind of object -> the hash whose fields are counted."""


class LedgerCondition(StrEnum):
    OURS = "ours"
    NEW = "new"
    """Empty, and no ledger was expected: the first coordinator creates one."""
    EMPTY = "empty"
    UNNAMED = "unnamed"
    """It holds records, but no cluster id."""
    ANOTHER = "another"
    OLD_COPY = "old copy"
    OTHER_SCHEMA = "other schema"
    """Written by a version whose records this one can neither read nor migrate."""


@dataclass(frozen=True, slots=True)
class ServerContent:
    """``log``: the newest id in its log, "0-0" for none. ``knows``: whether its log has, or had,
    the entry that was seen."""

    cluster: str
    schema: int
    log: str
    knows: bool
    counts: dict[str, int]
    holder: str = ""
    progress: TakeUpProgress | None = None
    """Progress of its migration to ``schema``; None where none is under way."""
    seconds_left: float = 0.0
    """Remaining seconds of the leader's lease; 0: there is no leader."""


def judge(state: ServerContent, expected: LedgerIdentityNote) -> LedgerCondition:
    if state.schema and not OLDEST <= state.schema <= SCHEMA:
        return LedgerCondition.OTHER_SCHEMA
    if not state.cluster:
        if any(state.counts.values()):
            return LedgerCondition.UNNAMED
        return LedgerCondition.EMPTY if expected.cluster else LedgerCondition.NEW
    if expected.cluster and state.cluster != expected.cluster:
        return LedgerCondition.ANOTHER
    return LedgerCondition.OURS if state.knows else LedgerCondition.OLD_COPY


class LedgerAcceptance(Calls):
    """Inspects a server without changing it; only :meth:`accept` writes."""

    def __init__(self, access: Access, *, timeout: float = 5.0) -> None:
        super().__init__(access, timeout=timeout)

    async def look(self, expected: LedgerIdentityNote) -> ServerContent:
        async with translated():
            cluster = await self._writer.hget(key("meta"), "cluster")
            state = await schema_of(self._writer)
            counts = {kind: await self._writer.hlen(key(name)) for kind, name in COUNTED.items()}
            log = "0-0"
            if await self._writer.exists(key("log")):
                stream = await self._writer.xinfo_stream(key("log"))
                log = str(stream["last-generated-id"], "utf-8")
            knows = await has_entry(self._writer, expected.log)
        leader = await self._run("leader", COORDINATOR)
        return ServerContent(
            cluster=str(cluster or b"", "utf-8"),
            schema=state.schema,
            progress=state.progress,
            log=log,
            knows=knows,
            counts=counts,
            holder=str(leader[1], "utf-8") if leader else "",
            seconds_left=leader[2] / 1e6 if leader else 0.0,
        )

    async def begin_anew(self, state: ServerContent) -> LedgerIdentityNote | None:
        """Empty the ledger and found another one in its place, under an id of its own. None where
        somebody else was faster, or it is led.

        For a ledger whose objects are kept elsewhere: what it had is found there again.
        """
        if state.seconds_left > 0:
            return None
        cluster, meta = secrets.token_hex(8), key("meta")
        async with translated(), self._writer.pipeline(transaction=True) as pipe:
            await pipe.watch(meta)
            before = str(await pipe.hget(meta, "cluster") or b"", "utf-8")
            old = [name async for name in pipe.scan_iter(match=key("*"), count=1000)]
            if before != state.cluster:
                return None
            pipe.multi()
            if old:
                pipe.delete(*old)
            pipe.hset(meta, "cluster", cluster)
            try:
                await pipe.execute()
            except WatchError:
                return None
        return LedgerIdentityNote(cluster)

    async def accept(
        self, state: ServerContent, expected: LedgerIdentityNote
    ) -> LedgerIdentityNote:
        """Accept the present content; nobody writes to it before a coordinator has read it. Returns
        the new expectation. Errors: LedgerIdentity where another named it since the inspection, or
        this version can neither read nor migrate it."""
        SchemaState(state.schema, state.progress).check()
        cluster = state.cluster or expected.cluster or secrets.token_hex(8)
        async with translated():
            await self._writer.hdel(key("meta"), "run")
            await self._writer.hsetnx(key("meta"), "cluster", cluster)
        now = await self.look(expected)
        if now.cluster != cluster:
            raise LedgerIdentity(f"somebody else named it {now.cluster} meanwhile; look again")
        return LedgerIdentityNote(cluster, now.log)
