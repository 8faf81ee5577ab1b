"""The ledger in memory, with the same answers as the real one and no I/O: for the seeded run.

It never waits, so a call can be driven to its end without an event loop
(:func:`shared.ledger.memory.synchronous.at_once`). A property test holds it equal to the scripts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from shared.codec.packed import replace
from shared.ledger import codec
from shared.ledger.entries.changes import Moved, part_of
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.log import CommitEntry, EpochEntry, IntakeEntry, LogEntry, StatusEntry
from shared.ledger.entries.repair import AuditPage, RepairBatch, RepairReply, Table
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import BindEntry, Evicted, JobRecord, TaskRecord
from shared.ledger.errors import Deposed, LedgerBehind
from shared.ledger.memory.books import Books, Overlay
from shared.ledger.memory.form import check_items, copy_partition, update_specs
from shared.ledger.memory.judge import Judge, named_things
from shared.ledger.memory.log import Log, number_of
from shared.ledger.memory.old_copy import LedgerCopy
from shared.ledger.memory.ownership import WriterOwnership
from shared.ledger.memory.repair import Repairing, page_of
from shared.ledger.memory.store import Specs, Storing, apply_item
from shared.ledger.protocol import Leader
from shared.ledger.redis.audit import refused
from shared.ledger.residents import Residents, residents_of
from shared.ledger.schema import SCHEMA, SchemaState, TakeUpProgress
from shared.messages.messages import (
    CommitBatch,
    CommitReply,
    Epoch,
    Rows,
    StatusBatch,
    StatusReply,
    Verdict,
)
from shared.units.things import Things

WINDOW = 64
"""Sequences per writer whose answers are kept."""
_PAGE_ENTRIES = 16
"""Entries of the log that come with a page of the audit: few, so that a seeded run meets a log that
goes on beyond them."""

Batch = CommitBatch | StatusBatch | IntakeBatch | RepairBatch
First = tuple[list[Any], list[int]]
"""The first answer to a batch: answers or applied tasks (by its kind), and rows."""


_LASTING = ("_books", "_windows", "_binds", "_delivered", "_pending", "_readers")
"""Part of a copy besides the log and the ownership of writers. Bind ids continue, as the log's
do."""


class LedgerDouble:
    """Implements :class:`shared.ledger.protocol.Ledger` on plain dicts.

    ``clock`` gives the time of nominations and leases; nonces come from ``rng``. Log ids are 1-0,
    2-0, ...
    """

    def __init__(
        self, rng: random.Random | None = None, *, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._rng = rng or random.Random(0)
        self._clock = clock
        self._books = Books()
        self.ownership = WriterOwnership(clock=clock, nonce=self._nonce)
        self._windows: dict[str, dict[int, First]] = {}
        self._log = Log()
        self._binds: list[BindEntry] = []
        self._bind_count = 0
        self._delivered = 0
        self._pending: set[str] = set()
        self._readers: dict[str, str] = {}

    def _nonce(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    # --- ownership --------------------------------------------------------------------------

    async def open(self) -> str:
        return "double"

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        if not self.ownership.leads(leader):
            raise Deposed(f"epoch {leader} does not lead any more")
        if not self._log.has(after):
            raise LedgerBehind(f"the ledger's log does not have {after}, which was seen in it")
        self.ownership.blessed = self.ownership.run
        for writer, epoch in sorted(self.ownership.untold.items()):
            self._log.append(EpochEntry(self._log.next_id(), writer, epoch))
        self.ownership.untold.clear()
        return self.ownership.run

    async def schema(self) -> SchemaState:
        return SchemaState(SCHEMA)

    async def take_up(self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]) -> None:
        """No effect: a double does not outlive its process, so its records are of this version."""

    async def run_id(self) -> str:
        return self.ownership.blessed

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        return self.ownership.renew(writer, epoch, lease=lease)

    async def release(self, writer: str, epoch: Epoch) -> None:
        self.ownership.release(writer, epoch)

    async def leader(self) -> Leader | None:
        return self.ownership.leader()

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        epoch = self.ownership.claim(writer, leader=leader, lease=lease, holder=holder)
        self._windows.pop(writer, None)
        if writer not in self.ownership.untold:  # a run that nobody has accepted gets no entries
            self._log.append(EpochEntry(self._log.next_id(), writer, epoch))
        return epoch

    def restart(self) -> None:
        """Behave as if the server had been killed and restarted: everything durable, the new run
        not blessed."""
        self.ownership.restart()

    def copy(self) -> LedgerCopy:
        lasting = {name: deepcopy(getattr(self, name)) for name in _LASTING}
        return LedgerCopy(lasting, self.ownership.copy(), self._log.copy())

    def bring_back(self, copy: LedgerCopy) -> None:
        """Behave as if the server had been killed and restarted from a copy of its data."""
        for name, value in copy.lasting.items():
            setattr(self, name, deepcopy(value))
        self.ownership.bring_back(copy.ownership)
        self._log.bring_back(copy.log)

    # --- writes -----------------------------------------------------------------------------

    async def commit(self, batch: CommitBatch) -> CommitReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return CommitReply(verdict, first[0], self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return CommitReply(verdict, [], Rows([], []))
        # Through the bytes, as to the server: what the format cannot carry fails here, too.
        statements = codec.unpack_statements(codec.pack_statements(batch.statements))
        overlay = Overlay(self._books)
        judge = Judge(overlay, self._clock())
        answers = [judge.judge(s) for s in statements]
        fresh = self._write(overlay)
        reported = {(row, name) for row, name, _ in fresh.things}
        named = named_things(overlay, statements, judge.asked)
        shown_things = overlay.shown_things(
            {key: n for key, n in named.items() if key not in reported}
        )
        if statements:
            self._log.append(CommitEntry(*self._head(batch), judge.accepted, judge.refused, fresh))
        if judge.binds or judge.evicts:
            self._add_binds(judge.binds, judge.lives, judge.evicts, judge.devices)
        # As they are stored: in the overlay a refused statement may have left them with more slots.
        nodes = self._books.nodes
        extra = [row for row in sorted(judge.asked - set(fresh.rows)) if row in nodes]
        rows = Rows(
            [*fresh.rows, *extra],
            [*fresh.records, *(nodes[row].packed() for row in extra)],
            [*fresh.things, *shown_things],
        )
        self._remember(batch, (answers, rows.rows))
        return CommitReply(Verdict.COMMITTED, answers, rows)

    async def record(self, batch: StatusBatch) -> StatusReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return StatusReply(verdict, first[0], self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return StatusReply(verdict, [], Rows([], []))
        check_items(batch)
        overlay = Overlay(self._books)
        items = [apply_item(overlay, item) for item in batch.items]
        overlay.begin()
        lapsed = [jid for jid in batch.lapsed if overlay.drop_nomination(jid)]
        fresh = self._write(overlay)
        changed = [item for item in items if item.tasks]
        if changed or lapsed:
            self._log.append(StatusEntry(*self._head(batch), changed, lapsed, fresh))
        applied = [list(item.tasks) for item in items]
        self._remember(batch, (applied, fresh.rows))
        return StatusReply(Verdict.COMMITTED, applied, fresh)

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return IntakeReply(verdict, self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return IntakeReply(verdict, Rows([], []))
        ops = codec.unpack_ops(codec.pack_ops(batch.ops))
        storing = Storing(Overlay(self._books))
        for op in ops:
            storing.apply(op)
        fresh = self._write(storing.overlay)
        self._keep(storing.specs)
        documents = dict(batch.documents)
        update_specs(self._books.documents, documents)
        if ops or documents:
            self._log.append(
                IntakeEntry(*self._head(batch), ops, fresh, storing.dropped, list(documents))
            )
        self._remember(batch, ([], fresh.rows))
        return IntakeReply(Verdict.COMMITTED, fresh)

    async def repair(self, batch: RepairBatch) -> RepairReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return RepairReply(verdict, first[0], self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return refused(verdict)
        repairing = Repairing(Overlay(self._books), batch.request, self._open_binds())
        results = repairing.judge()
        fresh = self._write(repairing.overlay)
        if fresh.rows or repairing.ended:
            self._log.append(StatusEntry(*self._head(batch), [], repairing.ended, fresh))
        if repairing.binds:
            self._add_binds(repairing.binds, repairing.lives, [], repairing.devices)
        self._remember(batch, (results, fresh.rows))
        return RepairReply(Verdict.COMMITTED, results, fresh)

    def _gate(self, batch: Batch) -> tuple[Verdict, First | None]:
        """The verdict on the whole batch, and the first answer where the batch was sent before."""
        if not self.ownership.blessed == self.ownership.run == batch.run_id:
            return Verdict.RUN, None
        if not self.ownership.may_write(batch.writer, batch.epoch):
            return Verdict.EPOCH, None
        window = self._windows.setdefault(batch.writer, {})
        if batch.sequence in window:
            return Verdict.COMMITTED, window[batch.sequence]
        if window and batch.sequence <= max(window) - WINDOW:
            return Verdict.OLD, None
        return Verdict.COMMITTED, None

    def _head(self, batch: Batch) -> tuple[str, str, Epoch, int]:
        """What an entry of the log begins with: its id, and whose batch it is."""
        return self._log.next_id(), batch.writer, batch.epoch, batch.sequence

    def _remember(self, batch: Batch, first: First) -> None:
        window = self._windows[batch.writer]
        window[batch.sequence] = first
        newest = max(window)
        for sequence in [s for s in window if s <= newest - WINDOW]:
            del window[sequence]

    def _write(self, overlay: Overlay) -> Rows:
        rows, things = overlay.moved_rows(), overlay.moved_things()
        overlay.write()
        return replace(self._current(rows), things=things)

    def _current(self, rows: list[int]) -> Rows:
        return Rows(list(rows), [self._books.nodes[row].packed() for row in rows])

    def _keep(self, specs: Specs) -> None:
        books = self._books
        update_specs(books.class_specs, specs.classes)
        update_specs(books.node_specs, specs.nodes)
        update_specs(books.queue_specs, specs.queues)
        update_specs(books.job_specs, specs.jobs)
        update_specs(books.objects, specs.objects)
        books.partition = specs.partition or books.partition

    # --- streams ----------------------------------------------------------------------------

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """``block`` has no meaning here, because nothing can happen while the caller waits; nor has
        ``rows_only``, because nothing is decoded."""
        return self._log.after(after, count)

    @property
    def length(self) -> int:
        """Number of entries the log ever had: rises with every change."""
        return self._log.issued

    async def log_tail(self) -> str:
        return self._log.tail

    async def has_entry(self, log_id: str) -> bool:
        return self._log.has(log_id)

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        if own:
            return [entry for entry in self._binds if entry.id in self._pending][:count]
        fresh = [entry for entry in self._binds if number_of(entry.id) > self._delivered][:count]
        if fresh:
            self._delivered = number_of(fresh[-1].id)
            self._pending.update(entry.id for entry in fresh)
        return fresh

    def _add_binds(
        self,
        binds: list[tuple[int, int, list[int], list[int]]],
        lives: dict[tuple[int, int], int],
        evicts: list[Evicted],
        devices: dict[tuple[int, int], Things],
    ) -> None:
        self._bind_count += 1
        self._binds.append(BindEntry(f"{self._bind_count}-0", binds, lives, evicts, devices))

    def _open_binds(self, after: str = "0") -> list[BindEntry]:
        return [
            entry
            for entry in self._binds
            if number_of(entry.id) > number_of(after)
            and (entry.id in self._pending or number_of(entry.id) > self._delivered)
        ]

    async def open_binds(self, after: str, *, count: int) -> tuple[list[BindEntry], str]:
        entries = self._open_binds(after)
        return entries[:count], entries[count - 1].id if len(entries) > count else ""

    async def audit_page(
        self,
        table: Table,
        *,
        after: str,
        cursor: int = 0,
        count: int = 500,
        fields: Sequence[str] = (),
    ) -> AuditPage:
        entries = await self.read_log(after, count=_PAGE_ENTRIES)
        if len(entries) == _PAGE_ENTRIES:
            return AuditPage(entries, current=False)
        return AuditPage(entries, True, *page_of(self._books, table, cursor, count, fields))

    def for_another_loop(self) -> LedgerDouble:
        return self

    async def ack_binds(self, ids: list[str]) -> None:
        self._pending.difference_update(ids)

    async def tell_reader(self, reader: str, log_id: str | None) -> None:
        if log_id is None:
            self._readers.pop(reader, None)
        else:
            self._readers[reader] = log_id

    async def readers(self) -> dict[str, str]:
        return dict(self._readers)

    async def trim(self, *, log_before: str) -> None:
        self._log.trim(log_before)
        oldest = min(map(number_of, self._pending), default=self._delivered + 1)
        self._binds = [entry for entry in self._binds if number_of(entry.id) >= oldest]

    # --- reads ------------------------------------------------------------------------------

    async def read_nominations(self) -> dict[int, Nomination]:
        return dict(self._books.nominations)

    async def read_domains(self) -> dict[str, int]:
        return dict(self._books.domains)

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        books = self._books
        things = [(row, name, t.packed()) for (row, name), t in sorted(books.things.items())]
        snapshot = Snapshot(
            log_id=await self.log_tail(),
            nodes=replace(self._current(sorted(books.nodes)), things=things),
            node_specs=dict(books.node_specs),
            queues={qid: queue.record() for qid, queue in books.queues.items()},
            queue_specs=dict(books.queue_specs),
            classes=dict(books.class_specs),
            nominations=dict(books.nominations),
            objects=dict(books.objects),
            partition=copy_partition(books.partition),
            domains=dict(books.domains),
        )
        if workload:
            snapshot.jobs.update({jid: job.record() for jid, job in books.jobs.items()})
            snapshot.job_specs.update(books.job_specs)
            snapshot.documents.update(sorted(books.documents.items()))
            for (jid, tix), task in books.tasks.items():
                snapshot.tasks.setdefault(jid, {})[tix] = task
        return snapshot

    async def read_residents(self) -> Residents:
        return residents_of(await self.snapshot())

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """The records of jobs and their tasks. Jobs the ledger does not know are left out."""
        jobs: dict[int, tuple[JobRecord, dict[int, TaskRecord]]] = {}
        for jid in jids:
            job = self._books.jobs.get(jid)
            if job is not None:
                tasks = ((tix, self._books.tasks.get((jid, tix))) for tix in range(job.top))
                jobs[jid] = (job.record(), {tix: task for tix, task in tasks if task})
        return jobs

    async def read_moved(self, changed: Moved) -> Snapshot:
        return part_of(await self.snapshot(), changed)

    async def read_nodes(self, rows: list[int]) -> Rows:
        return self._current([row for row in rows if row in self._books.nodes])

    async def close(self) -> None:
        """Nothing to close."""
