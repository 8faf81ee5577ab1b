"""One pass over the whole ledger, as a state machine: the next page to read, and the result.

Pure: pages in, findings out. Tables are ordered so that those compared last are read last, since
the picture is consistent only as of the position it followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from coordinator.ledger_audit.comparison import Task, TotalsComparison
from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.task_columns import LINES, TaskColumns
from shared.ledger.entries.audit import AuditPage, Table

PAGE_RECORDS = 300
"""Records per page: 1 to 3 ms of the server's time, and less than 1 ms of the reader's."""
TAKE_RECORDS = 250
"""Records of a page processed per step: 1 ms if they are classes."""
QUEUE_RECORDS = 4000
"""Queues are read at once, so that all are compared at one position: 2 ms at 4,000. If there are
more, those charged while the rest was read wait for the next pass."""
MOVED_JOBS = 1000
"""Maximum number of jobs read again at the end because they changed after they were read. The rest
waits for the next pass; only a job whose tasks change all the time is among them twice."""
SPEC_RECORDS = 200
"""Job specifications read at once: decoding one takes 20 us."""

_ORDER = (
    Table.CLASS,
    Table.TASK,
    Table.NODE,
    Table.THING,
    Table.NOMINATION,
    Table.DOMAIN,
    Table.JOB,
)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to read: from a cursor on, or the given fields."""

    table: Table
    cursor: int = 0
    count: int = PAGE_RECORDS
    fields: tuple[str, ...] = ()


class AuditPass:
    """Answer :attr:`question` with :meth:`take` until there is none; then :meth:`compare`, then
    read the specifications (:meth:`specs_wanted`); then :attr:`findings` is complete."""

    def __init__(self, since: str, *, count: int = PAGE_RECORDS, tasks: int = LINES) -> None:
        """``since``: the end of the log when the pass began; ``count``: records per page;
        ``tasks``: the number to have room for at first."""
        self.log_id = since
        """Position up to which the log was followed."""
        self.picture = Picture(TaskColumns(tasks))
        self.findings: list[Finding] = []
        self.binding: dict[Task, int] = {}
        """Tasks in BINDING and their rows; filled by :meth:`compare`."""
        self._comparison: TotalsComparison | None = None
        self._count = count
        self._questions = self._ask()
        self._cursor = 0
        self._asked: PageRequest | None = next(self._questions)

    @property
    def question(self) -> PageRequest | None:
        return self._asked

    def _ask(self) -> Iterator[PageRequest]:
        for table in _ORDER:
            yield PageRequest(table, count=self._count)
            while self._cursor:
                yield PageRequest(table, self._cursor, self._count)
        existing = (jid for jid in self.picture.moved_jobs if jid in self.picture.jobs)
        changed_jids = [*islice(existing, MOVED_JOBS)]  # to sort all of 100,000 takes 20 ms
        for at in range(0, len(changed_jids), PAGE_RECORDS):
            yield PageRequest(
                Table.JOB, fields=tuple(map(str, changed_jids[at : at + PAGE_RECORDS]))
            )
        yield PageRequest(Table.QUEUE, count=QUEUE_RECORDS)
        while self._cursor:
            yield PageRequest(Table.QUEUE, self._cursor, QUEUE_RECORDS)

    def take(self, page: AuditPage) -> Iterator[None]:
        """Follow the log step by step, then add the page. Raises LedgerAltered.

        Must be run to its end: in between, the picture may be in the middle of an entry.
        """
        for portion in page.entries:
            if portion is not None:
                yield from self.picture.follow(portion)
                self.log_id = portion.id
            yield
        if page.current and self._asked is not None:
            for first in range(0, len(page.records), TAKE_RECORDS):
                some = page.records[first : first + TAKE_RECORDS]
                self.picture.take(self._asked.table, some)
                yield
            self._cursor = page.cursor
            self._asked = next(self._questions, None)
            yield

    # --- at the end -----------------------------------------------------------------------------

    def compare(self) -> Iterator[None]:
        """Compare slice by slice."""
        self._comparison = comparison = TotalsComparison(self.picture)
        yield from comparison.steps()
        self.findings = comparison.findings
        self.binding = comparison.binding

    def specs_wanted(self) -> Iterator[PageRequest]:
        """Specifications of jobs that cannot be judged without them."""
        assert self._comparison is not None
        jids = self._comparison.groups.unclear
        for at in range(0, len(jids), SPEC_RECORDS):
            yield PageRequest(Table.JOB_SPEC, fields=tuple(map(str, jids[at : at + SPEC_RECORDS])))

    def take_specs(self, question: PageRequest, page: AuditPage) -> None:
        """Judge jobs by their specifications. Later log entries do not matter: a finding counts
        only if the next look has it too."""
        assert self._comparison is not None
        groups = self._comparison.groups
        specs = {int(name): spec for name, spec in page.records}
        self.findings += groups.compare_unclear(map(int, question.fields), specs)
