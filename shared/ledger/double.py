"""The ledger in memory, with the same answers as the real one and no I/O: for the seeded run.

It never waits, so a call can be driven to its end without an event loop
(:func:`shared.ledger.synchronous.at_once`). A property test holds it equal to the scripts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from shared.ledger import codec
from shared.ledger.double_books import Books, Overlay
from shared.ledger.double_judge import Judge
from shared.ledger.double_seats import Seats
from shared.ledger.double_store import Specs, Storing, apply_item
from shared.ledger.errors import Deposed, LedgerArgument, LedgerBehind, LedgerTrimmed
from shared.ledger.moved import Moved, part_of
from shared.ledger.protocol import (
    BindEntry,
    CommitEntry,
    EpochEntry,
    IntakeBatch,
    IntakeEntry,
    IntakeReply,
    JobRecord,
    Leader,
    LogEntry,
    Nomination,
    PutPartition,
    Snapshot,
    StatusEntry,
    TaskRecord,
)
from shared.messages import (
    CommitBatch,
    CommitReply,
    Epoch,
    Rows,
    StatusBatch,
    StatusReply,
    TaskState,
    Verdict,
)

WINDOW = 64
"""How many sequences of a writer are remembered."""

K = TypeVar("K")
Batch = CommitBatch | StatusBatch | IntakeBatch
First = tuple[list[Any], list[int]]
"""The first answer to a batch: answers or applied tasks (by its kind), and rows."""


def _number(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


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
        self.seats = Seats(clock=clock, nonce=self._nonce)
        self._windows: dict[str, dict[int, First]] = {}
        self._log: list[LogEntry] = []
        self._forgotten = 0
        """Number of the last entry that was trimmed."""
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
        if not self.seats.leads(leader):
            raise Deposed(f"epoch {leader} does not lead any more")
        if _number(after) > self._forgotten + len(self._log):
            raise LedgerBehind(f"the ledger's log does not have {after}, which was seen in it")
        self.seats.blessed = self.seats.run
        return self.seats.run

    async def run_id(self) -> str:
        return self.seats.blessed

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        return self.seats.renew(writer, epoch, lease=lease)

    async def release(self, writer: str, epoch: Epoch) -> None:
        self.seats.release(writer, epoch)

    async def leader(self) -> Leader | None:
        return self.seats.leader()

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        epoch = self.seats.claim(writer, leader=leader, lease=lease, holder=holder)
        self._windows.pop(writer, None)
        self._log.append(EpochEntry(self._next_id(), writer, epoch))
        return epoch

    def restart(self) -> None:
        """As if the server had been killed and started again: durable, and not blessed."""
        self.seats.restart()

    # --- writes -----------------------------------------------------------------------------

    async def commit(self, batch: CommitBatch) -> CommitReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return CommitReply(verdict, first[0], self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return CommitReply(verdict, [], Rows([], []))
        statements = codec.unpack_statements(codec.pack_statements(batch.statements))
        overlay = Overlay(self._books)
        judge = Judge(overlay, self._clock())
        answers = [judge.judge(s) for s in statements]
        fresh = self._write(overlay)
        if statements:
            entry_id, epoch = self._next_id(), batch.epoch
            self._log.append(
                CommitEntry(
                    entry_id,
                    batch.writer,
                    epoch,
                    batch.sequence,
                    judge.accepted,
                    judge.refused,
                    fresh,
                )
            )
        if judge.binds or judge.evicts:
            self._bind_count += 1
            entry = BindEntry(f"{self._bind_count}-0", judge.binds, judge.lives, judge.evicts)
            self._binds.append(entry)
        extra = sorted(judge.asked - set(fresh.rows))
        shown = [(row, overlay.nodes.get(row)) for row in extra]
        more = [(row, node.packed()) for row, node in shown if node is not None]
        rows = Rows(
            [*fresh.rows, *(row for row, _ in more)],
            [*fresh.records, *(record for _, record in more)],
        )
        self._remember(batch, (answers, rows.rows))
        return CommitReply(Verdict.COMMITTED, answers, rows)

    async def record(self, batch: StatusBatch) -> StatusReply:
        verdict, first = self._gate(batch)
        if first is not None:
            return StatusReply(verdict, first[0], self._current(first[1]), True)
        if verdict is not Verdict.COMMITTED:
            return StatusReply(verdict, [], Rows([], []))
        _check_items(batch)
        overlay = Overlay(self._books)
        items = [apply_item(overlay, item) for item in batch.items]
        overlay.begin()
        lapsed = [jid for jid in batch.lapsed if overlay.drop_nomination(jid)]
        fresh = self._write(overlay)
        changed = [item for item in items if item.tasks]
        if changed or lapsed:
            self._log.append(
                StatusEntry(
                    self._next_id(),
                    batch.writer,
                    batch.epoch,
                    batch.sequence,
                    changed,
                    lapsed,
                    fresh,
                )
            )
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
        _update(self._books.documents, documents)
        if ops or documents:
            self._log.append(
                IntakeEntry(
                    self._next_id(),
                    batch.writer,
                    batch.epoch,
                    batch.sequence,
                    ops,
                    fresh,
                    storing.dropped,
                    list(documents),
                )
            )
        self._remember(batch, ([], fresh.rows))
        return IntakeReply(Verdict.COMMITTED, fresh)

    def _gate(self, batch: Batch) -> tuple[Verdict, First | None]:
        """The verdict on the whole batch, and the first answer where it was given before."""
        if not self.seats.blessed == self.seats.run == batch.run_id:
            return Verdict.RUN, None
        if not self.seats.may_write(batch.writer, batch.epoch):
            return Verdict.EPOCH, None
        window = self._windows.setdefault(batch.writer, {})
        if batch.sequence in window:
            return Verdict.COMMITTED, window[batch.sequence]
        if window and batch.sequence <= max(window) - WINDOW:
            return Verdict.OLD, None
        return Verdict.COMMITTED, None

    def _remember(self, batch: Batch, first: First) -> None:
        window = self._windows[batch.writer]
        window[batch.sequence] = first
        newest = max(window)
        for sequence in [s for s in window if s <= newest - WINDOW]:
            del window[sequence]

    def _write(self, overlay: Overlay) -> Rows:
        rows = overlay.moved_rows()
        overlay.write()
        return self._current(rows)

    def _current(self, rows: list[int]) -> Rows:
        return Rows(list(rows), [self._books.nodes[row].packed() for row in rows])

    def _keep(self, specs: Specs) -> None:
        books = self._books
        books.class_specs.update(specs.classes)
        _update(books.node_specs, specs.nodes)
        _update(books.queue_specs, specs.queues)
        _update(books.job_specs, specs.jobs)
        _update(books.objects, specs.objects)
        books.partition = specs.partition or books.partition

    # --- streams ----------------------------------------------------------------------------

    def _next_id(self) -> str:
        return f"{self._forgotten + len(self._log) + 1}-0"

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """``block`` has no meaning here: nothing can happen while the caller waits; nor has
        ``rows_only``: nothing has to be read."""
        if after != "0" and _number(after) < self._forgotten:
            raise LedgerTrimmed(f"the log after {after} is gone: start again from a snapshot")
        first = max(0, _number(after) - self._forgotten)
        return self._log[first : first + count]

    @property
    def length(self) -> int:
        """How many entries the log ever had: it moves with every change."""
        return self._forgotten + len(self._log)

    async def log_tail(self) -> str:
        last = self._forgotten + len(self._log)
        return f"{last}-0" if last else "0"

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        if own:
            return [entry for entry in self._binds if entry.id in self._pending][:count]
        fresh = [entry for entry in self._binds if _number(entry.id) > self._delivered][:count]
        if fresh:
            self._delivered = _number(fresh[-1].id)
            self._pending.update(entry.id for entry in fresh)
        return fresh

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
        gone = min(max(0, _number(log_before) - 1 - self._forgotten), len(self._log))
        del self._log[:gone]
        self._forgotten += gone
        oldest = min(map(_number, self._pending), default=self._delivered + 1)
        self._binds = [entry for entry in self._binds if _number(entry.id) >= oldest]

    # --- reads ------------------------------------------------------------------------------

    async def read_nominations(self) -> dict[int, Nomination]:
        return dict(self._books.nominations)

    async def read_domains(self) -> dict[str, int]:
        return dict(self._books.domains)

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        books = self._books
        snapshot = Snapshot(
            log_id=await self.log_tail(),
            nodes=self._current(sorted(books.nodes)),
            node_specs=dict(books.node_specs),
            queues={qid: queue.record() for qid, queue in books.queues.items()},
            queue_specs=dict(books.queue_specs),
            classes=dict(books.class_specs),
            nominations=dict(books.nominations),
            objects=dict(books.objects),
            partition=_copied(books.partition),
            domains=dict(books.domains),
        )
        if workload:
            snapshot.jobs.update({jid: job.record() for jid, job in books.jobs.items()})
            snapshot.job_specs.update(books.job_specs)
            snapshot.documents.update(sorted(books.documents.items()))
            for (jid, tix), task in books.tasks.items():
                snapshot.tasks.setdefault(jid, {})[tix] = task
        return snapshot

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """Jobs the ledger does not know are left out."""
        found: dict[int, tuple[JobRecord, dict[int, TaskRecord]]] = {}
        for jid in jids:
            job = self._books.jobs.get(jid)
            if job is not None:
                tasks = ((tix, self._books.tasks.get((jid, tix))) for tix in range(job.top))
                found[jid] = (job.record(), {tix: task for tix, task in tasks if task})
        return found

    async def read_moved(self, moved: Moved) -> Snapshot:
        return part_of(await self.snapshot(), moved)

    async def read_nodes(self, rows: list[int]) -> Rows:
        return self._current([row for row in rows if row in self._books.nodes])

    async def close(self) -> None:
        """Nothing to close."""


def _update(kept: dict[K, bytes], changes: dict[K, bytes | None]) -> None:
    for key, spec in changes.items():
        if spec is None:
            kept.pop(key, None)
        else:
            kept[key] = spec


def _copied(partition: PutPartition | None) -> PutPartition | None:
    if partition is None:
        return None
    shards = {shard: list(rows) for shard, rows in partition.shards.items()}
    moving = [replace(move, rows=list(move.rows)) for move in partition.moving]
    return replace(partition, shards=shards, moving=moving)


def _check_items(batch: StatusBatch) -> None:
    for item in batch.items:
        if item.state is TaskState.BINDING:
            raise LedgerArgument(f"status item of job {item.jid}: only a commit makes BINDING")
        if len(item.tasks) != len(item.rows):
            raise LedgerArgument(f"status item of job {item.jid}: tasks and rows differ in length")
        if item.adopted and not TaskState.BOUND <= item.state <= TaskState.RELEASING:
            what = "adopted tasks are bound, running or releasing"
            raise LedgerArgument(f"status item of job {item.jid}: {what}")
