"""The checker's report: broken promises with their position, and figures of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from laboratory.checker.report.rules import UNSEEN, Rule

KEPT = 100
"""Maximum number of violations reported in full; further ones are only counted."""


class HistoryError(Exception):
    """The file is not a history; the message has the line and the problem."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One event that breaks a promise. ``message`` has the numbers."""

    line: int
    promise: int
    event: str
    message: str
    rule: str = ""

    def __str__(self) -> str:
        return f"line {self.line} ({self.event}): promise {self.promise}: {self.message}"


class Findings:
    """Collects violations while the file is read; ``line`` and ``event``: the current position."""

    def __init__(self) -> None:
        self.line = 0
        self.event = ""
        self.broken: Counter[Rule] = Counter()
        self.checked: Counter[Rule] = Counter()
        """Number of facts checked per rule."""
        self._first: list[Violation] = []

    def add(self, rule: Rule, message: str) -> None:
        self.add_at(self.line, self.event, rule, message)

    def add_at(self, line: int, event: str, rule: Rule, message: str) -> None:
        self.broken[rule] += 1
        self._first.append(Violation(line, rule.promise, event, message, rule.label))
        if len(self._first) >= 2 * KEPT:  # found at the end, some belong to early lines
            self._first = sorted(self._first)[:KEPT]

    def first(self) -> tuple[Violation, ...]:
        return tuple(sorted(self._first)[:KEPT])


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a run, from its history."""

    jobs_submitted: int = 0
    jobs_finished: int = 0
    jobs_deleted: int = 0
    """Deleted before they had finished."""
    tasks_submitted: int = 0
    tasks_bound: int = 0
    tasks_bound_twice: int = 0
    tasks_evicted: int = 0
    """Evictions; a task may have several."""
    tasks_finished: int = 0
    tasks_failed: int = 0
    tasks_deleted: int = 0
    """Not placed when they, or their job, were deleted."""
    gangs_partly_bound: int = 0
    gangs_across_shards: int = 0
    levels: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Tasks in accepted statements by level, nominations included."""
    committed: int = 0
    """Accepted statements, including rechecked ones."""
    rechecked: int = 0
    conflicts_true: int = 0
    conflicts_read: int = 0
    tasks_per_second: float = 0.0
    """bound / (last bind - first submit)"""
    submit_to_bound_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The 50th, 99th and 99.9th percentile."""

    def table(self) -> dict[str, Any]:
        """The figures in the format of ``quadrant demo -o json``, without reasons."""
        p50, p99, p999 = (round(value, 3) for value in self.submit_to_bound_ms)
        return {
            "jobs": {
                "submitted": self.jobs_submitted,
                "finished": self.jobs_finished,
                "pending": self.jobs_submitted - self.jobs_finished,
            },
            "tasks": {
                "submitted": self.tasks_submitted,
                "bound": self.tasks_bound,
                "bound_twice": self.tasks_bound_twice,
                "finished": self.tasks_finished,
            },
            "gangs_partly_bound": self.gangs_partly_bound,
            "gangs_across_shards": self.gangs_across_shards,
            "levels": {f"L{i}": count for i, count in enumerate(self.levels, 1)},
            "statements": {
                "committed": self.committed,
                "rechecked": self.rechecked,
                "conflicts_true": self.conflicts_true,
                "conflicts_read": self.conflicts_read,
            },
            "tasks_per_second": round(self.tasks_per_second, 1),
            "submit_to_bound_ms": {"p50": p50, "p99": p99, "p999": p999},
        }


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a rule, or of a promise that a history cannot show (rule "")."""

    promise: int
    rule: str
    text: str
    checked: int
    broken: int

    @property
    def state(self) -> str:
        if self.broken:
            return "violated"
        return "held" if self.checked else "not exercised"


def rows_of(findings: Findings) -> tuple[Row, ...]:
    """The rows by promise; every promise has at least one."""
    rows = [Row(r.promise, r.label, r.text, findings.checked[r], findings.broken[r]) for r in Rule]
    rows += [Row(promise, "", text, 0, 0) for promise, text in UNSEEN.items()]
    return tuple(sorted(rows, key=lambda row: row.promise))


@dataclass(frozen=True, slots=True)
class CheckReport:
    path: str
    events: int
    closed: bool
    """Whether the run had to finish everything."""
    torn: bool
    """The last line is incomplete because the writer was killed; it is ignored."""
    violations: tuple[Violation, ...]
    """The first ones, by line."""
    broken: dict[int, int] = field(default_factory=dict)
    """promise -> how often it was broken"""
    summary: Summary = field(default_factory=Summary)
    rows: tuple[Row, ...] = ()
    """For every rule: number of facts checked, number of violations."""
    ended: bool = False
    """The writer ended the file in order. Else it was killed, or still writes: the history is open,
    and what it left undone is no violation."""

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def first(self) -> Violation | None:
        return self.violations[0] if self.violations else None
