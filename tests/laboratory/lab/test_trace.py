"""A week as gangs of tasks with one GPU each: the workload of the demo and of ``scaling``."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.lab.trace import read_trace
from laboratory.lab.week import WeekError
from laboratory.workloads.trace import Trace


def _read(
    tmp_path: Path, *rows: str, limit: int | None = None, allow_dropped: bool = True
) -> Trace:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(("submit,duration,gpus,queue", *rows)))
    return read_trace(file, limit=limit, allow_dropped=allow_dropped)


def test_jobs_are_sorted_by_submission_and_ties_keep_file_order(tmp_path: Path) -> None:
    trace = _read(tmp_path, "20,1,1,b", "10,2,2,a", "20,3,3,a", "10,4,4,b")
    assert trace.submit.tolist() == [0, 0, 10, 10]
    assert trace.width.tolist() == [2, 4, 1, 3]
    assert trace.duration.tolist() == [2, 4, 1, 3]
    assert [trace.queues[q] for q in trace.queue] == ["a", "b", "b", "a"]


def test_first_jobs_are_those_submitted_first(tmp_path: Path) -> None:
    trace = _read(tmp_path, "20,1,1,b", "10,2,2,a", "10,3,3,a", limit=2)
    assert trace.width.tolist() == [2, 3]
    assert trace.queues == ("a",)


def test_a_job_has_a_task_for_each_gpu_of_all_its_pods(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("submit,duration,gpus,pods,cpu\n0,5,2,3,1\n0,5,0,1,4\n0,5,1,1,1\n0,5,,1,1\n")
    trace = read_trace(file)
    assert trace.width.tolist() == [6, 1]
    assert trace.unusable == {"no GPUs": 2}  # one asks for 0, one does not say


def test_more_than_a_few_unusable_rows_are_refused_where_results_count(tmp_path: Path) -> None:
    rows = ("1,5,1,a", "2,,1,a", "7,0,1,a")
    trace = _read(tmp_path, *rows)
    assert trace.jobs == 2  # a duration of 0 is short, not unknown
    assert trace.unusable == {"no duration": 1}
    with pytest.raises(WeekError, match=r"1 of 3 rows are left out \(1 with no duration\)"):
        _read(tmp_path, *rows, allow_dropped=False)


def test_published_swf_trace(shared_reference: Path) -> None:
    trace = read_trace(shared_reference / "data" / "swf" / "hpc2n-alea.swf", allow_dropped=False)
    assert (trace.jobs, trace.tasks) == (3_170, 63_965)


def test_published_csv_trace(shared_reference: Path) -> None:
    path = shared_reference / "data" / "philly_jobs" / "philly.csv.gz"
    trace = read_trace(path, limit=5_000, allow_dropped=False)
    assert (trace.jobs, trace.tasks) == (5_000, 6_576)
    assert (trace.width == 32).sum() == 3
    assert float((trace.width * trace.duration).sum()) / 96 / 1e5 == pytest.approx(67.9, abs=0.1)
