"""The result of a demo: the JSON that scripts read, and the table that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from laboratory.checker.report.report import CheckReport
from laboratory.history.figures import Figures
from laboratory.history.utilisation import Busy

Result = dict[str, Any]


def result(
    report: CheckReport,
    figures: Figures,
    *,
    sent: Mapping[str, float],
    reasons: Mapping[str, int],
) -> Result:
    """The promised shape of ``-o json``. ``sent``: job key -> when its client sent it.

    Counts are the checker's; rates and waits begin with the client's submission.
    """
    return {
        **report.summary.table(),
        "tasks_per_second": figures.tasks_per_second(sent),
        "submit_to_bound_ms": figures.submit_to_bound(sent),
        "pending_reasons": dict(reasons),
    }


def faults(values: Result, report: CheckReport, *, jobs: int) -> list[str]:
    """Why a run of so many jobs is not a success, in sentences; empty where it is one."""
    complaints = []
    if report.first is not None:
        count = sum(report.broken.values())
        complaints.append(f"{count:,} events break a promise, the first in {report.first}")
    if twice := values["tasks"]["bound_twice"]:
        complaints.append(f"{twice:,} tasks were bound twice")
    if partly := values["gangs_partly_bound"]:
        complaints.append(f"{partly:,} gangs were bound in part")
    if lost := jobs - values["jobs"]["submitted"]:
        complaints.append(f"{lost:,} submitted jobs are not in the history")
    if unfinished := values["jobs"]["submitted"] - values["jobs"]["finished"]:
        complaints.append(f"{unfinished:,} jobs did not finish")
    elif missing := values["tasks"]["submitted"] - values["tasks"]["finished"]:
        complaints.append(f"{missing:,} tasks did not finish")
    return complaints


def result_table(values: Result, *, word: str, busy: Busy) -> Table:
    """The figures of :func:`result` as a table, each with its meaning. ``word``: what nodes offer,
    "GPUs" or "CPUs"."""
    table = Table(title="Result", title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column("what")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning", style="dim")
    for label, value, meaning in _lines(values, word, busy):
        table.add_row(label, value, meaning)
    for reason, count in values["pending_reasons"].items():
        table.add_row("pending", f"{count:,}", reason)
    return table


def _lines(values: Result, word: str, busy: Busy) -> list[tuple[str, str, str]]:
    jobs, tasks, levels = values["jobs"], values["tasks"], values["levels"]
    statements, waits = values["statements"], values["submit_to_bound_ms"]
    return [
        ("jobs finished", _of(jobs["finished"], jobs["submitted"]), "submitted"),
        ("tasks bound", _of(tasks["bound"], tasks["submitted"]), "submitted"),
        ("bound twice", _count(tasks["bound_twice"]), "counted by the checker"),
        ("gangs bound in part", _count(values["gangs_partly_bound"]), "counted by the checker"),
        ("gangs across shards", _count(values["gangs_across_shards"]), "on nodes of 2 or more"),
        ("L1 idle, own shard", _count(levels["L1"]), "tasks; the level is tried first"),
        ("L2 idle, other shard", _count(levels["L2"]), "tasks"),
        ("L3 future, own shard", _count(levels["L3"]), "nominated: about to be free"),
        ("L4 future, other shard", _count(levels["L4"]), "nominated"),
        ("statements committed", _count(statements["committed"]), "transactions accepted"),
        ("  rechecked", _count(statements["rechecked"]), "a node had changed, it still fitted"),
        ("true conflicts", _count(statements["conflicts_true"]), "refused: no longer fitted"),
        ("read conflicts", _count(statements["conflicts_read"]), "refused: a premise had changed"),
        ("tasks per second", f"{values['tasks_per_second']:,}", "first submission to last bind"),
        ("submit to bound", f"{waits['p50'] / 1000:,.3f} s", "half of the tasks"),
        ("", f"{waits['p99'] / 1000:,.3f} s", "99% of the tasks"),
        ("", f"{waits['p999'] / 1000:,.3f} s", "99.9% of the tasks"),
        (f"{word} busy", f"{busy.share:.1%}", f"for the {busy.seconds:,.1f} s until the last bind"),
    ]


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def _count(number: int) -> str:
    return f"{number:,}"
