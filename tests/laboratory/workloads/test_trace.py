"""Reading traces: both formats, what counts as unknown, errors that say where and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from laboratory.workloads.trace import (
    TraceColumns,
    TraceError,
    parse_columns,
    read_trace,
)

COLUMNS = TraceColumns(submit="at", duration="secs", gpus="n", queue="team")


def _file(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _error(path: Path, columns: TraceColumns | None = COLUMNS) -> str:
    with pytest.raises(TraceError) as caught:
        read_trace(path, columns=columns)
    return str(caught.value)


def test_csv_is_sorted_by_submission_and_ties_keep_file_order(tmp_path: Path) -> None:
    path = _file(tmp_path, "at,secs,n,team\n20,1,1,b\n10,2,2,a\n20,3,3,a\n10,4,4,b\n")
    trace = read_trace(path, columns=COLUMNS)
    assert trace.submit.tolist() == [0, 0, 10, 10]
    assert trace.width.tolist() == [2, 4, 1, 3]
    assert trace.duration.tolist() == [2, 4, 1, 3]
    assert [trace.queues[q] for q in trace.queue] == ["a", "b", "b", "a"]


def test_first_jobs_are_those_submitted_first(tmp_path: Path) -> None:
    path = _file(tmp_path, "at,secs,n,team\n20,1,1,b\n10,2,2,a\n10,3,3,a\n")
    assert read_trace(path, columns=COLUMNS, limit=2).width.tolist() == [2, 3]


def test_dates_and_gzip(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    rows = "2017-10-09 07:01:55,5,1,x\n2017-10-09T07:01:50Z,5.5,2.0,y\n"
    path.write_bytes(gzip.compress(f"at,secs,n,team\n{rows}".encode()))
    trace = read_trace(path, columns=COLUMNS)
    assert trace.submit.tolist() == [0, 5]
    assert trace.width.tolist() == [2, 1]


def test_without_queue_column_there_is_one_queue(tmp_path: Path) -> None:
    path = _file(tmp_path, "submit,duration,gpus\n1,1,1\n2,2,2\n")
    assert read_trace(path).queues == ("default",)


def test_lines_that_cannot_run_are_counted_by_reason(tmp_path: Path) -> None:
    text = (
        "at,secs,n,team\n1,5,1,a\n2,,1,a\n3,-1,1,a\n4,nan,1,a\n5,5,0,a\n6,5,-3,a\n,5,1,a\n7,0,1,a\n"
    )
    trace = read_trace(_file(tmp_path, text), columns=COLUMNS)
    assert trace.jobs == 2  # a duration of 0 is short, not unknown
    assert trace.unusable == {
        "no duration": 3,
        "no GPUs or processors": 2,
        "no submission time": 1,
    }


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("1,5,1,a\n2,5,two,a\n", ["line 3", "'n'", "'two'", "right column"]),
        ("1,5,1.5,a\n", ["line 2", "'n'", "1.5", "whole number"]),
        ("1,5,inf,a\n", ["line 2", "'n'", "finite"]),
        ("1,5,20000000,a\n", ["line 2", "'n'", "whole number"]),
        ("yesterday,5,1,a\n", ["line 2", "'at'", "'yesterday'", "date-time"]),
        ("1,5,1,a\n2017-01-01,5,1,a\n", ["line 3", "'at'", "2017-01-01"]),
        ("1,5\n", ["line 2", "2 columns", "4"]),
        ('1,5,"1,a\n', ["2", "3 columns", "4"]),  # an open quote swallows the rest
    ],
)
def test_an_unreadable_trace_is_refused_with_line_and_column(
    tmp_path: Path, rows: str, words: list[str]
) -> None:
    message = _error(_file(tmp_path, f"at,secs,n,team\n{rows}"))
    assert all(word in message for word in words), message


def test_an_unknown_column_lists_the_header_and_the_nearest(tmp_path: Path) -> None:
    path = _file(tmp_path, "at,seconds,n,team\n1,1,1,a\n")
    message = _error(path, TraceColumns(submit="at", duration="second", gpus="n", queue=None))
    assert "'second' for duration" in message
    assert "did you mean 'seconds'" in message
    assert "at, seconds, n, team" in message


def test_a_file_without_any_job_is_refused(tmp_path: Path) -> None:
    assert "2 lines with no duration" in _error(_file(tmp_path, "at,secs,n,team\n1,,1,a\n2,,1,a\n"))
    assert "is empty" in _error(_file(tmp_path, ""))
    assert "holds no job" in _error(_file(tmp_path, "; only a comment\n", "t.swf"), None)


def test_broken_and_missing_files_are_told(tmp_path: Path) -> None:
    broken = tmp_path / "t.csv.gz"
    broken.write_bytes(b"this is no gzip")
    assert "cannot be read" in _error(broken)
    whole = gzip.compress(b"at,secs,n,team\n" + b"1,1,1,a\n" * 1000)
    broken.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in _error(broken)
    assert "No such file" in _error(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"at,secs,n,team\n1,1,1,\xe9t\xe9\n")
    assert "UTF-8" in _error(tmp_path / "latin.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus", "name=column"),
        ("gpus=", "name=column"),
        ("gpu=n", "did you mean 'gpus'"),
        ("", "name=column"),
    ],
)
def test_column_texts_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        parse_columns(text)


def test_column_text() -> None:
    assert parse_columns("submit=a, gpus=b") == TraceColumns(submit="a", gpus="b", queue=None)
    assert parse_columns("queue=vc").queue == "vc"


# --- Standard Workload Format -------------------------------------------------------------------

SWF = """; Version: 2.2
;
    1      100 30  50  4  49.5 -1  4  60 -1 1  7 1 -1 -1 1 -1 -1
    2       90 30  -1 -1  20   -1  8  60 -1 1 -1 1 -1 -1 1 -1 -1

    3      100 30  -1  2  -1   -1  2  60 -1 0  7 1 -1 -1 1 -1 -1
    4      100 30  10 -1  -1   -1 -1  60 -1 0  7 1 -1 -1 1 -1 -1
