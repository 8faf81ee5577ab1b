"""Report of a run of faults, whether the processes were real or simulated.

::

    report = ChaosReport(seeds=1)
    report.fault("kill worker")
    report.recovered("worker", 1.2)          # seconds
    report.violation(promise=1, message="task 3.0 is bound twice", seed=7)
    print(report.line())                     # the last line of ``-o json``
    raise typer.Exit(0 if report.ok else 1)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

SHOWN = 10
"""Violations shown in the table; JSON has all that were kept."""

KEPT = 100
"""Maximum number of violations kept in full."""

JUDGED_POSTS = 20
"""Fewer requests say nothing. Of fewer than 100 the slowest decides: the percentile is extrapolated
from it."""


class PostsVerdict(StrEnum):
    """Verdict on the response times of the load."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


class RunFailed(Exception):
    """A run could not be completed; the message says what it was waiting for."""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A broken promise. ``seed``: of the run; ``promise`` 0: none of the list, but the run itself
    did not go as it should."""

    promise: int
    message: str
    seed: int

    def __str__(self) -> str:
        promise_text = f"promise {self.promise}: " if self.promise else ""
        return f"seed {self.seed}: {promise_text}{self.message}"


@dataclass(slots=True)
class ChaosReport:
    """The result of ``chaos run`` and ``chaos sim``; updated during the run."""

    seeds: int = 0
    """Number of runs."""
    faults: Counter[str] = field(default_factory=Counter)
    """Kind of fault -> number of injections."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """Role -> seconds from each fault until it worked again."""
    tasks_bound: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    """Answers to the hostile tenant: attack and status -> count."""
    post_p99: float | None = None
    """99th percentile in seconds of the load's requests, without those excused by a fault."""
    posts: int = 0
    """Number of these requests."""
    post_limit: float = 0.0
    """Seconds that :attr:`post_p99` may be; 0: it is not judged."""
    violations: list[BrokenPromise] = field(default_factory=list)
    """The first :data:`KEPT` violations."""
    violated: int = 0
    """Number of all violations."""

    @property
    def ok(self) -> bool:
        return not self.violated

    def fault(self, kind: str, count: int = 1) -> None:
        self.faults[kind] += count

    def recovered(self, role: str, seconds: float) -> None:
        self.recoveries.setdefault(role, []).append(seconds)

    def waits(self, p99: float | None, posts: int, *, limit: float = 0.0, seed: int = 0) -> None:
        """Set the 99th percentile of ``posts`` requests, and judge it by ``limit`` (seconds, 0: do
        not). Of fewer than :data:`JUDGED_POSTS` it says nothing."""
        self.post_p99, self.posts, self.post_limit = p99, posts, limit
        if self._posts_verdict() is PostsVerdict.VIOLATED:
            message = (
                f"99% of {posts:,} requests outside of recoveries were answered within "
                f"{1000 * (p99 or 0.0):.0f} ms, the limit is {1000 * limit:.0f} ms"
            )
            self.violation(promise=0, message=message, seed=seed)

    def _posts_verdict(self) -> PostsVerdict:
        if self.post_p99 is None or not self.post_limit or self.posts < JUDGED_POSTS:
            return PostsVerdict.NOT_JUDGED
        return PostsVerdict.HELD if self.post_p99 <= self.post_limit else PostsVerdict.VIOLATED

    def violation(self, *, promise: int, message: str, seed: int, count: int = 1) -> None:
        """Record a violation. ``count``: number of similar ones that it stands for."""
        self.violated += count
        if len(self.violations) < KEPT:
            self.violations.append(BrokenPromise(promise, message, seed))

    def add(self, report: ChaosReport) -> None:
        """Add the report of another run, or of another process with other seeds."""
        self.seeds += report.seeds
        self.faults.update(report.faults)
        for role, seconds in report.recoveries.items():
            self.recoveries.setdefault(role, []).extend(seconds)
        self.tasks_bound += report.tasks_bound
        self.violated += report.violated
        self.violations += report.violations[: KEPT - len(self.violations)]

    # --- told ---------------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        """The content of ``-o json``; seconds with three decimals."""
        return {
            "seeds": self.seeds,
            "faults": dict(sorted(self.faults.items())),
            "recovery_s": {
                role: {"max": round(max(seconds), 3), "median": round(median(seconds), 3)}
                for role, seconds in sorted(self.recoveries.items())
                if seconds
            },
            "tasks_bound": self.tasks_bound,
            **self._answers(),
            "violations": [
                {"seed": broken.seed, "promise": broken.promise, "message": broken.message}
                for broken in self.violations
            ],
        }

    def _answers(self) -> dict[str, Any]:
        """Figures that only runs with real requests have."""
        document: dict[str, Any] = {}
        if self.post_p99 is not None:
            document["posts"] = {
                "count": self.posts,
                "p99_ms": round(1000 * self.post_p99, 1),
                "limit_ms": round(1000 * self.post_limit, 1),
                "verdict": self._posts_verdict().value,
            }
        if self.answered:
            document["hostile"] = dict(sorted(self.answered.items()))
        return document

    def line(self) -> str:
        """The result as one line of JSON."""
        return orjson.dumps(self.result()).decode()

    def table(self) -> RenderableType:
        """The result as tables, with the verdict at the end."""
        parts = [self._faults(), self._recoveries()]
        if self.post_p99 is not None:
            parts.append(self._requests())
        if self.answered:
            parts.append(self._hostile())
        return Group(*parts, self._verdict())

    def _hostile(self) -> Table:
        table = _table("The hostile tenant was answered", "what", "times")
        for label, count in sorted(self.answered.items()):
            table.add_row(label, f"{count:,}")
        return table

    def _requests(self) -> Table:
        title = "Requests of others, outside of recoveries"
        table = _table(title, "what", "requests", "99% within", "limit", "verdict")
        wait, limit = f"{1000 * (self.post_p99 or 0.0):.0f} ms", f"{1000 * self.post_limit:.0f} ms"
        verdict = self._posts_verdict()
        table.add_row(
            "POST", f"{self.posts:,}", wait, limit if self.post_limit else "none", verdict.value
        )
        return table

    def _faults(self) -> Table:
        table = _table("Faults", "kind", "times")
        for kind, count in sorted(self.faults.items()):
            table.add_row(kind, f"{count:,}")
        return table

    def _recoveries(self) -> Table:
        table = _table("Recovery", "role", "times", "median", "longest")
        for role, seconds in sorted(self.recoveries.items()):
            if seconds:
                middle, longest = f"{median(seconds):.2f} s", f"{max(seconds):.2f} s"
                table.add_row(role, f"{len(seconds):,}", middle, longest)
        return table

    def _verdict(self) -> Text:
        runs = f"{self.seeds:,} run{'' if self.seeds == 1 else 's'}"
        summary = f"{runs}, {sum(self.faults.values()):,} faults, {self.tasks_bound:,} tasks bound"
        if self.ok:
            return Text(f"{summary}\nEvery promise was kept.")
        lines = [f"{summary}; {self.violated:,} violations"]
        lines += [f"  {broken}" for broken in self.violations[:SHOWN]]
        if (rest := self.violated - min(SHOWN, len(self.violations))) > 0:
            lines.append(f"  and {rest:,} more")
        return Text("\n".join(lines), style="red")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table
