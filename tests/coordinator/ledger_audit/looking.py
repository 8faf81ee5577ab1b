"""One look at a ledger, and damage written past all of its scripts."""

from __future__ import annotations

from typing import Any

from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.look import AuditPass, Question
from shared.ledger import records, replies
from shared.ledger.entries.repair import AuditPage, Table
from shared.ledger.keys import key
from shared.ledger.memory.books import Books, JobAccount, NodeBook, QueueBook, ThingBook
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger


async def page(ledger: Ledger, question: Question, after: str = "0") -> AuditPage:
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
    found = await ledger.audit_page(table, after=await ledger.log_tail(), fields=[field])
    return found.records[0][1]


async def write(ledger: Ledger, table: Table, field: str, value: Any) -> None:
    """A record past all scripts: of a server its bytes, of the double what it keeps. None: gone."""
    if isinstance(ledger, RedisLedger):
        if value is None:
            await ledger._writer.hdel(key(table.value), field)
        else:
            await ledger._writer.hset(key(table.value), field, value)
        return
    assert isinstance(ledger, LedgerDouble)
    kept, name, read = _of_double(ledger._books, table, field)
    if value is None:
        kept.pop(name, None)
    else:
        kept[name] = read(value)


def _of_double(books: Books, table: Table, field: str) -> tuple[dict[Any, Any], Any, Any]:
    """(where the double keeps it, under which key, how it is made of bytes)."""
    match table:
        case Table.NODE:
            return books.nodes, int(field), _node
        case Table.QUEUE:
            return books.queues, int(field), _queue
        case Table.JOB:
            return books.jobs, int(field), _job
        case Table.TASK:
            jid, _, tix = field.partition(".")
            task = int(jid), int(tix)
            return books.tasks, task, lambda value: records.unpack_task(value, *task)
        case Table.THING:
            thing = records.row_and_name(field.encode())
            return books.things, thing, _thing
        case Table.NOMINATION:
            jid_ = int(field)
            return books.nominations, jid_, lambda value: replies.unpack_nomination(jid_, value)
        case Table.DOMAIN:
            return books.domains, field, records.unpack_count
        case Table.CLASS:
            return books.classes, int(field), lambda value: records.unpack_class(value)[0]
        case Table.JOB_SPEC:
            return books.job_specs, int(field), bytes


def _node(value: bytes) -> NodeBook:
    version, spec, flat = records.unpack_node(value)
    return NodeBook(version, spec, [flat[i : i + 5] for i in range(0, len(flat), 5)])


def _thing(value: bytes) -> ThingBook:
    version, flat = records.unpack_thing(value)
    return ThingBook(version, [flat[i : i + 5] for i in range(0, len(flat), 5)])


def _queue(value: bytes) -> QueueBook:
    queue = records.unpack_queue(value)
    slots = range((len(value) // 8 - 3) // 8)
    parts = (queue.used, queue.capability, queue.guarantee, queue.leaving)
    lists = [
        [part.get(slot, -1 if i == 1 else 0) for slot in slots] for i, part in enumerate(parts)
    ]
    return QueueBook(queue.parent, *lists)


def _job(value: bytes) -> JobAccount:
    job = records.unpack_job(value)
    return JobAccount(job.spec_version, job.qid, list(job.groups), job.gone, job.top)
