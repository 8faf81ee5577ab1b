"""The common result of chaos: its JSON, its sums, its verdict."""

from __future__ import annotations

import json

from rich.console import Console

from laboratory.chaos.report import KEPT, SHOWN, ChaosReport


def table_text(report: ChaosReport) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(report.table())
    return capture.get()


def good(seed: int = 1) -> ChaosReport:
    report = ChaosReport(seeds=1, tasks_bound=50)
    report.fault("kill worker", 2)
    for seconds in (1.0, 2.0, float(seed) * 3.00049):
        report.recovered("worker", seconds)
    return report


def test_line_has_the_promised_shape() -> None:
    assert json.loads(good().line()) == {
        "seeds": 1,
        "faults": {"kill worker": 2},
        "recovery_s": {"worker": {"max": 3.0, "median": 2.0}},
        "tasks_bound": 50,
        "violations": [],
    }
    assert good().ok
    assert "Every promise was kept" in table_text(good())


def test_reports_add_up() -> None:
    total = ChaosReport()
    for seed in (1, 2):
        total.add(good(seed))
    result = total.result()
    assert (result["seeds"], result["tasks_bound"]) == (2, 100)
    assert result["faults"] == {"kill worker": 4}
    assert result["recovery_s"]["worker"] == {"max": 6.001, "median": 2.0}


def test_violations_are_shown_with_seed_and_promise_and_all_are_counted() -> None:
    report = good()
    report.violation(promise=1, message="task 3.0 is bound twice", seed=7)
    assert not report.ok
    assert report.result()["violations"] == [
        {"seed": 7, "promise": 1, "message": "task 3.0 is bound twice"}
    ]
    text = table_text(report)
    assert "seed 7: promise 1: task 3.0 is bound twice" in text
    assert "Every promise" not in text
    for number in range(KEPT):
        report.violation(promise=0, message=f"number {number}", seed=8)
    total = good()
    total.add(report)
    assert total.violated == KEPT + 1
    assert len(total.violations) == KEPT
    assert f"and {KEPT + 1 - SHOWN} more" in table_text(total)
