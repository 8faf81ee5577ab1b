"""The double's side of the ledger audit: pages of its tables, and the rules of ``repair.lua``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from shared.codec.checked import Malformed
from shared.codec.packed import replace
from shared.ledger import codec, records
from shared.ledger.entries.repair import (
    EVIDENCE,
    OPEN_ENTRIES,
    UNSEEN_VERSION,
    RepairRequest,
    RepairResult,
    Table,
    named_in,
)
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import BindEntry, TaskRecord
from shared.ledger.memory.books import Books, JobAccount, NodeBook, Overlay, QueueBook
from shared.ledger.records import ALLOCATABLE, NOMINATED, OBSERVED, RELEASING, USED
from shared.messages.messages import HOLDING, UNSUCCESSFUL, TaskState
from shared.records.specs_jobs import decode_job
from shared.units.things import Things

_BUCKETS = 4
"""Pages of a table that does not fit one: a field stays in its page, whatever is added or
removed."""


# --- pages ------------------------------------------------------------------------------------


def table_of(books: Books, table: Table) -> dict[str, bytes]:
    """All records of one table, packed as the server has them."""
    match table:
        case Table.NODE:
            return {str(row): node.packed() for row, node in books.nodes.items()}
        case Table.QUEUE:
            return {str(qid): pack_queue(queue) for qid, queue in books.queues.items()}
        case Table.CLASS:
            return {
                str(cid): records.pack_class(requests, b"", books.class_things[cid])
                for cid, requests in books.classes.items()
            }
        case Table.JOB:
            return {str(jid): records.pack_job(job.record()) for jid, job in books.jobs.items()}
        case Table.JOB_SPEC:
            return {str(jid): spec for jid, spec in books.job_specs.items()}
        case Table.TASK:
            return {
                f"{jid}.{tix}": records.pack_task(task, jid, tix)
                for (jid, tix), task in books.tasks.items()
            }
        case Table.NOMINATION:
            return {str(jid): pack_nomination(n) for jid, n in books.nominations.items()}
        case Table.THING:
            return {f"{row}/{name}": thing.packed() for (row, name), thing in books.things.items()}
        case Table.DOMAIN:
            return {name: records.pack_count(n) for name, n in books.domains.items()}


def page_of(
    books: Books, table: Table, cursor: int, count: int, fields: Sequence[str]
) -> tuple[int, list[tuple[bytes, bytes]]]:
    """One page of a table: (cursor of the next page, records)."""
    records_by_name = table_of(books, table)
    following = 0
    if fields:
        records_by_name = {
            name: records_by_name[name] for name in fields if name in records_by_name
        }
    elif len(records_by_name) > count or cursor:
        records_by_name = {
            k: v for k, v in records_by_name.items() if crc32(k.encode()) % _BUCKETS == cursor
        }
        following = (cursor + 1) % _BUCKETS
    return following, [(name.encode(), record) for name, record in records_by_name.items()]


def pack_queue(queue: QueueBook) -> bytes:
    lists = (queue.used, queue.capability, queue.guarantee, queue.leaving)
    return records.pack_queue(queue.parent, *lists)


def pack_nomination(nomination: Nomination) -> bytes:
    runs = [
        [run.cid, run.group, run.tasks, run.rows, run.levels]
        + ([records.pack_devices(run.devices)] if run.devices else [])
        for run in nomination.runs
    ]
    return records.sealed(
        codec.pack([nomination.priority, nomination.since, nomination.expiry, runs])
    )


# --- the repair -------------------------------------------------------------------------------


@dataclass(slots=True)
class Repairing:
    """Judges one batch on an overlay; the parts run in the order of the script."""

    overlay: Overlay
    request: RepairRequest
    open_binds: list[BindEntry]
    ended: list[int] = field(default_factory=list)
    binds: list[tuple[int, int, list[int], list[int]]] = field(default_factory=list)
    lives: dict[tuple[int, int], int] = field(default_factory=dict)
    devices: dict[tuple[int, int], Things] = field(default_factory=dict)
    _rows: set[int] = field(default_factory=set)
    """Nodes to recompute: those requested, and those of removed records."""
    _stale: set[int] = field(default_factory=set)

    def judge(self) -> list[list[RepairResult]]:
        """The results for nodes, queues, jobs, nominations, counters and tasks, in the order of the
        request."""
        overlay, request = self.overlay, self.request
        overlay.begin()
        tasks = [self._judge_task(*item) for item in request.tasks]
        nominations = [self._judge_nomination(*item) for item in request.nominations]
        nodes = self._judge_nodes()
        sums = self._queue_sums() if request.queues else {}
        queues = [self._judge_queue(qid, evidence, sums) for qid, evidence in request.queues]
        jobs = [self._judge_job(*item) for item in request.jobs]
        domains = [self._judge_domain(*item) for item in request.domains]
        return [nodes, queues, jobs, nominations, domains, tasks]

    # --- tasks --------------------------------------------------------------------------------

    def _judge_task(self, jid: int, tix: int, evidence: bytes) -> RepairResult:
        task, job = self.overlay.tasks.get((jid, tix)), self.overlay.jobs.get(jid)
        if task is None or records.pack_task(task, jid, tix) != evidence:
            return RepairResult.MOVED
        if job is None:
            self.overlay.tasks.put((jid, tix), None)
            if task.state in HOLDING:
                self._rows.add(task.row)
            return RepairResult.REPAIRED
        if task.state != TaskState.BINDING or job.gone:
            return RepairResult.SOUND
        return self._bind_again(jid, tix, task)

    def _bind_again(self, jid: int, tix: int, task: TaskRecord) -> RepairResult:
        if len(self.open_binds) >= OPEN_ENTRIES:
            return RepairResult.DEFERRED
        if (jid, tix, task.row) in named_in(self.open_binds):
            return RepairResult.SOUND
        self.binds.append((jid, task.cid, [tix], [task.row]))
        if task.life:
            self.lives[jid, tix] = task.life
        if task.devices:
            self.devices[jid, tix] = task.devices
        self.overlay.tasks.put((jid, tix), replace(task, version=task.version + 1))
        return RepairResult.REPAIRED

    # --- nominations ----------------------------------------------------------------------------

    def _judge_nomination(self, jid: int, evidence: bytes) -> RepairResult:
        nomination, job = self.overlay.nominations.get(jid), self.overlay.jobs.get(jid)
        if nomination is None or pack_nomination(nomination)[-EVIDENCE:] != evidence:
            return RepairResult.MOVED
        if job is not None and not job.gone:
            return RepairResult.SOUND
        self._rows.update(row for run in nomination.runs for row in run.rows)
        self.overlay.nominations.put(jid, None)
        self.ended.append(jid)
        return RepairResult.REPAIRED

    # --- nodes ----------------------------------------------------------------------------------

    def _judge_nodes(self) -> list[RepairResult]:
        evidence_by_row = dict(self.request.nodes)
        for row, evidence in evidence_by_row.items():
            node = self.overlay.nodes.get(row)
            if node is None or node.packed()[-EVIDENCE:] != evidence:
                self._stale.add(row)
        results = {row: self._judge_node(row) for row in self._rows | evidence_by_row.keys()}
        return [results[row] for row, _ in self.request.nodes]

    def _judge_node(self, row: int) -> RepairResult:
        if row in self._stale:
            return RepairResult.MOVED
        node = self.overlay.nodes.own(row)
        if node is None:
            return RepairResult.UNKNOWN
        before = node.clone()
        if not self._sum_up(row, node):
            node.slots = before.slots
            return RepairResult.UNKNOWN
        padding = [[0] * 5] * (len(node.slots) - len(before.slots))
        if node.slots == before.slots + padding and not self._things_moved(row):
            return RepairResult.SOUND
        self.overlay.touch(row)
        return RepairResult.REPAIRED

    def _things_moved(self, row: int) -> bool:
        """True where a named thing of the node changed; idle ones have no record."""
        before = self.overlay.books.things
        now = {key: t.amounts for key, t in self.overlay.things.all() if key[0] == row}
        return any(
            [of for of in amounts if any(of)]
            != [of for of in (before[key].amounts if key in before else []) if any(of)]
            for key, amounts in now.items()
        )

    def _sum_up(self, row: int, node: NodeBook) -> bool:
        overlay = self.overlay
        placed = [
            task for _, task in overlay.tasks.all() if task.state in HOLDING and task.row == row
        ]
        promised = [
            run
            for _, nomination in overlay.nominations.all()
            for run in nomination.runs
            for at in run.rows
            if at == row
        ]
        held = [*(run.cid for run in promised), *(task.cid for task in placed)]
        if any(cid not in overlay.classes for cid in held):
            return False
        for slot, values in enumerate(node.slots):
            if values[ALLOCATABLE] < 0:
                values[ALLOCATABLE] = overlay.implied_of(slot)
        _clear(node.slots)
        for (at, name), _ in [*overlay.things.all()]:
            if at == row:
                _clear(overlay.own_thing(row, name, 0).amounts)
        for task in placed:
            overlay.add_to_node(row, task.cid, USED, 1, devices=task.devices)
            if task.state == TaskState.RELEASING:
                overlay.add_to_node(row, task.cid, RELEASING, 1, devices=task.devices)
        for run in promised:
            overlay.add_to_node(row, run.cid, NOMINATED, 1, devices=run.devices)
        return True

    # --- queues ---------------------------------------------------------------------------------

    def _queue_sums(self) -> dict[int, tuple[dict[int, int], dict[int, int]] | None]:
        """qid -> (used, leaving), by slot; None where they are not known."""
        overlay = self.overlay
        sums: dict[int, tuple[dict[int, int], dict[int, int]] | None] = {}
        for (jid, _), task in overlay.tasks.all():
            job = overlay.jobs.get(jid)
            if job is None or task.state not in HOLDING:
                continue
            for qid, _ in overlay.chain(job.qid):
                if task.cid not in overlay.classes:
                    sums[qid] = None
                elif (of := sums.setdefault(qid, ({}, {}))) is not None:
                    for slot, amount, _ in overlay.classes[task.cid]:
                        of[0][slot] = of[0].get(slot, 0) + amount
                        if task.state == TaskState.RELEASING:
                            of[1][slot] = of[1].get(slot, 0) + amount
        return sums

    def _judge_queue(
        self,
        qid: int,
        evidence: bytes,
        sums: Mapping[int, tuple[dict[int, int], dict[int, int]] | None],
    ) -> RepairResult:
        queue = self.overlay.queues.own(qid)
        if queue is None or pack_queue(queue)[-EVIDENCE:] != evidence:
            return RepairResult.MOVED
        totals = sums.get(qid, ({}, {}))
        if totals is None:
            return RepairResult.UNKNOWN
        queue.grow(1 + max((slot for slot, n in totals[0].items() if n), default=-1))
        used = [totals[0].get(slot, 0) for slot in range(len(queue.used))]
        leaving = [totals[1].get(slot, 0) for slot in range(len(queue.used))]
        if (used, leaving) == (queue.used, queue.leaving):
            return RepairResult.SOUND
        queue.used, queue.leaving = used, leaving
        self.overlay.queues.dirty.add(qid)
        return RepairResult.REPAIRED

    # --- groups ---------------------------------------------------------------------------------

    def _judge_job(self, jid: int, evidence: bytes) -> RepairResult:
        job = self.overlay.jobs.own(jid)
        if job is None or records.pack_job(job.record())[-EVIDENCE:] != evidence:
            return RepairResult.MOVED
        before = job.clone()
        job.groups = [replace(group, held=0) for group in job.groups]
        of = {tix: task for (j, tix), task in self.overlay.tasks.all() if j == jid}
        for tix, task in of.items():
            job.top = max(job.top, tix + 1)
            if task.group < len(job.groups) and self._counts(task):
                job.add(task.group, 1)
        if job.groups == before.groups:
            return self._leave(job, before, RepairResult.SOUND)
        try:
            roles = decode_job(self.overlay.books.job_specs.get(jid, b"")).roles
        except Malformed:
            return self._leave(job, before, RepairResult.UNKNOWN)
        for role in roles:
            if self.overlay.best_effort(role.cid):
                members = range(role.first, role.first + role.count)
                job.add(role.group, sum(tix not in of for tix in members))
        if job.groups == before.groups:
            return self._leave(job, before, RepairResult.SOUND)
        self.overlay.jobs.dirty.add(jid)
        return RepairResult.REPAIRED

    def _leave(self, job: JobAccount, before: JobAccount, result: RepairResult) -> RepairResult:
        job.groups, job.top = before.groups, before.top
        return result

    def _counts(self, task: TaskRecord) -> bool:
        if task.state in UNSUCCESSFUL or task.by >= 0:
            return False
        return task.state != TaskState.PENDING or self.overlay.best_effort(task.cid)

    # --- counters -------------------------------------------------------------------------------

    def _judge_domain(self, name: str, evidence: bytes) -> RepairResult:
        count = self.overlay.domains.get(name)
        if count is None or records.pack_count(count)[-EVIDENCE:] != evidence:
            return RepairResult.MOVED
        if count >= 0:
            return RepairResult.SOUND
        self.overlay.domains.put(name, UNSEEN_VERSION)
        return RepairResult.REPAIRED


def _clear(amounts: list[list[int]]) -> None:
    """Set all holdings to zero, and negative allocatable or observed amounts too."""
    for values in amounts:
        values[ALLOCATABLE] = max(0, values[ALLOCATABLE])
        values[OBSERVED] = max(0, values[OBSERVED])
        values[USED] = values[RELEASING] = values[NOMINATED] = 0
