"""One look at the whole ledger, as a state machine: which page to read next, and what came of it.

Pure, so that the service and the seeded run share it: the one asks a server and gives way between
slices, the other asks a double. Tables come in an order in which what is compared last is read
last: the picture holds still only in what it followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from coordinator.ledger_audit.comparison import Comparison, Task
from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.picture import Picture
from shared.ledger.entries.repair import AuditPage, Table

PAGE_RECORDS = 1000
"""Records of one page: 1 ms of the server's time, and 1 to 2 ms of the reader's."""
TAKE_RECORDS = 250
"""Of these so many are read at once: 1 ms where they are classes."""
QUEUE_RECORDS = 4000
"""Queues are read at once, so that all of them are compared at one position: 2 ms at 4,000. Where
there are more, those that were charged while the rest was read wait for the next look."""
MOVED_JOBS = 1000
"""Jobs read again at the end because they moved since they were read. Of more, the rest waits for
the next look; only a job whose tasks move all the time is ever among them twice."""
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
class Question:
    """A page to read: from a cursor on, or these fields."""

    table: Table
    cursor: int = 0
    count: int = PAGE_RECORDS
    fields: tuple[str, ...] = ()


class AuditPass:
    """Ask :meth:`question`, answer with :meth:`take`, until there is none; then :meth:`compare`,
    then the specifications (:meth:`specs_wanted`), then :attr:`findings` is complete."""

    def __init__(self, *, since: str, count: int = PAGE_RECORDS) -> None:
        """``since``: the end of the log when the look began; ``count``: records of a page."""
        self.log_id = since
        """Up to where the log was followed."""
        self.picture = Picture()
        self.findings: list[Finding] = []
        self.binding: dict[Task, int] = {}
        """Tasks in BINDING and their rows, after :meth:`compare`."""
        self._comparison: Comparison | None = None
        self._count = count
        self._questions = self._ask()
        self._cursor = 0
        self._asked: Question | None = next(self._questions)

    @property
    def question(self) -> Question | None:
        return self._asked

    def _ask(self) -> Iterator[Question]:
        for table in _ORDER:
            yield Question(table, count=self._count)
            while self._cursor:
                yield Question(table, self._cursor, self._count)
        existing = (jid for jid in self.picture.moved_jobs if jid in self.picture.jobs)
        changed_jids = [*islice(existing, MOVED_JOBS)]  # to sort all of 100,000 takes 20 ms
        for at in range(0, len(changed_jids), PAGE_RECORDS):
            yield Question(Table.JOB, fields=tuple(map(str, changed_jids[at : at + PAGE_RECORDS])))
        yield Question(Table.QUEUE, count=QUEUE_RECORDS)
        while self._cursor:
            yield Question(Table.QUEUE, self._cursor, QUEUE_RECORDS)

    def take(self, page: AuditPage) -> Iterator[None]:
        """Follow the log step by step, then add the page. Raises LedgerAltered.

        To be driven to its end: in between the picture may stand in the middle of an entry."""
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
        """Slice by slice."""
        self._comparison = comparison = Comparison(self.picture)
        yield from comparison.steps()
        self.findings = comparison.findings
        self.binding = comparison.binding

    def specs_wanted(self) -> Iterator[Question]:
        """Specifications of jobs that cannot be judged without."""
        assert self._comparison is not None
        jids = self._comparison.groups.unclear
        for at in range(0, len(jids), SPEC_RECORDS):
            yield Question(Table.JOB_SPEC, fields=tuple(map(str, jids[at : at + SPEC_RECORDS])))

    def take_specs(self, question: Question, page: AuditPage) -> None:
        """Entries of the log do not matter any more: a job whose specification moved since has
        another record, too, and is refused by the ledger."""
        assert self._comparison is not None
        groups = self._comparison.groups
        specs = {int(name): spec for name, spec in page.records}
        self.findings += groups.compare_unclear(map(int, question.fields), specs)
