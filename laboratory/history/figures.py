"""Speed of a run and utilisation of its cluster, from its history in one pass.

Counts of work and violations are the checker's; here are only times. They are the history's:
seconds since 1970, to the millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from laboratory.history.utilisation import Busy, busy

Event = dict[str, Any]
Task = tuple[int, int]
"""(jid, tix)"""

BOUND_STATES = frozenset({"BOUND", "RUNNING", "RELEASING", "SUCCEEDED"})
"""States which imply that the cluster accepted the task's bind; the first one counts."""


@dataclass(slots=True)
class Figures:
    """Times of jobs and tasks, and figures computed from them.

    Parameter ``sent`` of the methods: namespace/name -> when the client sent the job. If it is
    missing there, time counts from the acknowledgement.
    """

    jobs: dict[int, tuple[str, float]] = field(default_factory=dict)
    """jid -> (namespace/name, acknowledged at)"""
    bound: dict[Task, float] = field(default_factory=dict)
    """When the ledger recorded that the cluster accepted the task."""
    rows: dict[Task, int] = field(default_factory=dict)
    """The node that it accepted the task on first."""
    promised: dict[Task, float] = field(default_factory=dict)
    """When a statement first gave the task the promise of a place."""
    occupied: list[float] = field(default_factory=list)
    """Times at which the cluster put tasks on nodes (binds, not starts)."""
    freed: list[float] = field(default_factory=list)
    """Times at which tasks left their nodes."""
    stopped: dict[str, float] = field(default_factory=dict)
    """Task -> when the cluster was first told to end it: evicted, or deleted by its user."""

    def add(self, event: Event) -> None:
        match event["src"], event["ev"]:
            case "ledger", "status":
                self._status(event)
            case "ledger", "commit":
                self._commit(event)
            case "ledger", "job":
                for job in event["jobs"]:
                    self.jobs.setdefault(job["jid"], (job["key"], event["t"]))
            case "cluster", "bind":
                self.occupied.extend([event["t"]] * event["answers"].count("OK"))
            case "cluster", "delete":
                for task in event["tasks"]:
                    self.stopped.setdefault(task, event["t"])
            case "cluster", "succeeded" | "failed":
                self.freed.extend([event["t"]] * len(event["tasks"]))
            case _:
                pass

    def _status(self, event: Event) -> None:
        now = event["t"]
        for state, jid, tasks, rows in event["items"]:
            if state in BOUND_STATES:
                for tix, row in zip(tasks, rows, strict=True):
                    self.bound.setdefault((jid, tix), now)
                    self.rows.setdefault((jid, tix), row)

    def _commit(self, event: Event) -> None:
        for statement in event["statements"]:
            for tix, *_ in statement["nominate"]:
                self.promised.setdefault((statement["jid"], tix), event["t"])

    def only(self, prefix: str) -> Figures:
        """The jobs, with their binds and promises, whose ``namespace/name`` begins with
        ``prefix``."""
        jobs = {jid: job for jid, job in self.jobs.items() if job[0].startswith(prefix)}
        bound = {task: t for task, t in self.bound.items() if task[0] in jobs}
        rows = {task: row for task, row in self.rows.items() if task[0] in jobs}
        promised = {task: t for task, t in self.promised.items() if task[0] in jobs}
        return Figures(jobs=jobs, bound=bound, rows=rows, promised=promised)

    def submitted_at(self, sent: Mapping[str, float]) -> dict[int, float]:
        """jid -> when its client sent it, else when it was acknowledged."""
        return {jid: sent.get(key, since) for jid, (key, since) in self.jobs.items()}

    def submit_to_bound(self, sent: Mapping[str, float]) -> dict[str, float]:
        """Percentiles in milliseconds over all bound tasks; zeros if there are none."""
        since = self.submitted_at(sent)
        waits = np.array([(t - since[jid]) * 1000 for (jid, _), t in self.bound.items()])
        names = {"p50": 50.0, "p99": 99.0, "p999": 99.9}
        if not len(waits):
            return dict.fromkeys(names, 0.0)
        marks = np.maximum(np.percentile(waits, list(names.values())), 0.0)
        return {name: round(float(mark), 1) for name, mark in zip(names, marks, strict=True)}

    def tasks_per_second(self, sent: Mapping[str, float]) -> float:
        """Bound tasks / (last bind - first submission); 0 if nothing was bound."""
        if not self.bound:
            return 0.0
        seconds = max(self.bound.values()) - min(self.submitted_at(sent).values())
        return round(len(self.bound) / seconds, 1) if seconds > 0 else 0.0

    def busy(self, sent: Mapping[str, float], *, capacity: int) -> Busy:
        """Utilisation from the first submission until no task was waiting, when the last one came
        to its node."""
        start = min(self.submitted_at(sent).values(), default=0.0)
        end = max(self.occupied, default=start)
        return busy(
            occupied=self.occupied, freed=self.freed, start=start, end=end, capacity=capacity
        )


def figures_of(events: Iterable[Event]) -> Figures:
    figures = Figures()
    for event in events:
        figures.add(event)
    return figures


def read_figures(path: Path) -> Figures:
    """The figures of a history file. Raises OSError; a torn last line is ignored."""
    with path.open("rb") as file:
        return figures_of(orjson.loads(line) for line in file if line.endswith(b"\n"))
