"""The tasks of the whole cluster as columns: which node each is on, of which job and class.

A worker's rules see the residents of every node in it. It is fed by what the worker reads anyway:
a snapshot once, then the ledger's log. Every change in the log names a task's state and node as
they are then, so that a snapshot which is newer than the first entries comes out right at the
end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.view.job_columns import Ints, JobColumns
from shared.ledger.entries.intake_batch import DropJob, IntakeOp, PurgeJob, PutJob
from shared.ledger.entries.log import CommitEntry, Committed, IntakeEntry, LogEntry, StatusEntry
from shared.ledger.residents import NO_DEVICES, DeviceCodes, Residents
from shared.messages.messages import ALLOCATE, HOLDING, StatusItem, TaskState
from shared.units.things import Things

_DTYPES: dict[str, type[np.generic]] = {
    "jid": np.int64,
    "tix": np.int32,
    "row": np.int32,
    "cid": np.int32,
    "state": np.uint8,
    "devices": np.int32,
    "started": np.float64,
}
NOWHERE = -1
"""Row of a task that holds no node, class of one that was never placed."""
_HOLDS = np.zeros(len(TaskState), np.bool_)
_HOLDS[list(HOLDING)] = True
_KEPT = -2
"""Class, or code of devices, in a change that says nothing of it."""
_FEW_COMBINATIONS = 1024
"""Combinations of devices that are remembered in any case, whether a task has them still or not."""

FEW_MOVED = 64
"""Rows that may have changed since the index by row was made: each costs a look at all tasks."""
_SPARE = 1 << 16
"""Lines that no job uses, or half of all, before the columns are written anew."""


@dataclass(frozen=True, slots=True)
class ResidentJob:
    """One job of the table. The lists are by tix; tasks beyond them are pending."""

    jid: int
    spec: bytes
    gone: bool
    states: list[int]
    rows: list[int]
    started: dict[int, float]
    devices: dict[int, Things]
    """Devices of tasks on nodes that take any."""


class ResidentTable:
    """A job has a block of lines, in the order of its tasks; a task that was never placed may have
    none."""

    def __init__(self) -> None:
        self.jobs = JobColumns()
        self.count = 0
        self.revision = 0
        """Rises with every change."""
        self._columns: dict[str, NDArray[Any]] = {n: np.zeros(0, d) for n, d in _DTYPES.items()}
        self._codes = DeviceCodes()
        self._many_codes = _FEW_COMBINATIONS
        """Combinations of devices from which on those that no task has are looked for."""
        self._unused = 0
        """Lines that no job uses any more."""
        self._by_row: Ints = np.zeros(0, np.int64)
        """Lines of tasks on nodes, sorted by row."""
        self._first: Ints = np.zeros(1, np.int64)
        """Row -> where its lines begin in that."""
        self._moved: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """True for rows that changed since."""
        self._changes = _Changes()

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self._columns.values())
        index = self._by_row.nbytes + self._first.nbytes + self._moved.nbytes
        return columns + index + self.jobs.nbytes

    def column(self, name: str) -> NDArray[Any]:
        """``jid``, ``tix``, ``state``, ``cid``, ``started``, ``devices`` (a code), ``row`` (-1: it
        holds no node)."""
        return self._columns[name][: self.count]

    # --- questions ----------------------------------------------------------------------------

    def jids_on(self, row: int) -> list[int]:
        """The jobs with tasks on a node, by number."""
        lines = self._lines_on(row)
        return [] if not len(lines) else np.unique(self._columns["jid"][lines]).tolist()

    def jids(self) -> list[int]:
        """All jobs that are known, by number."""
        jids: list[int] = self.jobs.column("jid")[self.jobs.column("known")].tolist()
        return jids

    def jids_on_nodes(self, qid: int, inside: bool | None = None) -> list[int]:
        """The jobs with a task on any node, by number. ``inside``: only those in this queue;
        False: only those in others; None: all."""
        jids = np.unique(self.column("jid")[self.column("row") >= 0])
        if inside is not None:
            slots = self.jobs.slots(jids)
            jids, slots = jids[slots >= 0], slots[slots >= 0]
            jids = jids[(self.jobs.column("qid")[slots] == qid) == inside]
        jid_list: list[int] = jids.tolist()
        return jid_list

    def counts(self, states: Iterable[TaskState], size: int) -> Ints:
        """How many tasks in one of these states each row has."""
        counted_states = np.zeros(len(TaskState), np.bool_)
        counted_states[[int(state) for state in states]] = True
        rows = self.column("row")[counted_states[self.column("state")]]
        return np.bincount(rows[(rows >= 0) & (rows < size)], minlength=size)

    def job(self, jid: int) -> ResidentJob | None:
        """A job with the states of its tasks; None where it is not known."""
        slot = self.jobs.slot(jid)
        if slot < 0:
            return None
        first = int(self.jobs.column("first")[slot])
        last = first + int(self.jobs.column("size")[slot])
        began = self._columns["started"][first:last].tolist()
        devices = self._columns["devices"][first:last].tolist()
        return ResidentJob(
            jid=jid,
            spec=self.jobs.spec(slot),
            gone=bool(self.jobs.column("gone")[slot]),
            states=self._columns["state"][first:last].tolist(),
            rows=self._columns["row"][first:last].tolist(),
            started={tix: at for tix, at in enumerate(began) if at},
            devices={tix: self._codes[code] for tix, code in enumerate(devices) if code},
        )

    def devices(self, lines: slice) -> list[Things]:
        """Devices that the tasks of these lines take."""
        codes, devices_by_code = self._columns["devices"][lines], self._codes
        return [devices_by_code[code] for code in codes.tolist()]

    def _lines_on(self, row: int) -> Ints:
        # Sorting all lines costs 15 to 60 ms, a look through one column far less (decision 0048):
        # below this limit a moved row is searched, beyond it the index is made anew for all of
        # them.
        if np.count_nonzero(self._moved) > FEW_MOVED:
            self._index()
        if row < len(self._moved) and self._moved[row]:
            return np.flatnonzero(self.column("row") == row)
        if row + 1 >= len(self._first):
            return self._by_row[:0]
        return self._by_row[self._first[row] : self._first[row + 1]]

    def _index(self) -> None:
        """Sort the lines by row."""
        rows = self.column("row")
        lines = np.flatnonzero(rows >= 0)
        self._by_row = lines[np.argsort(rows[lines], kind="stable")]
        size = len(self._moved)
        self._first = np.searchsorted(rows[self._by_row], np.arange(size + 1))
        self._moved = np.zeros(size, np.bool_)

    # --- keeping up ---------------------------------------------------------------------------

    def load(self, residents: Residents) -> None:
        """Fill an empty table. Apply the log after the snapshot that was read before next."""
        self.jobs.load(residents.jobs)
        self._codes = residents.devices
        self._carry_out(residents.tasks, 0.0)
        self._index()

    def apply(self, entries: Iterable[LogEntry], *, now: float = 0.0) -> None:
        """Apply the log. ``now``: when what begins to run in it is said to have begun, seconds
        since 1970."""
        for entry in entries:
            match entry:
                case CommitEntry():
                    for committed in entry.accepted:
                        self._committed(committed)
                case StatusEntry():
                    for item in entry.items:
                        self._status(item, now)
                case IntakeEntry():
                    for op in entry.ops:
                        self._stored(op, now)
                case _:
                    pass
        self._flush(now)
        if len(self._codes) > self._many_codes:  # only here: no change that waits names a code
            self._forget_combinations()

    def foresee_leaving(self, jid: int, tasks: Sequence[int]) -> Callable[[], None]:
        """Let placed tasks of a known job count as leaving, for a question. The returned function
        undoes it; the log must not be applied before."""
        first = int(self.jobs.column("first")[self.jobs.slot(jid)])
        lines = first + np.array(tasks, np.int64)
        column = self._columns["state"]
        before = column[lines]
        column[lines] = TaskState.RELEASING
        self.revision += 1

        def undo() -> None:
            column[lines] = before
            self.revision += 1

        return undo

    def _committed(self, committed: Committed) -> None:
        add, code = self._changes.add, self._codes.code
        for victims in committed.evictions:  # they go first: it may place the same task again
            where = victims.tasks, victims.rows
            add(victims.jid, *where, TaskState.RELEASING, cid=victims.cid, devices=_KEPT)
        for run in (*committed.core, *committed.tail):
            if run.kind == ALLOCATE:
                devices = code(run.devices)
                where = run.tasks, run.rows
                add(committed.jid, *where, TaskState.BINDING, cid=run.cid, devices=devices)

    def _status(self, item: StatusItem, now: float) -> None:
        if not item.adopted:
            where = item.tasks, item.rows
            self._changes.add(item.jid, *where, item.state, cid=_KEPT, devices=_KEPT)
            return
        devices = self._codes.code(item.devices)
        self._flush(now)  # what was held elsewhere keeps its class
        for tix, row in zip(item.tasks, item.rows, strict=True):
            line = self._line(item.jid, tix)
            holds = line >= 0 and self._columns["row"][line] >= 0
            cid = _KEPT if holds else item.cid
            self._changes.add(item.jid, (tix,), (row,), item.state, cid=cid, devices=devices)
        self._flush(now)

    def _stored(self, op: IntakeOp, now: float) -> None:
        match op:
            case PutJob():
                self.jobs.put(op.jid, op.qid, op.spec)
                self.revision += 1
            case DropJob():
                self.jobs.leave(op.jid)
                self.revision += 1
            case PurgeJob():
                # Collected changes name lines of this job; carried out after the purge they would
                # write into lines that are given up.
                self._flush(now)
                self._purge(op.jid)
            case _:
                pass

    def _line(self, jid: int, tix: int) -> int:
        slot = self.jobs.slot(jid)
        if slot < 0 or tix >= self.jobs.column("size")[slot]:
            return NOWHERE
        return int(self.jobs.column("first")[slot]) + tix

    def _flush(self, now: float) -> None:
        """Carry out the changes that were collected, the later ones of a task last."""
        if not self._changes.jids:
            return
        changes, self._changes = self._changes, _Changes()
        self._carry_out(changes.columns(), now)

    def _carry_out(self, tasks: Ints, now: float) -> None:
        """``tasks``: as :attr:`Residents.tasks`."""
        jids, tixs, states, rows, cids, devices = tasks
        slots = self.jobs.slots(jids)
        if (slots < 0).any():  # of jobs that are purged already, further on in the log
            is_known = slots >= 0
            slots, tixs, rows = slots[is_known], tixs[is_known], rows[is_known]
            states, cids, devices = states[is_known], cids[is_known], devices[is_known]
        self._make_room(slots, tixs)
        # A change that comes twice for one task is written twice into one line. NumPy lets the last
        # one win, which is the log's order.
        lines = self.jobs.column("first")[slots] + tixs
        # A report names the node also of a task that has ended; such a task is on no node any more.
        rows = np.where(_HOLDS[states], rows, NOWHERE)
        devices = np.where(_HOLDS[states], devices, NO_DEVICES)
        columns = self._columns
        # Both the row that a task leaves and the one that it comes to, so before the assignment
        # too.
        self._mark(columns["row"][lines])
        self._mark(rows)
        columns["row"][lines], columns["state"][lines] = rows, states
        named = cids != _KEPT
        columns["cid"][lines[named]] = cids[named]
        changed = devices != _KEPT
        columns["devices"][lines[changed]] = devices[changed]
        columns["started"][lines[states == TaskState.BINDING]] = 0.0
        columns["started"][lines[states == TaskState.RUNNING]] = now
        self.revision += 1

    def _forget_combinations(self) -> None:
        """Drop device combinations that no task has any more. Users choose the amounts, so the
        number of combinations ever seen has no bound."""
        column = self._columns["devices"]
        column[: self.count] = self._codes.forget_unused(column[: self.count])
        column[self.count :] = NO_DEVICES
        self._many_codes = max(_FEW_COMBINATIONS, 2 * len(self._codes))

    def _purge(self, jid: int) -> None:
        slot = self.jobs.slot(jid)
        if slot < 0:
            return
        first, size = int(self.jobs.column("first")[slot]), int(self.jobs.column("size")[slot])
        block = slice(first, first + size)
        self._mark(self._columns["row"][block])
        self._columns["row"][block] = NOWHERE
        self._columns["state"][block] = TaskState.PENDING
        self._columns["devices"][block] = NO_DEVICES
        self._unused += size
        self.jobs.forget(slot)
        self.jobs.tidy()
        self.revision += 1

    def _mark(self, rows: Ints) -> None:
        """Note that the residents of these rows changed."""
        most = int(rows.max(initial=NOWHERE))
        if most >= len(self._moved):
            more = max(most + 1, 2 * len(self._moved)) - len(self._moved)
            self._moved = np.concatenate([self._moved, np.zeros(more, np.bool_)])
            have = len(self._first)
            last = np.full(len(self._moved) + 1 - have, self._first[-1])
            self._first = np.concatenate([self._first, last])
        self._moved[rows[rows >= 0]] = True

    # --- lines --------------------------------------------------------------------------------

    def _make_room(self, slots: Ints, tixs: Ints) -> None:
        """Give every job lines for these tasks: a larger block at the end where its own is too
        small."""
        have = self.jobs.column("size")
        short = tixs >= have[slots]
        if not short.any():
            return
        if self._unused > max(_SPARE, self.count // 2):
            self._pack()
        growing, where = np.unique(slots[short], return_inverse=True)
        old = have[growing].astype(np.int64)
        needed = np.zeros(len(growing), np.int64)
        np.maximum.at(needed, where, tixs[short] + 1)
        # A first block is exact: jobs of one task take one line each. One that has to grow is
        # doubled, so that a job that grows task by task is not moved each time.
        sizes = np.where(old > 0, np.maximum(needed, 2 * old), needed)
        begin = self.count + np.cumsum(sizes) - sizes
        self._grow(self.count + int(sizes.sum()))
        first = self.jobs.column("first")
        new = slice(self.count, self.count + int(sizes.sum()))
        self.count = new.stop
        self._columns["jid"][new] = np.repeat(self.jobs.column("jid")[growing], sizes)
        self._columns["tix"][new] = np.arange(new.start, new.stop) - np.repeat(begin, sizes)
        self._columns["row"][new] = self._columns["cid"][new] = NOWHERE
        self._columns["state"][new] = TaskState.PENDING
        self._columns["devices"][new] = NO_DEVICES
        self._columns["started"][new] = 0.0
        for at in np.flatnonzero(old).tolist():
            self._move(int(first[growing[at]]), int(begin[at]), int(old[at]))
        first[growing] = begin
        have[growing] = sizes

    def _move(self, source: int, target: int, size: int) -> None:
        """Copy a block of lines, and give the old one up."""
        for column in self._columns.values():
            column[target : target + size] = column[source : source + size]
        self._mark(self._columns["row"][target : target + size])
        self._columns["row"][source : source + size] = NOWHERE
        # Lines that are given up must not be counted by who looks at whole columns.
        self._columns["state"][source : source + size] = TaskState.PENDING
        self._columns["devices"][source : source + size] = NO_DEVICES
        self._unused += size

    def _grow(self, size: int) -> None:
        if size <= len(self._columns["jid"]):
            return
        for name, column in self._columns.items():
            more = max(size, 2 * len(column)) - len(column)
            self._columns[name] = np.concatenate([column, np.zeros(more, column.dtype)])

    def _pack(self) -> None:
        """Write all lines anew, without those that no job uses."""
        first, sizes = self.jobs.column("first"), self.jobs.column("size").astype(np.int64)
        begin = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        lines = np.repeat(first - begin, sizes) + np.arange(total)
        for name, column in self._columns.items():
            self._columns[name] = column[lines]
        first[:] = begin
        self.count, self._unused = total, 0
        self._index()


class _Changes:
    """Changes of tasks as lists that run in parallel, to be carried out at once."""

    __slots__ = ("cids", "devices", "jids", "rows", "states", "tixs")

    def __init__(self) -> None:
        self.jids: list[int] = []
        self.tixs: list[int] = []
        self.rows: list[int] = []
        self.states: list[int] = []
        self.cids: list[int] = []
        self.devices: list[int] = []

    def add(
        self,
        jid: int,
        tixs: Iterable[int],
        rows: Iterable[int],
        state: int,
        *,
        cid: int,
        devices: int,
    ) -> None:
        before = len(self.tixs)
        self.tixs += tixs
        self.rows += rows
        size = len(self.tixs) - before
        self.jids += [jid] * size
        self.states += [state] * size
        self.cids += [cid] * size
        self.devices += [devices] * size

    def columns(self) -> Ints:
        """As :attr:`Residents.tasks`."""
        columns = (self.jids, self.tixs, self.states, self.rows, self.cids, self.devices)
        return np.array(columns, np.int64)
