"""The ledger at one position of its log, put together from pages that were read one after another.

Each page was read at a known position (:class:`shared.ledger.entries.audit.AuditPage`); what the
log says after it is applied to what was read before. So at the end everything stands at the
position of the last page, though the ledger never stood still: this is what lets the audit compare
the totals of a queue that is charged a hundred times a second.

Pure: pages in; :mod:`coordinator.ledger_audit.comparison` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.ledger_audit.parted_dict import PartedDict
from coordinator.ledger_audit.task_columns import SHORT, TaskColumns
from shared.ledger import records, replies
from shared.ledger.entries.audit import Table
from shared.ledger.entries.intake_batch import (
    DropJob,
    DropQueue,
    IntakeOp,
    PurgeJob,
    PutClass,
    PutJob,
    PutQueue,
)
from shared.ledger.entries.log import (
    CommitEntry,
    Committed,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    StatusEntry,
)
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.errors import LedgerAltered
from shared.messages.messages import ALLOCATE, Rows, StatusItem, TaskState, promises_of
from shared.units.slots import PODS
from shared.units.things import Things

Requests = tuple[tuple[int, int], ...]
"""(slot, amount) with amounts above 0."""
Promised = tuple[tuple[int, tuple[int, ...], Things], ...]
"""Contents of a nomination: (cid, rows, devices)."""

STEP_TASKS = 200
"""Tasks processed per step when following the log: 0.5 ms. A statement or an item of a
wide job may have thousands."""

_PARENT = struct.Struct("<d")
_JOB_HEAD = struct.Struct("<4d")
"""Specification version, queue, whether it was deleted, number of groups."""


@dataclass(slots=True)
class AuditedClass:
    requests: Requests
    best_effort: bool
    """Members count for their groups while they are pending too."""
    things: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Named things that each task takes of its node: (name, amounts by dimension)."""


