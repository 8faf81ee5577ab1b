"""The ledger on a Redis-protocol server. Every change is one script call (see ``scripts/``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from redis.exceptions import ResponseError

from shared.ledger import codec, records, replies
from shared.ledger.entries.audit import AuditPage, Table
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply, PutPartition
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.ledger.errors import LedgerTrimmed
from shared.ledger.keys import BINDERS, key, log_position
from shared.ledger.read_changes import read_moved
from shared.ledger.redis import audit
from shared.ledger.redis.access import Access
from shared.ledger.redis.calls import translated
from shared.ledger.redis.log_entry import has_entry
from shared.ledger.redis.ownership import Ownership
from shared.ledger.residents import NO_TASKS, DeviceCodes, Residents, read_jobs, read_tasks
from shared.messages.messages import (
    CommitBatch,
    CommitReply,
    Rows,
    StatusBatch,
    StatusReply,
    Verdict,
)
from shared.slices import in_slices

_CHUNK = 2000
_PAGE = 1000
_MANY = 1000
"""Documents of a store whose packing is a callback of its own: 0.5 us each."""
_READER = "reader/"
"""Fields of the meta record: a follower of the log, and up to where it has read."""
_AUDIT = "audit"
"""The writer in whose name the audit reads; it never writes."""
_SLACK = 5.0
"""Seconds a blocking read may take longer than it asked for."""


class RedisLedger(Ownership):
    """Implements :class:`shared.ledger.protocol.Ledger`. Safe to share between tasks of one loop.

    ``where``: an address alone is enough where the server asks for nothing more. ``clock`` gives
    the time of nominations (None: the server's own); ``nonce`` the random part of epochs.
    ``cluster``: the id this ledger must have; "" accepts any, and founds one on an empty server.
    ``newest``: a log id that it must have had.
    """

    page_entries = audit.LOG_ENTRIES
    """Entries of the log that come with a page of the audit at most."""

    def __init__(
        self,
        where: str | Access,
        *,
        timeout: float = 5.0,
        cluster: str = "",
        newest: str = "0",
        clock: Callable[[], float] | None = None,
        nonce: Callable[[], str] | None = None,
    ) -> None:
        access = where if isinstance(where, Access) else Access(where)
        super().__init__(access, timeout=timeout, cluster=cluster, nonce=nonce)
        self._saw(newest)
        self._clock = clock

    def for_another_loop(self) -> RedisLedger:
        return RedisLedger(self._access, timeout=self._timeout, cluster=self._cluster)

    # --- writes -----------------------------------------------------------------------------

    async def commit(self, batch: CommitBatch) -> CommitReply:
        now = "" if self._clock is None else repr(float(self._clock()))
        statements = codec.pack_statements(batch.statements)
        head, body, replayed = await self._send("commit", batch, statements, now)
        if verdict := replies.refusal(head):
            return CommitReply(verdict, [], Rows([], []))
        fresh = replies.unpack_rows(head[-1], body)
        return CommitReply(Verdict.COMMITTED, replies.unpack_answers(head), fresh, replayed)

    async def record(self, batch: StatusBatch) -> StatusReply:
        head, body, replayed = await self._send("record", batch, codec.pack_status(batch))
        if verdict := replies.refusal(head):
            return StatusReply(verdict, [], Rows([], []))
        fresh = replies.unpack_rows(head[-1], body)
        return StatusReply(Verdict.COMMITTED, replies.unpack_applied(head), fresh, replayed)

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        ops = await in_slices(codec.packing_ops(batch.ops))
        documents = codec.pack_documents(batch.documents)
        if len(batch.documents) > _MANY:  # sealing and sending takes as long as packing
            await asyncio.sleep(0)
        head, body, replayed = await self._send("store", batch, ops, documents)
        if verdict := replies.refusal(head):
            return IntakeReply(verdict, Rows([], []))
        return IntakeReply(Verdict.COMMITTED, replies.unpack_rows(head[-1], body), replayed)

    async def _send(
        self,
        name: str,
        batch: CommitBatch | StatusBatch | IntakeBatch,
        *args: bytes | str,
    ) -> tuple[list[Any], bytes, bool]:
        """(unpacked answer, packed records, given before) of one batch."""
        answer = await self._run(
            name, batch.writer, str(batch.epoch), batch.sequence, batch.run_id, *args
        )
        head, body, replayed, logged = replies.open_reply(answer)
        self._saw(logged)
        return head, body, replayed

    # --- streams ----------------------------------------------------------------------------

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """Errors: LedgerTrimmed where entries after ``after`` are no longer there."""
        pipe = self._reader.pipeline(transaction=False)
        pipe.xread({key("log"): after}, count=count, block=_milliseconds(block))
        pipe.hget(key("meta"), "trimmed")
        streams, trimmed = await self._blocking(pipe.execute(), block)
        if trimmed and after != "0" and log_position(after) < log_position(trimmed.decode()):
            raise LedgerTrimmed(f"the log after {after} is gone: start again from a snapshot")
        entries = streams[0][1] if streams else []
        if entries:
            self._saw(entries[-1][0].decode())
        return [self._entry(i.decode(), fields, rows_only=rows_only) for i, fields in entries]

    def _entry(self, log_id: str, fields: dict[bytes, bytes], *, rows_only: bool) -> LogEntry:
        return replies.unpack_entry(log_id, fields, rows_only=rows_only)

    async def log_tail(self) -> str:
        async with translated():
            try:
                stream = await self._writer.xinfo_stream(key("log"))
            except ResponseError as error:
                if "no such key" in str(error):
                    return "0"
                raise
        last = str(stream["last-generated-id"], "utf-8")
        self._saw(last)
        return "0" if last == "0-0" else last

    async def has_entry(self, log_id: str) -> bool:
        async with translated():
            return await has_entry(self._writer, log_id)

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        if own:
            call = self._reader.xautoclaim(
                key("binds"), BINDERS, consumer, min_idle_time=0, count=count
            )
            entries = (await self._blocking(call, None))[1]
        else:
            call = self._reader.xreadgroup(
                BINDERS, consumer, {key("binds"): ">"}, count=count, block=_milliseconds(block)
            )
            streams = await self._blocking(call, block)
            entries = streams[0][1] if streams else []
        return [replies.unpack_binds(i.decode(), fields) for i, fields in entries if fields]

    async def ack_binds(self, ids: list[str]) -> None:
        if ids:
            async with translated():
                await self._writer.xack(key("binds"), BINDERS, *ids)

    async def _blocking(self, call: Awaitable[Any], block: float | None) -> Any:
        async with translated(), asyncio.timeout((block or 0.0) + self._timeout + _SLACK):
            return await call

    async def report_reader(self, reader: str, log_id: str | None) -> None:
        field = _READER + reader
        async with translated():
            if log_id is None:
                await self._writer.hdel(key("meta"), field)
            else:
                await self._writer.hset(key("meta"), field, log_id)

    async def readers(self) -> dict[str, str]:
        async with translated():
            fields = {name.decode(): value for name, value in (await self._hash("meta")).items()}
        return {
            name.removeprefix(_READER): value.decode()
            for name, value in fields.items()
            if name.startswith(_READER)
        }

    async def trim(self, *, log_before: str) -> None:
        async with translated():
            last = await self._writer.xrevrange(key("log"), max=f"({log_before}", count=1)
            if last:
                await self._writer.hset(key("meta"), "trimmed", last[0][0])
                await self._writer.xtrim(key("log"), minid=log_before, approximate=False)
            await self._trim_binds()

    async def _trim_binds(self) -> None:
        """Forget bind entries that were delivered and acknowledged; the oldest open one stays."""
        groups = await self._writer.xinfo_groups(key("binds"))
        for group in groups:
            if group["name"] != BINDERS.encode():
                continue
            milliseconds, number = log_position(group["last-delivered-id"].decode())
            lowest = (milliseconds, number + 1)
            pending = await self._writer.xpending(key("binds"), BINDERS)
            if pending["pending"]:
                lowest = min(lowest, log_position(pending["min"].decode()))
            await self._writer.xtrim(key("binds"), minid="{}-{}".format(*lowest), approximate=False)

    # --- reads ------------------------------------------------------------------------------

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        (await self.schema()).check_current()
        log_id = await self.log_tail()
        async with translated():
            nodes = sorted((await self._numbered("node")).items())
            queues = await self._numbered("queue")
            classes = await self._numbered("class")
            nominations = await self._numbered("nom")
            partition = await self._partition()
            records.check_seals(nodes, "node")
            domains = await self._hash("domain")
            thing_records = await self._hash("thing")
            records.check_seals(thing_records.items(), "thing")
            things = sorted(
                (*records.row_and_name(name), thing_records[name]) for name in thing_records
            )
            snapshot = Snapshot(
                log_id=log_id,
                nodes=Rows(
                    [row for row, _ in nodes],
                    [record for _, record in nodes],
                    things,
                ),
                node_specs=await self._numbered("nodespec"),
                queues={qid: records.unpack_queue(r, f"queue {qid}") for qid, r in queues.items()},
                queue_specs=await self._numbered("queuespec"),
                classes={
                    cid: records.unpack_class(r, f"class {cid}")[1] for cid, r in classes.items()
                },
                nominations={
                    jid: replies.unpack_nomination(jid, r) for jid, r in nominations.items()
                },
                objects={
                    name.decode(): spec for name, spec in (await self._hash("object")).items()
                },
                partition=partition,
                domains={name.decode(): records.unpack_count(r) for name, r in domains.items()},
            )
            if workload:
                await self._add_workload(snapshot)
        return snapshot

    async def _add_workload(self, snapshot: Snapshot) -> None:
        jobs = await self._numbered("job")
        snapshot.jobs.update({j: records.unpack_job(r, f"job {j}") for j, r in jobs.items()})
        snapshot.job_specs.update(await self._numbered("jobspec"))
        documents = await self._hash("doc")
        snapshot.documents.update((name.decode(), body) for name, body in sorted(documents.items()))
        for field, record in (await self._hash("task")).items():
            first, _, last = field.partition(b".")
            jid, tix = int(first), int(last)
            snapshot.tasks.setdefault(jid, {})[tix] = records.unpack_task(record, jid, tix)

    async def read_residents(self) -> Residents:
        async with translated():
            jobs, specs = await self._numbered("job"), await self._numbered("jobspec")
            codes = DeviceCodes()
            parts = [read_tasks(page, codes) async for page in self._pages("task")]
        tasks = np.concatenate([NO_TASKS, *parts], axis=1)
        return Residents(tasks, read_jobs(jobs, specs), codes)

    async def _hash(self, name: str) -> dict[bytes, bytes]:
        fields: dict[bytes, bytes] = {}
        async for page in self._pages(name):
            fields.update(page)
        return fields

    async def _pages(self, name: str) -> AsyncIterator[dict[bytes, bytes]]:
        """A whole hash, page by page, so that writers are not held up."""
        cursor = 0
        while True:
            cursor, page = await self._writer.hscan(key(name), cursor, count=_PAGE)
            yield page
            if not cursor:
                return

    async def _numbered(self, name: str) -> dict[int, bytes]:
        return {int(field): value for field, value in (await self._hash(name)).items()}

    async def audit_page(
        self,
        table: Table,
        *,
        after: str,
        cursor: int = 0,
        count: int = 500,
        fields: Sequence[str] = (),
    ) -> AuditPage:
        most = self.page_entries, audit.LOG_BYTES
        numbers = *most, audit.table_number(table), cursor, count
        answer = await self._run("page", _AUDIT, after, *numbers, *fields)
        return audit.read_page(answer, after)

    async def open_binds(self, after: str, *, count: int) -> tuple[list[BindEntry], str]:
        return audit.read_open(await self._run("open", _AUDIT, after, count))

    async def read_nominations(self) -> dict[int, Nomination]:
        async with translated():
            packed = await self._numbered("nom")
        return {jid: replies.unpack_nomination(jid, record) for jid, record in packed.items()}

    async def read_domains(self) -> dict[str, int]:
        async with translated():
            counters = await self._hash("domain")
        return {name.decode(): records.unpack_count(record) for name, record in counters.items()}

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """Jobs the ledger does not know are left out."""
        tasks_of: dict[int, tuple[JobRecord, dict[int, TaskRecord]]] = {}
        async with translated():
            read = zip(jids, await self._fields("job", jids), strict=True)
            jobs = [(jid, records.unpack_job(record)) for jid, record in read if record is not None]
            names = [records.task_field(jid, tix) for jid, job in jobs for tix in range(job.top)]
            values = iter(await self._fields("task", names))
            for jid, job in jobs:
                tasks = enumerate(islice(values, job.top))
                tasks_of[jid] = (job, {t: records.unpack_task(r, jid, t) for t, r in tasks if r})
        return tasks_of

    async def read_moved(self, changed: ChangedKeys) -> Snapshot:
        async with translated():
            return await read_moved(self._fields, self._partition, changed)

    async def read_nodes(self, rows: list[int]) -> Rows:
        async with translated():
            pairs = zip(rows, await self._fields("node", rows), strict=True)
            present = [(row, record) for row, record in pairs if record is not None]
            records.check_seals(present, "node")
        return Rows([row for row, _ in present], [record for _, record in present])

    async def _partition(self) -> PutPartition | None:
        packed = await self._writer.get(key("partition"))
        return replies.unpack_partition(packed) if packed else None

    async def _fields(
        self, name: str, fields: Sequence[int] | Sequence[bytes] | Sequence[str]
    ) -> list[bytes | None]:
        values: list[bytes | None] = []
        for first in range(0, len(fields), _CHUNK):
            values += await self._writer.hmget(key(name), fields[first : first + _CHUNK])
        return values


def _milliseconds(block: float | None) -> int | None:
    return max(1, int(block * 1000)) if block else None