"""


def test_swf_takes_the_second_field_where_the_first_is_unknown(tmp_path: Path) -> None:
    trace = read_trace(_file(tmp_path, SWF, "t.swf"))
    assert trace.submit.tolist() == [0, 10]
    assert trace.duration.tolist() == [20, 50]
    assert trace.width.tolist() == [8, 4]
    assert [trace.queues[q] for q in trace.queue] == ["user-unknown", "user-7"]
    assert trace.unusable == {"no duration": 1, "no GPUs or processors": 1}


def test_swf_errors_name_line_and_field(tmp_path: Path) -> None:
    assert "line 2 has 3 fields" in _error(_file(tmp_path, ";\n1 2 3\n", "t.swf"), None)
    text = SWF.replace("  49.5", "  many").replace("100 30  50", "100 30  fifty")
    message = _error(_file(tmp_path, text, "t.swf"), None)
    assert "line 3, field 4 (run time): 'fifty'" in message
    assert "--columns is for CSV" in _error(_file(tmp_path, SWF, "t.swf"), COLUMNS)


# --- published traces, where they are there -------------------------------------------------------


def test_published_swf_trace(shared_reference: Path) -> None:
    trace = read_trace(shared_reference / "data" / "swf" / "hpc2n-alea.swf")
    assert (trace.jobs, trace.tasks) == (3_170, 63_965)


def test_published_csv_trace(shared_reference: Path) -> None:
    columns = parse_columns("submit=timestamp,duration=duration,gpus=num_gpus,queue=cluster")
    path = shared_reference / "data" / "philly_jobs" / "philly.csv.gz"
    trace = read_trace(path, columns=columns, limit=5_000)
    assert (trace.jobs, trace.tasks) == (5_000, 6_576)
    assert (trace.width == 32).sum() == 3
    assert float((trace.width * trace.duration).sum()) / 96 / 1e5 == pytest.approx(67.9, abs=0.1)
