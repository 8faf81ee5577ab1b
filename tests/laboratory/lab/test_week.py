"""Weeks as people have them: columns, units, separators, and rows that are left out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from laboratory.lab.cluster import Cluster
from laboratory.lab.week import Week, WeekError, parse_columns


def read(tmp_path: Path, text: str, columns: str = "", **source: object) -> Week:
    file = tmp_path / "week.csv"
    file.write_text(text)
    chosen = parse_columns(columns) if columns else {}
    return Week.read(file, columns=chosen, **source)


def test_columns_are_computed_and_have_units(tmp_path: Path) -> None:
    text = "ts,begin,end,plan_gpu,who\n1600000000000,10,70,200,ann\n1600000060000,20,40,100,bob\n"
    week = read(
        tmp_path, text, "submit=ts ms,duration=(end - begin) * 2,gpus=plan_gpu/100,user=who"
    )
    assert week.submit.tolist() == [0, 60]
    assert week.duration.tolist() == [120, 40]
    assert week.gpus.tolist() == [2, 1]
    assert list(week.user) == ["ann", "bob"]


def test_dates_with_time_zones_are_one_axis(tmp_path: Path) -> None:
    text = "submit,duration,gpus\n2017-10-09 07:00:00+02:00,1,1\n2017-10-09T05:00:30Z,1,1\n"
    assert read(tmp_path, text).submit.tolist() == [0, 30]


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
def test_the_separator_is_seen_in_the_header(tmp_path: Path, mark: str) -> None:
    text = "submit,duration,gpus\n0,5,1\n".replace(",", mark)
    assert read(tmp_path, text).duration.tolist() == [5]


def test_a_wrong_separator_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeekError, match=r"no column 'submit' .*there are: submit,duration,gpus"):
        read(tmp_path, "submit,duration,gpus\n0,5,1\n", separator=";")


def test_durations_in_milliseconds_are_noticed(tmp_path: Path) -> None:
    text = "submit,duration,gpus\n0,3600000,1\n1,3600000,1\n"
    with pytest.raises(
        WeekError, match=r"durations look like milliseconds: median 3,600,000; write"
    ):
        read(tmp_path, text)
    assert read(tmp_path, text, "duration=duration ms").duration.tolist() == [3600, 3600]
    assert read(tmp_path, text, "duration=duration s").duration.tolist() == [3.6e6, 3.6e6]


def test_submissions_in_milliseconds_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(WeekError, match="submits look like milliseconds"):
        read(tmp_path, "submit,duration,gpus\n1600000000000,5,1\n")


def test_rows_are_left_out_by_reason_and_counted(tmp_path: Path) -> None:
    rows = ["0,5,1", "1,,1", "2,-3,1", "3,5,", "4,5,0", "x,5,1", "6,5,1.5"]
    text = "\n".join(["submit,duration,gpus", *rows, ""])
    week = read(tmp_path, text, nulls=("x",))
    assert week.rows == 7
    assert week.dropped == {
        "no submission time": 1,
        "no duration": 1,
        "a negative duration": 1,
        "no GPUs": 1,
        "GPUs and a part of one": 1,
        "neither GPUs nor cores nor memory": 1,
    }
    with pytest.raises(WeekError, match=r"6 of 7 rows are left out .*say --allow-dropped"):
        week.check_dropped()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("gpus=gpu", r"no column 'gpu' for gpus; did you mean 'gpus'"),
        ("duration=end-", r"it ends too early; write a column"),
        ("duration=(gpus", r"a parenthesis is not closed"),
        ("duration=gpus gpus", r"'gpus' is not expected"),
        ("size=gpus", r"'size' is unknown; there are name, submit"),
        ("gpus", r"'gpus' is not of the form name=column"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_remedy(
    tmp_path: Path, columns: str, message: str
) -> None:
    with pytest.raises(WeekError, match=message):
        read(tmp_path, "submit,duration,gpus,end\n0,5,1,9\n", columns)


def test_a_cell_that_is_no_number_is_named_by_row_and_column(tmp_path: Path) -> None:
    with pytest.raises(
        WeekError, match=r"row 2, column 'gpus' \(for gpus\): 'two' is not a number"
    ):
        read(tmp_path, "submit,duration,gpus\n0,5,1\n0,5,two\n")
    with pytest.raises(WeekError, match=r"row 1 has 2 cells, the header 3"):
        read(tmp_path, "submit,duration,gpus\n0,5\n")


def test_known_formats_need_no_columns(tmp_path: Path) -> None:
    philly = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,2,132.0,a\n"
    assert read(tmp_path, philly).gpus.tolist() == [2]
    openb = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\np,6000,12288,1,1000,,LS,Running,10,30,11\n"
    )
    week = read(tmp_path, openb)
    assert (week.duration[0], week.cpu[0], week.memory[0]) == (20, 6, 12288)


def test_a_digest_tells_weeks_apart() -> None:
    week = Week.of(submit=[0, 1], duration=[5, 6], gpus=[1, 1])
    assert week.digest() == Week.of(submit=[3, 4], duration=[5, 6], gpus=[1, 1]).digest()
    assert week.digest() != Week.of(submit=[0, 1], duration=[5, 7], gpus=[1, 1]).digest()


def test_a_node_list_is_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1024,2,P100\nn2,8000,512,0,\n")
    cluster = Cluster.read(file)
    assert (cluster.gpus.tolist(), cluster.cpu.tolist()) == ([2, 0], [64, 8])
    file.write_text("name,gpus,cpu,memory\nn1,1.5,4,100\n")
    with pytest.raises(WeekError, match=r"row 1: node n1 has 1.5 GPUs"):
        Cluster.read(file)


def test_files_without_a_job_and_files_that_are_broken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeekError, match=r"holds no job that could run \(2 with no duration"):
        read(tmp_path, "submit,duration,gpus\n1,,1\n2,,1\n")
    with pytest.raises(WeekError, match="is empty"):
        read(tmp_path, "")
    whole = gzip.compress(b"submit,duration,gpus\n" + b"1,1,1\n" * 1000)
    cases = {
        "none.csv": (None, "No such file"),
        "none.swf": (None, "No such file"),
        "text.csv.gz": (b"this is no gzip", "cannot be read"),
        "half.csv.gz": (whole[: len(whole) // 2], "cannot be read"),
        "half.swf.gz": (whole[: len(whole) // 2], "cannot be read"),
        "latin.csv": (b"submit,duration,gpus,queue\n1,1,1,\xe9t\xe9\n", "UTF-8"),
        "latin.swf": (b"; \xe9t\xe9\n", "UTF-8"),
        "empty.swf": (b"; only a comment\n", "holds no job"),
    }
    for name, (content, message) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(WeekError, match=message):
            Week.read(tmp_path / name)


# --- Standard Workload Format -------------------------------------------------------------------

SWF = """; Version: 2.2
;
    1      100 30  50  4  49.5 -1  4  60 -1 1  7 1 -1 -1 1 -1 -1
    2       90 30  -1 -1  20   -1  8  60 -1 1 -1 1 -1 -1 1 -1 -1

    3      100 30  -1  2  -1   -1  2  60 -1 0  7 1 -1 -1 1 -1 -1
    4      100 30  10 -1  -1   -1 -1  60 -1 0  7 1 -1 -1 1 -1 -1
"""


def read_swf(tmp_path: Path, text: str, **source: object) -> Week:
    (tmp_path / "t.swf").write_text(text)
    return Week.read(tmp_path / "t.swf", **source)


def test_swf_takes_the_second_field_where_the_first_is_unknown(tmp_path: Path) -> None:
    week = read_swf(tmp_path, SWF)
    assert week.submit.tolist() == [0, 10]
    assert week.duration.tolist() == [20, 50]
    assert week.pods.tolist() == [8, 4]
    assert list(week.queue) == list(week.user) == ["user-unknown", "user-7"]
    assert (week.rows, week.dropped) == (4, {"no duration": 1, "no pods or processors": 1})


def test_swf_errors_name_line_and_field(tmp_path: Path) -> None:
    with pytest.raises(WeekError, match="line 2 has 3 fields"):
        read_swf(tmp_path, ";\n1 2 3\n")
    with pytest.raises(WeekError, match=r"line 3, field 4 \(run time\): 'fifty' is not a number"):
        read_swf(tmp_path, SWF.replace("100 30  50", "100 30  fifty"))
    with pytest.raises(WeekError, match="--columns is for CSV"):
        read_swf(tmp_path, SWF, columns={"submit": "at"})
