"""A worker's view of the whole cluster: node records as columns, and what nodes declare.

It is maintained by applying the ledger's log and the rows that come with every reply. Rows are
absolute and carry a version, so that the order in which they arrive does not matter. What open
statements added stays on top of the records until the statement is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shard_worker.view.coded_column import CodedColumn
from shard_worker.view.columns import KINDS, Block, Column, Columns, RowChanges
from shard_worker.view.known_objects import KnownObjects
from shard_worker.view.node_things import NodeThings
from shard_worker.view.resident_table import ResidentTable
from shared.ledger.entries.intake_batch import (
    DropClass,
    DropNode,
    IntakeOp,
    PutClass,
    PutNode,
    PutObject,
    PutPartition,
)
from shared.ledger.entries.log import (
    CommitEntry,
    Committed,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    StatusEntry,
)
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.records import HEAD, WIDTH, unpack_nodes
from shared.ledger.residents import Residents
from shared.messages.messages import NOMINATE, EvictRun, Rows, Run, promises_of
from shared.model.constraints import Taint
from shared.model.model import Node, Requests, TaskClass
from shared.model.node_pool import NodePool
from shared.records.quarantine import quarantined_row
from shared.records.reservation import decode_reserved, reserved_row
from shared.records.specs import SLOTS_KEY, decode_class, decode_node, decode_slots
from shared.units.slots import BASE

KIND_INDEX = {name: i for i, name in enumerate(KINDS)}
HOSTNAME = "kubernetes.io/hostname"
UNKNOWN = -1
"""Specification version of a row without a known node."""

Look = tuple[tuple[Taint, ...], tuple[tuple[str, str], ...]]
Images = tuple[tuple[str, int], ...]


def _look(node: Node) -> Look:
    labels = sorted(item for item in node.labels.items() if item[0] != HOSTNAME)
    return node.taints, tuple(labels)


def _amounts(table: Column) -> Block:
    """The amounts in node records, with what others use in ``used``: ``[record][kind][slot]``."""
    width = (table.shape[1] - HEAD) // WIDTH
    slots = table[:, HEAD:].reshape(len(table), width, WIDTH)
    allocatable, used, observed, releasing, nominated = slots.transpose(2, 0, 1)
    return np.stack([allocatable, used + observed, releasing, nominated], axis=1)


Shift = tuple[int, TaskClass, int, int]
"""Kind of amount, class, row, how many times its requests."""


class LoadsView(Protocol):
    """The part of :class:`shared.ledger.protocol.Ledger` that fills an empty view."""

    async def snapshot(self, *, workload: bool = ...) -> Snapshot: ...

    async def read_residents(self) -> Residents: ...


class View:
    """Index of every array: row. Plugins see it as
    :class:`shard_worker.framework.rules.NodeColumns`."""

    def __init__(
        self, *, shard: int, residents: bool = False, pool: NodePool | None = None
    ) -> None:
        """``residents``: whether to follow every task of the cluster, for rules that look at what
        runs on a node. ``pool``: nodes outside of it do not exist; None: all do."""
        self.shard = shard
        self.pool = pool
        self.residents = ResidentTable() if residents else None
        self.columns = Columns()
        self.things = NodeThings()
        self.changes = RowChanges()
        self.nodes: list[Node | None] = []
        self.classes: dict[int, TaskClass] = {}
        self.nominations: dict[int, Nomination] = {}
        """Jobs that hold nominations, as far as the log and own replies told."""
        self.slot_names: list[str] = list(BASE)
        """slot -> name, for slots that accepted objects use."""
        self.version: Column = np.full(0, UNKNOWN, dtype=np.int64)
        self.spec: Column = np.full(0, UNKNOWN, dtype=np.int64)
        """Specification version of the node that ``nodes`` holds: what a placement relies on."""
        self.record_spec: Column = np.full(0, UNKNOWN, dtype=np.int64)
        """The same as the record says it; runs ahead until the log brings the specification."""
        self.own: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """True for the rows of this shard."""
        self.withheld: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """True for nodes that are left out: quarantined (they refused bind after bind), or reserved
        for a job."""
        self._quarantined: set[int] = set()
        self.reserved: dict[int, int] = {}
        """Row -> the job it is reserved for: others leave it out (it counts in ``withheld``)."""
        self.revision = 0
        """Moves when more than amounts changed: node specs, the partition, the arrays."""
        self.known = KnownObjects()
        """Objects that are no nodes; for sessions over this view."""
        self._partition: PutPartition | None = None
        self._labels: dict[str, CodedColumn[str]] = {}
        self._taints: CodedColumn[tuple[Taint, ...]] | None = None
        self._looks: CodedColumn[Look] | None = None
        self._images: CodedColumn[Images] | None = None
        self._cordoned: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.shifts: list[Shift] | None = None
        """Shifts since the block of :meth:`undone_if_raised` began; None outside of one."""

    # --- what plugins read --------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self.columns.size

    def column(self, kind: str, slot: int) -> Column:
        """Amounts of one slot over all rows; ``kind``: allocatable, used, releasing, nominated."""
        columns = self.columns
        if slot >= columns.slots and columns.grow(slots=slot + 1):
            self.revision += 1
        return columns.views[KIND_INDEX[kind]][slot]

    def label(self, key: str) -> CodedColumn[str]:
        """The values of one label."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = CodedColumn(lambda n: n.labels.get(key), self.nodes)
        return column

    def taints(self) -> CodedColumn[tuple[Taint, ...]]:
        """The taint set of each node; the empty set has a code too."""
        if self._taints is None:
            self._taints = CodedColumn(lambda n: n.taints, self.nodes)
        return self._taints

    def images(self) -> CodedColumn[Images]:
        """The image set of each node; the empty set has a code too."""
        if self._images is None:
            self._images = CodedColumn(lambda n: n.images, self.nodes)
        return self._images

    def unschedulable(self) -> NDArray[np.bool_]:
        """True where the node is cordoned."""
        return self._cordoned

    def looks(self) -> CodedColumn[Look]:
        """A code for everything that a node declares except its name: few values for many nodes."""
        if self._looks is None:
            self._looks = CodedColumn(_look, self.nodes)
        return self._looks

    def live(self) -> NDArray[np.bool_]:
        """True if a node exists and its record was written for its present specification."""
        current: NDArray[np.bool_] = self.spec == self.record_spec
        return current & self.exists()

    def exists(self) -> NDArray[np.bool_]:
        """True if a node exists."""
        exists: NDArray[np.bool_] = self.spec != UNKNOWN
        return exists

    def slot_name(self, slot: int) -> str:
        return self.slot_names[slot] if slot < len(self.slot_names) else f"slot {slot}"

    # --- keeping up ---------------------------------------------------------------------------

    async def begin(self, ledger: LoadsView) -> str:
        """Fill an empty view from a ledger; returns the log's id to go on from."""
        snapshot = await ledger.snapshot(workload=False)
        # Rows first, residents second, and the log from the older position: changes in between are
        # applied twice, which absolute rows and states bear (decisions 0003, 0048).
        self.load(snapshot)
        if self.residents is not None:
            self.residents.load(await ledger.read_residents())
        return snapshot.log_id

    def load(self, snapshot: Snapshot) -> None:
        """Fill an empty view, but for residents. Apply the log after ``snapshot.log_id`` next."""
        for key, spec in snapshot.objects.items():
            self._put_object(PutObject(key=key, spec=spec))
        for cid, spec in snapshot.classes.items():
            self.classes[cid] = decode_class(spec)
        self.nominations.update(snapshot.nominations)
        specs = {row: decode_node(spec) for row, spec in snapshot.node_specs.items()}
        self.set_rows(snapshot.nodes)
        self._set_nodes({row: (node, node.spec) for row, node in specs.items()})
        if snapshot.partition is not None:
            self._put_partition(snapshot.partition)
        self.looks()  # now rather than in the first turn: it reads every node

    def apply(self, entries: Sequence[LogEntry], *, now: float = 0.0) -> None:
        """Apply the log: rows, node specs, classes, the partition, nominations, residents. ``now``:
        the time, seconds since 1970; of use where residents are followed."""
        if self.residents is not None:
            self.residents.apply(entries, now=now)
        for entry in entries:
            match entry:
                case CommitEntry():
                    for committed in entry.accepted:
                        self._committed(committed)
                    self.set_rows(entry.fresh, from_log=True)
                case StatusEntry():
                    for jid in entry.expired:
                        self.nominations.pop(jid, None)
                    self.set_rows(entry.fresh, from_log=True)
                case IntakeEntry():
                    for jid in entry.dropped:
                        self.nominations.pop(jid, None)
                    self._intake(entry.ops)
                    self.set_rows(entry.fresh, from_log=True)
                case EpochEntry():
                    pass

    def set_rows(self, fresh: Rows, *, from_log: bool = False) -> None:
        """Take records that are newer than the view's. No row may occur twice in one call."""
        if fresh.things:
            self._grow(1 + max(row for row, _, _ in fresh.things))
            self.changes.mark_all(self.things.set(fresh.things, from_log=from_log))
        if not fresh.rows:
            return
        self._grow(max(fresh.rows) + 1)
        rows = np.array(fresh.rows, dtype=np.intp)
        table = unpack_nodes(fresh.records)
        newer = table[:, 0] > self.version[rows]
        if not newer.all():
            rows, table = rows[newer], table[newer]
        widths = table[:, 2]
        for width in np.unique(widths).tolist():
            same = widths == width
            self._take(rows[same], table[same, : HEAD + WIDTH * width])

    def _take(self, rows: NDArray[np.intp], table: NDArray[np.int64]) -> None:
        """Set unique rows from their records: all newer, all with as many slots."""
        amounts = _amounts(table)
        if amounts.shape[2] > self.columns.slots and self.columns.grow(slots=amounts.shape[2]):
            self.revision += 1
        self.columns.set(rows, amounts)
        self.version[rows] = table[:, 0]
        specs = table[:, 1]
        if not np.array_equal(self.record_spec[rows], specs):
            self.record_spec[rows] = specs
            self.revision += 1
        self.changes.mark_all(rows.tolist())

    def audit(self, fresh: Rows) -> int:
        """Compare with records that were read before the log was followed to its end. A newer
        record was missing in the log, and a difference at the same version is an error of the view:
        returns the number of such rows, and takes their records. No statement may be open."""
        if not fresh.rows:
            return 0
        rows = np.array(fresh.rows, dtype=np.intp)
        table = unpack_nodes(fresh.records)
        wrong = table[:, 0] > self.version[rows]
        same = table[:, 0] == self.version[rows]
        recorded = table[same]
        wrong[same] = self.columns.differing(rows[same], _amounts(recorded), recorded[:, 2])
        wrong_rows = np.flatnonzero(wrong).tolist()
        self.version[rows[wrong]] = UNKNOWN
        self.set_rows(
            Rows([fresh.rows[i] for i in wrong_rows], [fresh.records[i] for i in wrong_rows])
        )
        return len(wrong_rows)

    def _grow(self, rows: int) -> None:
        old = self.columns.size
        if rows <= old:
            return
        self.columns.grow(rows=rows)
        more = rows - old
        blank = np.full(more, UNKNOWN, dtype=np.int64)
        self.version = np.concatenate([self.version, blank])
        self.spec = np.concatenate([self.spec, blank])
        self.record_spec = np.concatenate([self.record_spec, blank])
        no = np.zeros(more, dtype=np.bool_)
        self.own = np.concatenate([self.own, no])
        self._cordoned = np.concatenate([self._cordoned, no])
        self.nodes.extend([None] * more)
        self._reread(range(old, rows))
        self._mark_withheld()
        self._mark_own()

    # --- what the log tells -------------------------------------------------------------------

    def _intake(self, ops: list[IntakeOp]) -> None:
        nodes: dict[int, tuple[Node | None, int]] = {}
        for op in ops:
            match op:
                case PutNode():
                    nodes[op.row] = (decode_node(op.spec), op.spec_version)
                case DropNode():
                    nodes[op.row] = (None, UNKNOWN)
                case PutClass():
                    self.classes[op.cid] = decode_class(op.spec)
                case DropClass(cid):
                    self.classes.pop(cid, None)
                case PutPartition():
                    self._put_partition(op)
                case PutObject():
                    self._put_object(op)
                case _:
                    pass
        if nodes:
            self._set_nodes(nodes)

    def _set_nodes(self, nodes: dict[int, tuple[Node | None, int]]) -> None:
        self._grow(max(nodes, default=-1) + 1)
        for row, (node, spec) in nodes.items():
            in_pool = node is not None and (self.pool is None or self.pool.has(node.labels))
            self.nodes[row] = node if in_pool else None
            self.spec[row] = spec if in_pool else UNKNOWN
            self._cordoned[row] = node is not None and node.unschedulable
        self._reread(nodes)

    def _reread(self, rows: Iterable[int]) -> None:
        """Recompute everything derived from these rows, whose node specifications changed."""
        rows = list(rows)
        for column in self._labels.values():
            column.update(rows, self.nodes)
        for derived in (self._taints, self._looks, self._images):
            if derived is not None:
                derived.update(rows, self.nodes)
        self.known.nodes_changed()
        self.revision += 1

    def _put_partition(self, partition: PutPartition) -> None:
        if self._partition is None or partition.revision >= self._partition.revision:
            self._partition = partition
            self._mark_own()

    def _mark_own(self) -> None:
        own_rows = [] if self._partition is None else self._partition.shards.get(self.shard, [])
        rows = np.array(own_rows, dtype=np.intp)
        self.own = np.zeros(self.size, dtype=np.bool_)
        self.own[rows[rows < self.size]] = True
        self.revision += 1

    def _put_object(self, op: PutObject) -> None:
        """Store an object: the slots' names, a quarantine, a reservation, or an object for
        sessions."""
        if (row := quarantined_row(op.key)) >= 0:
            (self._quarantined.discard if op.spec is None else self._quarantined.add)(row)
            self._mark_withheld()
        elif (row := reserved_row(op.key)) >= 0:
            self.reserved.pop(row, None)
            if op.spec is not None:
                self.reserved[row] = decode_reserved(op.spec)
            self._mark_withheld()
        elif op.key == SLOTS_KEY and op.spec is not None:
            slots = decode_slots(op.spec)
            self.slot_names = slots.names
            self.revision += 1
        else:
            self.known.put(op.key, op.spec)

    def _mark_withheld(self) -> None:
        self.withheld = np.zeros(self.size, dtype=np.bool_)
        for row in self._quarantined.union(self.reserved):
            if row < self.size:
                self.withheld[row] = True
        self.revision += 1

    # --- nominations --------------------------------------------------------------------------

    def _committed(self, committed: Committed) -> None:
        runs, expiry = [*committed.core, *committed.tail], committed.expiry
        self.take_promises(committed.jid, committed.priority, runs, committed.evictions, expiry)
        for jid in committed.dropped:
            if jid != committed.jid:
                self.nominations.pop(jid, None)

    def take_promises(
        self, jid: int, priority: int, runs: list[Run], evictions: list[EvictRun], expiry: float
    ) -> None:
        """Take those of an accepted statement: its job's, and those of jobs whose tasks move."""
        own = [run for run in runs if run.kind == NOMINATE]
        renominate(self.nominations, jid, priority=priority, expiry=expiry, runs=own)
        take_moves(self.nominations, evictions, expiry=expiry)

    # --- open statements ----------------------------------------------------------------------

    def shift(self, kind: int, cls: TaskClass, row: int, times: int) -> None:
        """Add ``times`` a task's requests to one row for an open statement; its inverse is
        ``-times``."""
        self.columns.shift(kind, cls.requests, row, times)
        if cls.things:
            self.things.shift(kind, cls.things, row, times)
        self.changes.mark(row)
        if self.shifts is not None:
            self.shifts.append((kind, cls, row, times))

    def shift_many(self, kind: int, cls: TaskClass, rows: Sequence[int], times: int) -> None:
        """:meth:`shift` of many rows (the same row may come several times)."""
        self.columns.shift_many(kind, cls.requests, np.array(rows, dtype=np.intp), times)
        if cls.things:
            for row in rows:
                self.things.shift(kind, cls.things, row, times)
        self.changes.mark_all(rows)
        if self.shifts is not None:
            self.shifts += [(kind, cls, row, times) for row in rows]

    def undone_if_raised(self) -> ShiftUndo:
        """Undo every shift of the block if it raises, wherever it raises."""
        return ShiftUndo(self)

    def ahead(self, cls: TaskClass, row: int) -> bool:
        """Whether no more of the class's requests is promised on the row than it will have."""
        kinds = self.columns.views
        for slot, _ in cls.requests:
            allocatable, used, releasing, nominated = (k[slot].item(row) for k in kinds)
            if allocatable - used + releasing - nominated < 0:
                return False
        return not cls.things or self.things.ahead(cls.things, row)

    def reserve(self, requests: Requests) -> None:
        """Create the columns that a request needs."""
        last = max(slot for slot, _ in requests)
        if last >= self.columns.slots and self.columns.grow(slots=last + 1):
            self.revision += 1


def renominate(
    held: dict[int, Nomination], jid: int, *, priority: int, expiry: float, runs: list[Run]
) -> None:
    """Replace all nominations of a job by those of its accepted statement (empty ``runs``: by
    none)."""
    earlier = held.pop(jid, None)
    if runs:
        since = earlier.since if earlier is not None else expiry
        held[jid] = Nomination(jid=jid, priority=priority, since=since, expiry=expiry, runs=runs)


def take_moves(
    held: dict[int, Nomination], evictions: Iterable[EvictRun], *, expiry: float
) -> None:
    """Take the promises of an accepted statement for the jobs whose tasks move."""
    for jid, moves in promises_of(evictions).items():
        runs = [run.promise for run in moves]
        renominate(held, jid, priority=moves[0].priority, expiry=expiry, runs=runs)


class ShiftUndo:
    """A block in which every shift is undone if it raises. Not a generator: every turn enters one,
    and a turn of one task costs some 25 us."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def __enter__(self) -> None:
        self._view.shifts = []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shifts, self._view.shifts = self._view.shifts, None
        if kind is not None:
            for amount, cls, row, times in reversed(shifts or ()):
                self._view.shift(amount, cls, row, -times)
