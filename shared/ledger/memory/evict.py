"""The double's judgement of evictions: the rules of the commit script in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shared.codec.packed import replace
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import Evicted, TaskRecord
from shared.ledger.gang_minimum import lacks
from shared.ledger.memory.books import Overlay
from shared.ledger.records import NOMINATED, RELEASING
from shared.messages.messages import (
    GUARD_GANG,
    GUARD_GUARANTEE,
    EvictRun,
    Statement,
    TaskState,
    Verdict,
    promises_of,
)

Finding = tuple[Verdict, int]
FINE: Finding = (Verdict.COMMITTED, -1)


@dataclass(slots=True)
class Evicting:
    """The evictions of one statement: judged, then carried out or undone."""

    overlay: Overlay
    statement: Statement
    misfit: Callable[[EvictRun, int], Verdict]
    """Whether a row has room for one more of the tasks that move there."""
    _before: list[tuple[EvictRun, list[TaskRecord]]] = field(default_factory=list)
    _promised: list[tuple[EvictRun, int]] = field(default_factory=list)
    """(run, row) of each promise of a task that moves."""

    def judge(self) -> Finding:
        """Judge the evictions. Where all are allowed the victims become releasing, else nothing
        changes."""
        for run in self.statement.evictions:
            finding = self._evict(run)
            if finding != FINE:
                self.undo()
                return finding
        finding = self._guards()
        if finding == FINE:
            finding = self._promise_moves()
        if finding != FINE:
            self.undo()
        return finding

    def undo(self) -> None:
        for run, row in self._promised:
            self.overlay.add_to_node(row, run.cid, NOMINATED, -1, devices=run.devices)
            self.overlay.untouch(row)
        self._promised = []
        for run, records in self._before:
            for tix, record in zip(run.tasks, records, strict=True):
                self.overlay.tasks.put((run.jid, tix), record)
            self._mark(run, records, -1)
        self._before = []

    def book(self) -> list[Evicted]:
        """Record the victims of an accepted statement; return the evictions for the bind stream."""
        s, evictions = self.statement, []
        for run, records in self._before:
            self.overlay.jobs.dirty.add(run.jid)
            for tix, record in zip(run.tasks, records, strict=True):
                self.overlay.tasks.put((run.jid, tix), _leaving(record, s.jid, s.reason))
            lives = [record.life for record in records]
            if lives:
                columns = (run.tasks, run.rows, lives, run.to)
                evictions.append(Evicted(run.jid, s.jid, s.reason, *columns))
        return evictions

    # --- moves ------------------------------------------------------------------------------

    def _promise_moves(self) -> Finding:
        """Judge the new places of those that move, one by one: each takes room from the next."""
        for run in self.statement.evictions:
            if run.to and self.overlay.nominations.get(run.jid) is not None:
                return Verdict.TASK, run.tasks[0]
            for row, spec in zip(run.to, run.specs, strict=True):
                node = self.overlay.nodes.get(row)
                if node is None or node.spec_version != spec:
                    return Verdict.NODE, row
                verdict = self.misfit(run, row)
                if verdict is not Verdict.COMMITTED:
                    return verdict, row
                self.overlay.touch(row)
                self.overlay.add_to_node(row, run.cid, NOMINATED, 1, devices=run.devices)
                self._promised.append((run, row))
        return FINE

    def promises(self, now: float) -> list[Nomination]:
        """The nominations of an accepted statement for the jobs whose tasks move."""
        s = self.statement
        return [
            Nomination(
                jid,
                moves[0].priority,
                now,
                s.expiry,
                [replace(run.promise, versions=[], specs=[]) for run in moves],
            )
            for jid, moves in promises_of(s.evictions).items()
        ]

    def _evict(self, run: EvictRun) -> Finding:
        job = self.overlay.jobs.get(run.jid)
        if job is None or job.gone or job.spec_version != run.job_version:
            return Verdict.JOB, run.jid
        records: list[TaskRecord] = []
        finding = FINE
        for tix, row in zip(run.tasks, run.rows, strict=True):
            record = self.overlay.tasks.get((run.jid, tix))
            if record is None or not _may_go(record, run, row):
                finding = (Verdict.TASK, tix)
                break
            records.append(record)
            self.overlay.tasks.put((run.jid, tix), _leaving(record, self.statement.jid, ""))
        if finding == FINE:
            self._before.append((run, records))
            self._mark(run, records, 1)
        else:
            for tix, record in zip(run.tasks, records, strict=False):
                self.overlay.tasks.put((run.jid, tix), record)
        return finding

    def _mark(self, run: EvictRun, records: list[TaskRecord], sign: int) -> None:
        """Count what the victims hold as leaving, or with -1 undo that."""
        for row, record in zip(run.rows, records, strict=True):
            self.overlay.add_to_node(row, run.cid, RELEASING, sign, devices=record.devices)
            if sign > 0:
                self.overlay.touch(row)
            else:
                self.overlay.untouch(row)
        if run.tasks:
            job = self.overlay.jobs.must_own(run.jid)
            job.add(run.group, -sign * len(run.tasks))
            self.overlay.leave(job.qid, run.cid, sign * len(run.tasks))

    # --- guards -----------------------------------------------------------------------------

    def _guards(self) -> Finding:
        runs = self.statement.evictions
        for group in map(self._broken_group, _guarded(runs, GUARD_GANG)):
            if group is not None:
                return Verdict.GANG, group
        for qid in map(self._robbed_queue, _guarded(runs, GUARD_GUARANTEE)):
            if qid is not None:
                return Verdict.QUEUE, qid
        return FINE

    def _broken_group(self, run: EvictRun) -> int | None:
        job = self.overlay.jobs.must_own(run.jid)
        for index in job.chain(run.group):
            if job.groups[index].held > run.rest and lacks(job.groups, index):
                return index
        return None

    def _robbed_queue(self, run: EvictRun) -> int | None:
        for qid, queue in self.overlay.chain(self.overlay.jobs.must_own(run.jid).qid):
            columns = zip(queue.used, queue.leaving, queue.guarantee, strict=True)
            if any(used - leaving < guaranteed for used, leaving, guaranteed in columns):
                return qid
        return None


def _guarded(runs: Iterable[EvictRun], guard: int) -> list[EvictRun]:
    return [run for run in runs if run.guards & guard]


def _may_go(record: TaskRecord, run: EvictRun, row: int) -> bool:
    is_placed = record.state in (TaskState.BOUND, TaskState.RUNNING) and record.row == row
    return is_placed and (record.cid, record.group) == (run.cid, run.group)


def _leaving(record: TaskRecord, by: int, why: str) -> TaskRecord:
    return replace(
        record, state=int(TaskState.RELEASING), version=record.version + 1, by=by, why=why
    )
