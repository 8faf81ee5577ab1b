"""Tasks in BINDING: each is bound or refused in time (promise 8)."""

from __future__ import annotations

from collections import deque

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import BINDING, CheckedJob

WITHIN = 120.0
"""Seconds of time with a leader. A bind is requested at once and retried every few seconds, and a
reachable cluster accepts or refuses it. No fault of a chaos run lasts longer."""


class Underway:
    """Committed statements in order; each is judged once, when it is old enough."""

    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._open: deque[tuple[float, int, int, CheckedJob, list[list[int]]]] = deque()
        """(time, line, jid, job, operations)"""

    def add(self, jid: int, job: CheckedJob, operations: list[list[int]]) -> None:
        books = self._books
        self._open.append((books.lived, books.findings.line, jid, job, operations))
        self.look()

    def look(self) -> None:
        """Judge the statements whose deadline has passed."""
        lived = self._books.lived
        while self._open and lived - self._open[0][0] > WITHIN:
            self._judge(*self._open.popleft())

    def settle(self) -> None:
        """Judge at the end of the history; younger statements may still be in progress."""
        self.look()

    def _judge(
        self, since: float, line: int, jid: int, job: CheckedJob, operations: list[list[int]]
    ) -> None:
        findings = self._books.findings
        findings.checked[Rule.BINDING_ENDS] += len(operations)
        for tix, row, _, _ in operations:
            # By the line of its commit: the task may have been refused and committed anew since.
            if job.states[tix] == BINDING and job.changed[tix] == line:
                seconds = self._books.lived - since
                findings.add_at(
                    line,
                    "commit",
                    Rule.BINDING_ENDS,
                    f"task {jid}.{tix} of {job.key} is BINDING on node "
                    f"{self._books.nodes.names[row]} for more than {seconds:.0f} s",
                )
