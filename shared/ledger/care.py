"""What a server holds, whether it is the ledger that was expected, and accepting it as it is."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum

from shared.ledger.access import Access
from shared.ledger.calls import Calls, translated
from shared.ledger.errors import LedgerIdentity
from shared.ledger.identity import Known
from shared.ledger.keys import key, log_position
from shared.ledger.ownership import SCHEMA, check_schema
from shared.ledger.protocol import COORDINATOR

COUNTED = {"nodes": "node", "queues": "queue", "jobs": "job", "tasks": "task", "objects": "doc"}
"""What is counted, and the key that has it."""


class Condition(StrEnum):
    OURS = "ours"
    NEW = "new"
    """Empty, and nothing was expected: the first coordinator founds it."""
    EMPTY = "empty"
    UNNAMED = "unnamed"
    """It holds something, but not whose it is."""
    ANOTHER = "another"
    OLD_COPY = "old copy"
    OTHER_SCHEMA = "other schema"
    """Another version wrote it, which this one cannot read."""


@dataclass(frozen=True, slots=True)
class Found:
    """``log``: the newest id in its log, "0-0" where it never had one. ``knows``: its log has, or
    had, what was seen in it."""

    cluster: str
    schema: int
    log: str
    knows: bool
    counts: dict[str, int]
    holder: str = ""
    seconds_left: float = 0.0
    """How long whoever leads goes on to lead; 0: nobody does."""


def judge(found: Found, known: Known) -> Condition:
    if found.schema not in {0, SCHEMA}:
        return Condition.OTHER_SCHEMA
    if not found.cluster:
        if any(found.counts.values()):
            return Condition.UNNAMED
        return Condition.EMPTY if known.cluster else Condition.NEW
    if known.cluster and found.cluster != known.cluster:
        return Condition.ANOTHER
    return Condition.OURS if found.knows else Condition.OLD_COPY


class Care(Calls):
    """Looks at a server without changing it, until :meth:`accept`."""

    def __init__(self, access: Access, *, timeout: float = 5.0) -> None:
        super().__init__(access, timeout=timeout)

    async def look(self, known: Known) -> Found:
        async with translated():
            cluster, schema = await self._writer.hmget(key("meta"), "cluster", "schema")
            counts = {what: await self._writer.hlen(key(name)) for what, name in COUNTED.items()}
            log = "0-0"
            if await self._writer.exists(key("log")):
                stream = await self._writer.xinfo_stream(key("log"))
                log = str(stream["last-generated-id"], "utf-8")
            knows = await self._knows(known.log)
        leader = await self._run("leader", COORDINATOR)
        return Found(
            cluster=str(cluster or b"", "utf-8"),
            schema=int(schema or 0),
            log=log,
            knows=knows,
            counts=counts,
            holder=str(leader[1], "utf-8") if leader else "",
            seconds_left=leader[2] / 1e6 if leader else 0.0,
        )

    async def _knows(self, log_id: str) -> bool:
        """Entries may have been added since a copy was made: the id itself must be there, or have
        been cut off."""
        if log_position(log_id) == (0, 0):
            return True
        cut = await self._writer.hget(key("meta"), "trimmed")
        if cut and log_position(log_id) <= log_position(cut.decode()):
            return True
        return bool(await self._writer.xrange(key("log"), log_id, log_id))

    async def accept(self, found: Found, known: Known) -> Known:
        """Take what is there as ours; nothing is written to it by anyone before a coordinator has
        read it. Returns what is to be expected from now on. Errors: LedgerIdentity where it moved
        since it was looked at, or another version wrote it."""
        check_schema(found.schema)
        cluster = found.cluster or known.cluster or secrets.token_hex(8)
        async with translated():
            await self._writer.hdel(key("meta"), "run")
            await self._writer.hsetnx(key("meta"), "cluster", cluster)
        now = await self.look(known)
        if now.cluster != cluster:
            raise LedgerIdentity(f"somebody else named it {now.cluster} meanwhile; look again")
        return Known(cluster, now.log)
