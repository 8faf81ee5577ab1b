"""Reads a history once, from the first line to the last."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from laboratory.checker.account import deleted, settle, stopped_by_deletion
from laboratory.checker.ledger.ledger import LedgerSide
from laboratory.checker.placement.outside_word import Refuses
from laboratory.checker.report.report import (
    CheckReport,
    Findings,
    HistoryError,
    Summary,
    rows_of,
)
from laboratory.checker.seals import SealChecks
from laboratory.checker.state.cluster import DONE, ClusterBinding, ClusterSide
from laboratory.checker.state.job import UNSUCCESSFUL


def check(path: str | Path, *, closed: bool = False) -> CheckReport:
    """Check a history against the promises (:mod:`laboratory.checker.report.rules`).

    ``closed``: everything submitted must have finished. Raises HistoryError if the file cannot be
    read or is not a history.
    """
    try:
        with Path(path).open("rb") as file:
            return check_lines(file, name=str(path), closed=closed)
    except OSError as error:
        reason = error.strerror or error
        raise HistoryError(f"{path}: {reason}; give a file that a run has written") from None


def check_lines(
    lines: Iterable[bytes], *, name: str, closed: bool = False, refuses: Refuses | None = None
) -> CheckReport:
    """The same for lines that are not in a file; ``name`` replaces the path. ``refuses``: what the
    run's extender answered; without it its answers are not judged."""
    findings = Findings()
    cluster = ClusterSide(findings)
    ledger = LedgerSide(findings, cluster, refuses)
    with _without_collector():
        torn = _read(lines, findings, ledger, cluster)
        events = findings.line
        ledger.settle()
        settle(ledger, cluster, findings, closed=closed)
    return CheckReport(
        path=name,
        events=events,
        closed=closed,
        torn=torn,
        ended=cluster.ended,
        violations=findings.first(),
        broken=_by_promise(findings),
        summary=_summary(ledger, cluster),
        rows=rows_of(findings),
    )


def _by_promise(findings: Findings) -> dict[int, int]:
    broken: Counter[int] = Counter()
    for rule, count in findings.broken.items():
        broken[rule.promise] += count
    return dict(sorted(broken.items()))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable garbage collection: with millions of small lists and no cycles it would take a third
    of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(
    lines: Iterable[bytes], findings: Findings, ledger: LedgerSide, cluster: ClusterSide
) -> bool:
    """Pass every event to its side; returns whether the last line is torn."""
    seals, torn = SealChecks(findings), False
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            torn = True
            break
        findings.line, findings.event = number, "line"
        intact = seals.intact(line)
        try:
            _feed(line, findings, ledger, cluster)
        except HistoryError:
            if intact:
                raise
            break  # nothing behind a line that was made unreadable can be judged
    seals.settle()
    return torn


def _feed(line: bytes, findings: Findings, ledger: LedgerSide, cluster: ClusterSide) -> None:
    try:
        event: dict[str, Any] = json.loads(line)
        findings.event = event["ev"]
        if event["src"] == "ledger":
            ledger.feed(event)
        else:
            ledger.books.passes(event["t"])
            cluster.feed(event)
            if event["ev"] == "measured":
                ledger.measured(event)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"line {findings.line} is not an event of a history ({reason})"
        raise HistoryError(message) from error


def _summary(ledger: LedgerSide, cluster: ClusterSide) -> Summary:
    seconds, percentiles = _times(ledger, cluster)
    bound, statements = len({task for task, _ in cluster.bindings}), ledger.statements
    jobs = ledger.jobs.values()
    return Summary(
        jobs_submitted=len(jobs),
        jobs_finished=sum(job.finished for job in jobs),
        jobs_deleted=sum(job.gone and not job.finished for job in jobs),
        tasks_submitted=sum(len(job.states) for job in jobs),
        tasks_bound=bound,
        tasks_bound_twice=len(statements.twice | cluster.twice),
        tasks_evicted=ledger.evictions.tasks,
        tasks_finished=sum(
            binding.phase == DONE and not _begun_anew(ledger, binding)
            for binding in cluster.bindings.values()
        ),
        tasks_failed=sum(
            sum(map(job.states.count, UNSUCCESSFUL)) - stopped_by_deletion(job) for job in jobs
        ),
        tasks_deleted=sum(deleted(job) for job in jobs),
        gangs_partly_bound=len(statements.partly),
        gangs_across_shards=len(statements.across),
        levels=(
            statements.levels[1],
            statements.levels[2],
            statements.levels[3],
            statements.levels[4],
        ),
        committed=statements.verdicts["committed"],
        rechecked=statements.verdicts["rechecked"],
        conflicts_true=statements.verdicts["true"],
        conflicts_read=statements.verdicts["read"],
        tasks_per_second=bound / seconds if seconds > 0 else 0.0,
        submit_to_bound_ms=percentiles,
    )


def _begun_anew(ledger: LedgerSide, binding: ClusterBinding) -> bool:
    """Whether the task began anew after this incarnation had ended."""
    job = ledger.jobs.get(binding.jid)
    return job is not None and (binding.tix, binding.incarnation) in job.restarted


def _times(ledger: LedgerSide, cluster: ClusterSide) -> tuple[float, tuple[float, float, float]]:
    """(seconds from the first submission to the last bind, percentiles of submission to bind)"""
    submitted, bound = [], []
    for binding in cluster.bindings.values():
        job = ledger.jobs.get(binding.jid)
        if job is not None and binding.tix < len(job.submitted) and not binding.incarnation:
            submitted.append(job.submitted[binding.tix])
            bound.append(binding.t)
    if not bound:
        return 0.0, (0.0, 0.0, 0.0)
    first = min(min(job.submitted, default=np.inf) for job in ledger.jobs.values())
    waits = (np.array(bound) - np.array(submitted)) * 1000
    p50, p99, p999 = (float(value) for value in np.percentile(waits, (50, 99, 99.9)))
    return max(bound) - float(first), (p50, p99, p999)
