"""Compares the totals of a picture of the ledger with its task records, and makes findings.

Works on columns: a slice sums :data:`SLICE_TASKS` tasks, or compares :data:`SLICE_RECORDS` records.
:meth:`Comparison.steps` yields between slices, so that its driver can give way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from coordinator.ledger_audit.group_sums import GroupSums
from coordinator.ledger_audit.node_sums import NodeSums
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.portions import portions
from coordinator.ledger_audit.queue_sums import QueueSums
from coordinator.ledger_audit.task_columns import TIX_BITS, Ints
from coordinator.ledger_audit.thing_sums import ThingSums
from shared.ledger.records import unpack_count
from shared.messages.messages import TaskState

SLICE_TASKS = 512
"""Tasks per slice: 1 ms for each of their sums (measured with 140,000 tasks on 20,000 nodes)."""
SLICE_RECORDS = 400
"""Records of nodes, queues or jobs per slice: 1 to 2 ms."""

Task = tuple[int, int]


class TotalsComparison:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.findings: list[Finding] = []
        self.binding: dict[Task, int] = {}
        """Tasks that are BINDING, with their rows. If one stays so, its bind entry is looked
        for."""
        self.groups = GroupSums(picture)

    def steps(self) -> Iterator[None]:
        """Make all findings slice by slice, except for groups: they may have pending members
        without records (:attr:`GroupSums.unclear`)."""
        picture, columns = self._picture, self._picture.tasks
        nodes, queues, things = NodeSums(picture), QueueSums(picture), ThingSums(picture)
        yield from nodes.prepare()
        for block in nodes.blocks():
            for lines in _slices(columns.count, SLICE_TASKS):
                # Each sum is a step: all of them together take 5 ms where every task is of another
                # job, however few there are (tests/coordinator/ledger_audit/test_slices.py).
                alive = self._alive(lines)
                yield
                nodes.add(alive)
                if block == 0:
                    yield
                    queues.add(alive)
                    yield
                    things.add(alive)
                    self.groups.add(alive)
                    self._note_binding(alive)
                yield
            yield from nodes.add_nominations()
            for rows in _slices(len(picture.nodes), SLICE_RECORDS):
                self.findings += nodes.compare(rows, first=block == 0)
                yield
        yield from things.add_devices()
        things.add_nominations()
        for findings in things.compare():
            self.findings += findings
            yield
        yield from queues.sum_up()
        for qids in portions(picture.queues, SLICE_RECORDS):
            self.findings += queues.compare(qids)
            yield
        for jids in portions(picture.jobs, SLICE_RECORDS):
            self.groups.compare(jids)
            yield
        for jids in portions(picture.nomination_records, SLICE_RECORDS):
            self.findings += self._stray_nominations(jids)
            yield
        for names in portions(picture.domains, SLICE_RECORDS):
            self.findings += self._negative_domains(names)
            yield

    def _alive(self, lines: slice) -> Ints:
        """Filter out lines whose job was forgotten meanwhile. Tasks without a job become findings,
        and count on their nodes as long as they have a record."""
        picture = self._picture
        keys = picture.tasks.column("key")[lines]
        numbers = np.arange(lines.start, lines.start + len(keys))
        jids, inverse = np.unique(keys >> TIX_BITS, return_inverse=True)
        queue_of_job = picture.job_queues
        strange = [
            jid for jid in jids.tolist() if jid not in queue_of_job or jid in picture.forgotten
        ]
        if not strange:
            return numbers
        forgotten = np.isin(jids, [jid for jid in strange if jid in picture.forgotten])[inverse]
        stray = np.isin(jids, [jid for jid in strange if jid not in picture.forgotten])[inverse]
        self._stray_tasks(numbers[stray])
        return numbers[~forgotten]

    def _stray_tasks(self, numbers: Ints) -> None:
        columns = self._picture.tasks
        reported = {finding.name for finding in self.findings}
        for line in numbers.tolist():
            state, row = columns.column("state")[line], columns.column("row")[line]
            key = int(columns.column("key")[line])
            name = key >> TIX_BITS, key & ((1 << TIX_BITS) - 1)
            if name not in reported and not columns.absent(line):
                record = b"%d on %d" % (state, row)
                kind = AuditKind.TASK_WITHOUT_JOB
                self.findings.append(Finding(kind, RecordKind.TASK, name, record, row=int(row)))

    def _note_binding(self, numbers: Ints) -> None:
        columns = self._picture.tasks
        binding = numbers[columns.column("state")[numbers] == TaskState.BINDING]
        for key, row in zip(
            columns.column("key")[binding].tolist(),
            columns.column("row")[binding].tolist(),
            strict=True,
        ):
            # Tasks of a dropped job are stopped at the cluster, and recorded by what it answers
            # (coordinator.jobs.deletion): an entry for one of them would start it.
            jid = key >> TIX_BITS
            if jid in self._picture.job_queues and jid not in self._picture.gone_jobs:
                self.binding[jid, key & ((1 << TIX_BITS) - 1)] = row

    def _stray_nominations(self, jids: Iterable[int]) -> Iterator[Finding]:
        picture = self._picture
        for jid in jids:
            ended = jid in picture.gone_jobs or jid in picture.forgotten
            if jid not in picture.job_queues or ended:
                kind, record = AuditKind.NOMINATION_WITHOUT_JOB, picture.nomination_records[jid]
                rows = [row for _, rows, _ in picture.nominations[jid] for row in rows]
                yield Finding(kind, RecordKind.NOMINATION, (jid,), record, row=[*rows, -1][0])

    def _negative_domains(self, names: Iterable[str]) -> Iterator[Finding]:
        for name in names:
            record = self._picture.domains[name]
            count = unpack_count(record, f"counter {name}")
            if count < 0:
                change = ((0, count, 0),)
                yield Finding(AuditKind.NEGATIVE, RecordKind.DOMAIN, (), record, change, key=name)


def _slices(count: int, size: int) -> Iterator[slice]:
    for first in range(0, count, size):
        yield slice(first, min(count, first + size))
