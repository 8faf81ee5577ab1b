"""Times out of a history written by hand, the busy integral, and the table that they end in."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from laboratory.checker.report.report import CheckReport, Summary, Violation
from laboratory.cli.demo.run_summary import faults, result, result_table
from laboratory.history.figures import figures_of, read_figures
from laboratory.history.utilisation import busy

Event = dict[str, Any]


def _ledger(t: float, ev: str, **body: Any) -> Event:
    return {"t": t, "src": "ledger", "id": f"{int(t * 1000)}-0", "ev": ev, **body}


def _cluster(t: float, ev: str, tasks: list[str], answers: list[str]) -> Event:
    return {"t": t, "src": "cluster", "ev": ev, "tasks": tasks, "answers": answers}


def _job(jid: int, key: str) -> Event:
    return {"jid": jid, "key": key}


HISTORY: list[Event] = [
    _ledger(99.0, "node", nodes=[]),
    _ledger(100.0, "job", jobs=[_job(1, "default/pod-1"), _job(2, "default/job-2")]),
    _cluster(101.0, "bind", ["1.0", "2.0"], ["OK", "OK"]),
    _ledger(101.5, "status", items=[["BOUND", 1, [0], [5]], ["RUNNING", 2, [0], [5]]]),
    _cluster(102.0, "bind", ["2.0", "2.1"], ["ALREADY", "OK"]),
    _ledger(102.5, "status", items=[["BOUND", 2, [0, 1], [5, 6]], ["PENDING", 1, [0], [5]]]),
    _ledger(103.0, "job", jobs=[_job(2, "default/job-2")]),
    _cluster(103.0, "succeeded", ["2.0"], []),
    _cluster(105.0, "failed", ["1.0"], []),
]


def test_times_are_those_of_the_first_recorded_answer() -> None:
    figures = figures_of(HISTORY)
    assert figures.bound == {(1, 0): 101.5, (2, 0): 101.5, (2, 1): 102.5}
    assert figures.tasks_per_second({}) == 1.2  # 3 in 2.5 s
    assert figures.submit_to_bound({})["p50"] == 1500.0


def test_waits_begin_where_the_client_sent_the_job() -> None:
    figures = figures_of(HISTORY)
    sent = {"default/pod-1": 99.5, "default/job-2": 100.0}
    assert figures.tasks_per_second(sent) == 1.0
    assert figures.submit_to_bound(sent)["p999"] == pytest.approx(2500.0, abs=2)


def test_only_some_jobs() -> None:
    figures = figures_of(HISTORY).only("default/job-")
    assert figures.jobs.keys() == {2}
    assert len(figures.bound) == 2


def test_busy_counts_from_the_node_taken_until_it_is_free() -> None:
    figures = figures_of(HISTORY)
    # 100 to 102, the last bind: two tasks for one second, the third has just come.
    assert figures.busy({}, capacity=4).share == pytest.approx(2 / (4 * 2))


def test_nothing_bound_is_zeros() -> None:
    figures = figures_of(HISTORY[:2])
    assert figures.tasks_per_second({}) == 0.0
    assert figures.submit_to_bound({}) == {"p50": 0.0, "p99": 0.0, "p999": 0.0}
    assert figures.busy({}, capacity=4).share == 0.0
    assert figures_of([]).busy({}, capacity=4).seconds == 0.0


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = [orjson.dumps(event) for event in HISTORY]
    path.write_bytes(b"\n".join(lines) + b'\n{"t": 10')
    assert read_figures(path).bound == figures_of(HISTORY).bound


def test_the_integral_equals_the_sum_over_single_tasks() -> None:
    rng = random.Random(7)
    spans = [(a := rng.uniform(-2, 12), a + rng.expovariate(0.5)) for _ in range(200)]
    start, end = 1.0, 9.0
    area = sum(max(0.0, min(b, end) - max(a, start)) for a, b in spans)
    freed = [b for _, b in spans]
    rng.shuffle(freed)  # which task it was does not matter
    figure = busy(occupied=[a for a, _ in spans], freed=freed, start=start, end=end, capacity=50)
    assert figure.share == pytest.approx(area / (50 * 8))


def test_capacity_never_freed_is_busy_until_the_end() -> None:
    assert busy(occupied=[0.0], freed=[], start=0, end=4, capacity=2).share == 0.5
    assert busy(occupied=[], freed=[], start=4, end=4, capacity=2).share == 0.0


# --- the table ----------------------------------------------------------------------------------

SHAPE = {
    "jobs": {"submitted", "finished", "pending"},
    "tasks": {"submitted", "bound", "bound_twice", "finished"},
    "gangs_partly_bound": None,
    "gangs_across_shards": None,
    "levels": {"L1", "L2", "L3", "L4"},
    "statements": {"committed", "rechecked", "conflicts_true", "conflicts_read"},
    "tasks_per_second": None,
    "submit_to_bound_ms": {"p50", "p99", "p999"},
    "pending_reasons": set(),
}


def _report(**summary: Any) -> CheckReport:
    return CheckReport("h", 1, True, False, (), {}, Summary(**summary))


def _good() -> dict[str, Any]:
    return {
        "jobs_submitted": 2,
        "jobs_finished": 2,
        "tasks_submitted": 3,
        "tasks_bound": 3,
        "tasks_finished": 3,
    }


def test_the_json_has_exactly_the_promised_keys() -> None:
    values = result(_report(**_good()), figures_of(HISTORY), sent={}, reasons={})
    assert list(values) == list(SHAPE)
    for key, inner in SHAPE.items():
        assert inner is None or values[key].keys() == inner
    assert orjson.loads(orjson.dumps(values)) == values
    assert values["tasks_per_second"] == 1.2


def test_a_good_run_has_no_faults() -> None:
    report = _report(**_good())
    assert faults(result(report, figures_of([]), sent={}, reasons={}), report, jobs=2) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks_bound_twice": 1}, "1 tasks were bound twice"),
        ({"gangs_partly_bound": 2}, "2 gangs were bound in part"),
        ({"jobs_finished": 1}, "1 jobs did not finish"),
        ({"tasks_finished": 2}, "1 tasks did not finish"),
        ({"jobs_submitted": 1, "jobs_finished": 1}, "1 submitted jobs are not in the history"),
    ],
)
def test_every_fault_is_told(change: dict[str, int], message: str) -> None:
    report = _report(**{**_good(), **change})
    values = result(report, figures_of([]), sent={}, reasons={})
    assert message in faults(values, report, jobs=2)


def test_a_broken_promise_is_told_with_its_line() -> None:
    first = Violation(line=7, promise=3, event="commit", message="held 1 of 2")
    report = CheckReport("h", 9, True, False, (first,), {3: 4}, Summary(**_good()))
    values = result(report, figures_of([]), sent={}, reasons={})
    (output,) = faults(values, report, jobs=2)
    assert "4 events" in output
    assert "line 7" in output


def test_the_table_shows_numbers_and_reasons() -> None:
    values = result(_report(**_good()), figures_of(HISTORY), sent={}, reasons={"no room": 5})
    share = busy(occupied=[0.0], freed=[], start=0, end=4, capacity=2)
    out = io.StringIO()
    Console(file=out, width=120).print(result_table(values, word="GPUs", busy=share))
    text = out.getvalue()
    assert "3 of 3" in text
    assert "50.0%" in text
    assert "no room" in text