@dataclass(slots=True)
class Picture:
    tasks: TaskColumns = field(default_factory=TaskColumns)
    classes: dict[int, AuditedClass] = field(default_factory=dict)
    nodes: PartedDict[bytes] = field(default_factory=PartedDict)
    things: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)
    """(row, name) -> five numbers per dimension."""
    devices: dict[tuple[int, int], Things] = field(default_factory=dict)
    """(jid, tix) -> devices, of tasks that took any; they hold them while they hold their node."""
    queues: dict[int, bytes] = field(default_factory=dict)
    jobs: PartedDict[bytes] = field(default_factory=PartedDict)
    job_queues: PartedDict[int] = field(default_factory=PartedDict)
    """jid -> qid."""
    gone_jobs: set[int] = field(default_factory=set)
    """Jobs that are deleted but not forgotten yet."""
    forgotten: set[int] = field(default_factory=set)
    """Jobs forgotten since the pass began: what was read of them no longer counts."""
    nominations: dict[int, Promised] = field(default_factory=dict)
    nomination_records: dict[int, bytes] = field(default_factory=dict)
    """Nominations that did not change since they were read."""
    domains: dict[str, bytes] = field(default_factory=dict)
    moved_jobs: PartedDict[None] = field(default_factory=PartedDict)
    """Jobs that changed (record or tasks) after their record was read; they are not compared."""
    moved_queues: set[int] = field(default_factory=set)
    """The same for queues: they, or a queue below, were charged."""

    def take(self, table: Table, read: Sequence[tuple[bytes, bytes]]) -> None:
        """Add the records of a page; the entries that came with it must have been followed before.
        Raises LedgerAltered."""
        match table:
            case Table.TASK:
                try:
                    self.tasks.add_page(read)
                    self._take_devices(read)
                except ValueError as error:
                    raise LedgerAltered("the table of tasks", str(error)) from error
            case Table.CLASS:
                for name, record in read:
                    requests, _, things = records.unpack_class(record, f"class {int(name)}")
                    self.classes[int(name)] = _class_of(requests, things)
            case Table.NODE:
                self.nodes.update((int(name), record) for name, record in read)
            case Table.QUEUE:
                queues = {int(name): record for name, record in read}
                self.queues.update(queues)
                # Read as of this page: what was charged before it is in the record.
                self.moved_queues -= queues.keys()
            case Table.JOB:
                for name, record in read:
                    self._take_job(int(name), record)
            case Table.NOMINATION:
                for name, record in read:
                    nomination = replies.unpack_nomination(int(name), record)
                    runs = tuple((r.cid, tuple(r.rows), r.devices) for r in nomination.runs)
                    self.nominations[nomination.jid] = runs
                    self.nomination_records[nomination.jid] = record
            case Table.THING:
                for name, record in read:
                    self._take_thing(*records.row_and_name(name), record)
            case Table.DOMAIN:
                self.domains.update((name.decode(), record) for name, record in read)
            case Table.JOB_SPEC | Table.NODE_SPEC | Table.META:
                pass  # read by name, where they are needed

    def _take_devices(self, read: Sequence[tuple[bytes, bytes]]) -> None:
        for name, record in read:
            if len(record) > SHORT:
                jid, tix = map(int, name.split(b"."))
                self._have(jid, tix, records.unpack_task(record, jid, tix).devices)

    def _have(self, jid: int, tix: int, devices: Things) -> None:
        if devices:
            self.devices[jid, tix] = devices
        else:
            self.devices.pop((jid, tix), None)

    def _take_job(self, jid: int, record: bytes) -> None:
        _, qid, is_gone, _ = _JOB_HEAD.unpack_from(record)
        self.jobs[jid] = record
        self.job_queues[jid] = int(qid)
        if is_gone:
            self.gone_jobs.add(jid)
        else:
            self.gone_jobs.discard(jid)
        self.moved_jobs.pop(jid, None)

    def clearing(self) -> Iterator[None]:
        """Clear the large tables, step by step."""
        for large in (self.nodes, self.jobs, self.job_queues, self.moved_jobs):
            yield from large.clearing()
        self.devices.clear()
        yield from self.tasks.clearing()

    # --- what the log says ----------------------------------------------------------------------

    def follow(self, entry: LogEntry) -> Iterator[None]:
        """Follow the next log entry, or the next portion of one, step by step."""
        match entry:
            case CommitEntry():
                for statement in entry.accepted:
                    yield from self._committed(statement)
                self._fresh(entry.fresh)
            case StatusEntry():
                for item in entry.items:
                    yield from self._recorded(item)
                self._end_nominations(entry.expired)
                self._fresh(entry.fresh)
            case IntakeEntry():
                for op in entry.ops:
                    self._stored(op)
                self._end_nominations(entry.dropped)
                self._fresh(entry.fresh)
            case EpochEntry():
                pass

    def _fresh(self, rows: Rows) -> None:
        """Replace rows by their state after the batch."""
        self.nodes.update(zip(rows.rows, rows.records, strict=True))
        for row, name, record in rows.things:
            self._take_thing(row, name, record)

    def _take_thing(self, row: int, name: str, record: bytes) -> None:
        """Update a named thing. One that became idle is reported once more, and then has no
        record."""
        _, amounts = records.unpack_thing(record, f"thing {row}/{name}")
        if any(amounts):
            self.things[row, name] = tuple(amounts)
        else:
            self.things.pop((row, name), None)

    def _committed(self, statement: Committed) -> Iterator[None]:
        jid = statement.jid
        self._end_nominations(statement.dropped)
        promised = []
        for run in (*statement.core, *statement.tail):
            if run.kind != ALLOCATE:
                promised.append((run.cid, tuple(run.rows), run.devices))
                continue
            self._moved(jid)
            for tasks, rows in _steps(run.tasks, run.rows):
                self.tasks.placed(
                    jid, tasks, rows, state=TaskState.BINDING, cid=run.cid, group=run.group
                )
                for tix in tasks:
                    self._have(jid, tix, run.devices)
                yield
        if promised:
            self._promise(jid, promised)
        for moving, moves in promises_of(statement.evictions).items():
            self._promise(moving, [(run.cid, tuple(run.to), run.devices) for run in moves])
        for victims in statement.evictions:
            self._moved(victims.jid)
            for tasks, _ in _steps(victims.tasks, victims.rows):
                self.tasks.evict(victims.jid, tasks)
                yield

    def _promise(self, jid: int, runs: Sequence[tuple[int, tuple[int, ...], Things]]) -> None:
        self.nominations[jid] = tuple(runs)
        self.nomination_records.pop(jid, None)

    def _recorded(self, item: StatusItem) -> Iterator[None]:
        jid, columns = item.jid, self.tasks
        state, cid, group = item.state, item.cid, item.group
        self._moved(jid)
        for tasks, rows in _steps(item.tasks, item.rows):
            if item.adopted:
                columns.adopted(jid, tasks, rows, state=state, cid=cid, group=group)
                for tix in tasks:
                    self._have(jid, tix, item.devices)
                yield
                continue
            if cid >= 0:  # what is deleted before it was placed gets a record then
                unread = [tix for tix in tasks if columns.line(jid, tix) is None]
                nowhere = [0] * len(unread)
                columns.placed(jid, unread, nowhere, state=state, cid=cid, group=group)
            columns.changed(jid, tasks, state)
            yield

    def _stored(self, op: IntakeOp) -> None:
        match op:
            case PutClass():
                self.classes[op.cid] = _class_of(op.requests, op.things)
            case PutJob(jid, qid):
                if self.job_queues.get(jid, qid) != qid:
                    self._charged(self.job_queues[jid])
                self.job_queues[jid] = qid
                self.jobs.setdefault(jid, b"")
                self._moved(jid)
            case DropJob(jid):
                self.gone_jobs.add(jid)
                self._moved(jid)
            case PurgeJob(jid):
                # Noted and not removed: pages that were read before still have its tasks.
                self.forgotten.add(jid)
            case PutQueue(qid) | DropQueue(qid):
                self.moved_queues.update(self.queues)  # also those that are above it by now
            case _:
                pass

    def _moved(self, jid: int) -> None:
        self.moved_jobs[jid] = None
        self._charged(self.job_queues.get(jid, -1))

    def _charged(self, qid: int) -> None:
        """Note that the queue and its ancestors were charged. Has no effect before queues are
        read."""
        self.moved_queues.update(chain_of(self.queues, qid))

    def _end_nominations(self, jids: Sequence[int]) -> None:
        for jid in jids:
            self.nominations.pop(jid, None)
            self.nomination_records.pop(jid, None)


def _steps(tasks: list[int], rows: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Split a run of tasks and their rows into steps."""
    for first in range(0, len(tasks), STEP_TASKS):
        yield tasks[first : first + STEP_TASKS], rows[first : first + STEP_TASKS]


def chain_of(queues: Mapping[int, bytes], qid: int) -> list[int]:
    """A queue and its ancestors, as far as they have records (``charge`` in the scripts)."""
    chain: list[int] = []
    while qid in queues and qid not in chain:  # parents in a circle would be damage, too
        chain.append(qid)
        qid = int(_PARENT.unpack_from(queues[qid])[0])
    return chain


def _class_of(requests: Sequence[tuple[int, int, int]], things: Sequence[ThingAsk]) -> AuditedClass:
    amounts = tuple((slot, amount) for slot, amount, _ in requests if amount > 0)
    modest = not things and all(slot == PODS for slot, _, _ in requests)
    return AuditedClass(amounts, modest, tuple((ask.name, tuple(ask.amounts)) for ask in things))
