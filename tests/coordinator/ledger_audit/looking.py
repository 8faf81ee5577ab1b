"""One look at a ledger, and damage written past all of its scripts."""

from __future__ import annotations

from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.look import AuditPass, PageRequest
from shared.ledger.entries.audit import AuditPage, Table
from shared.ledger.keys import key
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger


async def page(ledger: Ledger, question: PageRequest, after: str = "0") -> AuditPage:
    return await ledger.audit_page(
        question.table,
        after=after,
        cursor=question.cursor,
        count=question.count,
        fields=question.fields,
    )


async def look(ledger: Ledger) -> AuditPass:
    """Without giving way."""
    looking = AuditPass(since=await ledger.log_tail())
    while (question := looking.question) is not None:
        for _ in looking.take(await page(ledger, question, looking.log_id)):
            pass
    for _ in looking.compare():
        pass
    for question in looking.specs_wanted():
        looking.take_specs(question, await page(ledger, question, looking.log_id))
    return looking


async def findings(ledger: Ledger) -> list[Finding]:
    return (await look(ledger)).findings


async def record(ledger: Ledger, table: Table, field: str) -> bytes:
    """A record as it is stored."""
    audit_page = await ledger.audit_page(table, after=await ledger.log_tail(), fields=[field])
    return audit_page.records[0][1]


async def write(ledger: Ledger, table: Table, field: str, value: bytes | None) -> None:
    """A record past all scripts. None: gone."""
    assert isinstance(ledger, RedisLedger)
    if value is None:
        await ledger._writer.hdel(key(table.value), field)
    else:
        await ledger._writer.hset(key(table.value), field, value)
