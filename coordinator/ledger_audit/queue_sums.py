"""Compares what the tasks of a queue and of all queues below it hold with the queue's record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from coordinator.ledger_audit.findings import QUEUE_PART, AuditKind, Finding, RecordKind
from coordinator.ledger_audit.picture import Picture, chain_of
from coordinator.ledger_audit.portions import portions
from coordinator.ledger_audit.task_columns import TIX_BITS, Ints
from shared.ledger.records import unpack_queue
from shared.messages.messages import TaskState

SLICE_COUNTS = 200
"""(queue, class) pairs charged per step: 1 ms with three ancestors."""


class QueueSums:
    """Tasks are first counted by queue and class; amounts, which may exceed 2**63, are computed at
    the end."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._counts: Counter[tuple[int, int, bool]] = Counter()
        """(qid of the job, cid, leaving) -> number of tasks."""
        self._sums: dict[int, tuple[Counter[int], Counter[int]]] = {}
        self._unknown: set[int] = set()

    def add(self, lines: Ints) -> None:
        """Add tasks, by the numbers of their lines."""
        columns = self._picture.tasks
        lines = columns.holding(lines)
        leaving = columns.column("state")[lines] == TaskState.RELEASING
        jids, inverse = np.unique(columns.column("key")[lines] >> TIX_BITS, return_inverse=True)
        of = self._picture.job_queues
        qids = np.array([of.get(jid, -1) for jid in jids.tolist()], np.int64)[inverse]
        triples = np.stack([qids, columns.column("cid")[lines], leaving], axis=1)
        if not len(triples):
            return
        kinds, counts = np.unique(triples, axis=0, return_counts=True)
        for (qid, cid, leaves), count in zip(kinds.tolist(), counts.tolist(), strict=True):
            self._counts[qid, cid, bool(leaves)] += count

    def compare(self, qids: Iterable[int]) -> Iterator[Finding]:
        """Findings of these queues. Queues charged after their record was read are skipped."""
        for qid in qids:
            if qid in self._picture.moved_queues:
                continue
            record = self._picture.queues[qid]
            recorded = unpack_queue(record, f"queue {qid}")
            used, leaving = self._sums.get(qid, (Counter(), Counter()))
            yield from self._finding(AuditKind.QUEUE_USED, qid, recorded.used, used)
            yield from self._finding(AuditKind.QUEUE_LEAVING, qid, recorded.leaving, leaving)
            others = {**recorded.capability, **recorded.guarantee}
            below = tuple((slot, n, 0) for slot, n in sorted(others.items()) if n < 0)
            if below:
                yield Finding(
                    AuditKind.NEGATIVE, RecordKind.QUEUE, (qid,), record, below, recomputable=False
                )

    def _finding(
        self, kind: AuditKind, qid: int, has: Mapping[int, int], should: Mapping[int, int]
    ) -> Iterator[Finding]:
        wrong = tuple(
            (slot, has.get(slot, 0), should.get(slot, 0))
            for slot in sorted(has.keys() | should.keys())
            if has.get(slot, 0) != should.get(slot, 0)
        )
        if wrong:
            record, complete = self._picture.queues[qid], qid not in self._unknown
            part = QUEUE_PART[kind]
            yield Finding.of_sums(
                kind, RecordKind.QUEUE, (qid,), record, wrong, part=part, recomputable=complete
            )

    def sum_up(self) -> Iterator[None]:
        """Charge the counts to the queues and their ancestors; call it before :meth:`compare`."""
        for some in portions(self._counts.items(), SLICE_COUNTS):
            for (qid, cid, leaves), count in some:
                for above in chain_of(self._picture.queues, qid):
                    self._charge(above, cid, count, leaves=leaves)
            yield

    def _charge(self, qid: int, cid: int, count: int, *, leaves: bool) -> None:
        task_class = self._picture.classes.get(cid)
        if task_class is None:
            self._unknown.add(qid)
            return
        used, leaving = self._sums.setdefault(qid, (Counter(), Counter()))
        for slot, amount in task_class.requests:
            used[slot] += count * amount
            if leaves:
                leaving[slot] += count * amount
