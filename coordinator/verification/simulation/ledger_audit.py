"""The ledger audit in a seeded run, page by page between other events.

It reads the double directly and draws nothing from the seed, so that a run is the same with and
without it. Confirmed findings are repaired as in the service, and fail the run all the same: no
script may cause them.
"""

from __future__ import annotations

from coordinator.ledger_audit.bind_watch import BindWatch
from coordinator.ledger_audit.findings import Finding, Subject, confirmed
from coordinator.ledger_audit.look import AuditPass, Question
from coordinator.ledger_audit.repairing import Task, lost_binds, request_of
from coordinator.verification.simulation.process import Process
from coordinator.verification.simulation.service_edges import ServiceEdges
from shared.ledger.entries.repair import AuditPage, Table, named_in
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.ledger.records import unpack_task

PAGE_SECONDS = 0.05
"""Pause between pages. In a run of a few seconds there are several passes, with most changes in the
middle of one."""
PAGE_RECORDS = 12
"""Few, so that tables have several pages and change between them."""
TASKS = 256
"""Room that a pass begins with. That of the service, 20 MB, took a sixth of a run's time to get and
give back."""
BIND_SECONDS = 1.0
"""Shorter than in the service: here answers are lost for tenths of a second, not for seconds."""


class SimulatedAudit:
    def __init__(self, *, process: Process, ledger: LedgerDouble, edges: ServiceEdges) -> None:
        self.found: list[Finding] = []
        """Confirmed findings."""
        self.looks = 0
        self._process = process
        self._ledger = ledger
        self._edges = edges
        self._watch = BindWatch(BIND_SECONDS)
        self._before: list[Finding] = []
        self._look = self._new_look()
        self._clean_at = ""
        """The end of the log when the last pass began, if it found nothing and nothing is BINDING:
        another pass over the same ledger would find the same."""

    def begin(self) -> None:
        self._process.round(PAGE_SECONDS, self._step, background=True)

    def _new_look(self) -> AuditPass:
        self._since = at_once(self._ledger.log_tail())
        return AuditPass(since=self._since, count=PAGE_RECORDS, tasks=TASKS)

    def _step(self) -> None:
        if at_once(self._ledger.log_tail()) == self._clean_at:
            self.begin()
            return
        question = self._look.question
        if question is None:
            self._finish()
        else:
            for _ in self._look.take(self._page(question)):
                pass
        self.begin()

    def _page(self, question: Question) -> AuditPage:
        return at_once(
            self._ledger.audit_page(
                question.table,
                after=self._look.log_id,
                cursor=question.cursor,
                count=question.count,
                fields=question.fields,
            )
        )

    def _finish(self) -> None:
        look = self._look
        for _ in look.compare():
            pass
        for question in look.specs_wanted():
            look.take_specs(question, self._last_page(question))
        for _ in self._watch.noting(look.binding, self._process.now):
            pass
        stuck = self._watch.stuck
        findings = [*look.findings, *(self._lost_binds(stuck) if stuck else ())]
        counted = confirmed(self._before, findings)
        self.found += counted
        self.looks += 1
        if counted:
            tasks = [(f.name[0], f.name[1]) for f in counted if f.subject is Subject.TASK]
            self._edges.repair(request_of(counted, self._tasks(tasks)))
        is_clean = not findings and not look.binding
        self._clean_at = self._since if is_clean else ""
        self._before, self._look = findings, self._new_look()

    def _last_page(self, question: Question) -> AuditPage:
        page = self._page(question)
        while not page.current:
            for _ in self._look.take(page):
                pass
            page = self._page(question)
        return page

    def _tasks(self, tasks: list[Task]) -> dict[Task, bytes]:
        fields = tuple(f"{jid}.{tix}" for jid, tix in tasks)
        page = self._last_page(Question(Table.TASK, fields=fields)) if fields else None
        records = {} if page is None else dict(page.records)
        named = {(jid, tix): f"{jid}.{tix}".encode() for jid, tix in tasks}
        return {task: records[name] for task, name in named.items() if name in records}

    def _lost_binds(self, stuck: dict[Task, int]) -> list[Finding]:
        entries, _ = at_once(self._ledger.open_binds("0", count=10_000))
        records = {
            task: (unpack_task(record, *task), record)
            for task, record in self._tasks([*stuck]).items()
        }
        return [*lost_binds(stuck, named_in(entries), records)]
