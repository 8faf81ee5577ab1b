"""``quadrant lab``: the files it writes, runs that repeat, and refusals."""

from __future__ import annotations

import csv
import json
import runpy
from pathlib import Path

import pytest

from coordinator.cli.options.failure import CommandError
from laboratory.lab.files import JOB_COLUMNS
from laboratory.lab.measures import measured
from laboratory.lab.play import run
from tests.conftest import ROOT
from tests.laboratory.lab.weeks import lab, small, write_csv

CLUSTER = ("--nodes", "2", "--gpus-per-node", "4", "--seeds", "1,2", "--processes", "2")
POLICY = ROOT / "examples/policies/allocate-only.yaml"


@pytest.fixture
def week(tmp_path: Path) -> Path:
    file = tmp_path / "week.csv"
    file.write_text(write_csv(small()[0]))
    return file


def test_the_files_have_every_job_and_repeat_the_run_to_the_digit(
    tmp_path: Path, week: Path
) -> None:
    out = tmp_path / "report.html"
    result = lab(week, "--policy", POLICY, "--shards", "1,2", *CLUSTER, "--out", out)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == JOB_COLUMNS
    assert len(rows) == 12 * 4
    for row in rows:
        assert float(row["wait"]) == pytest.approx(
            float(row["start"]) - float(row["submit"]), abs=2e-3
        )
        assert len(row["nodes"].split()) == int(row["pods"])
    assert summary["policies"] == [{"name": "allocate-only", "text": POLICY.read_text()}]

    again = lab(week, "--again", tmp_path / "summary.json", "-o", "json")
    assert json.loads(again.stdout.splitlines()[-1]) == summary

    # In this process too: the command uses the API.
    played = run(*small(), policy=POLICY, shards=2, seed=2)
    assert summary["runs"][3]["measures"] == measured(played)


def test_a_broken_guard_ends_with_an_error(tmp_path: Path, week: Path) -> None:
    last = tmp_path / "spread.yaml"
    last.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    policies = ("--policy", POLICY, "--policy", last)
    kept = ("--guard", "wait.p99{queue=prod} <= +1000%", "--guard", "sor >= 10%")
    assert lab(week, *policies, *CLUSTER, *kept).exit_code == 0
    result = lab(week, *policies, *CLUSTER, "--guard", "makespan <= 60")
    assert isinstance(result.exception, CommandError)
    assert result.exception.code == 1
    assert "guard broken: makespan <= 60: spread, 1 shard has" in str(result.exception)


def test_another_week_does_not_repeat_a_run(tmp_path: Path, week: Path) -> None:
    assert lab(week, *CLUSTER, "--out", tmp_path / "report.html").exit_code == 0
    week.write_text(week.read_text().replace("600", "601"))
    result = lab(week, "--again", tmp_path / "summary.json")
    assert isinstance(result.exception, CommandError)
    assert "was made of week.csv with 12 and" in str(result.exception)


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ("0,,1", [], "holds no job that could run (1 with no duration)"),
        ("0,5,1\n0,,1", [], "1 of 2 rows are left out (1 with no duration)"),
        ("0,5,1\n0,5,99", [], "1 of 2 rows are left out (1 with no room on the empty cluster)"),
        ("0,3600000,1", [], "durations look like milliseconds: median 3,600,000"),
        ("0,5,1", ["--shards", "0"], "is not a list of numbers from 1 to 256"),
        ("0,5,1", ["--seeds", "1,1"], "--seeds: two of 1, 1 are the same"),
        ("0,5,1", ["--out", "absent/report.html"], "there is no folder absent"),
        ("0,5,1", ["--separator", "dot"], "'dot' is none of comma"),
        ("0,5,1", ["--guard", "makespan < 5"], "'makespan < 5' is not of the form"),
        ("0,,1", ["--guard", "makespam <= 5"], "no value makespam; did you mean makespan?"),
        ("0,5,1", ["--guard", "wait.p98 <= 5"], "no value wait.p98; did you mean wait.p99?"),
        (  # before the run, which would end with the refusal of that priority
            "0,5,1",
            ["--columns", "priority=duration*1e9", "--guard", "wait.p99{queue=absent} <= 5"],
            "no value wait.p99{queue=absent}; did you mean",
        ),
        ("0,5,1", ["--columns", "priority=gpus/2"], "priority 0.5 is not a whole number"),
        ("0,5,1", ["--guard", "makespan <= +5%"], "compares with the first policy"),
        ("0,5,1", ["--columns", "priority=duration*1e9"], "PriorityClass priority-5000000000"),
        ("0,5,1", ["--again", "absent.json"], "absent.json: cannot be read"),
    ],
)
def test_a_mistake_is_refused_with_its_remedy(
    tmp_path: Path, rows: str, more: list[str], message: str
) -> None:
    file = tmp_path / "week.csv"
    file.write_text(f"submit,duration,gpus\n{rows}\n")
    options = CLUSTER if "--seeds" not in more else CLUSTER[:4]
    result = lab(file, *options, *more)
    assert isinstance(result.exception, CommandError), result.output
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("Node_1,8,8,1000", "Node Node_1: metadata.name"),
        ("node-1,inf,8,1000", "node node-1 has inf GPUs"),
        ("node-1,8,inf,1000", "node node-1 has 8 GPUs, inf cores"),
    ],
)
def test_a_node_that_cannot_be_is_refused(
    tmp_path: Path, week: Path, node: str, message: str
) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(f"name,gpus,cpu,memory\n{node}\n")
    result = lab(week, "--cluster", nodes, *CLUSTER[4:])
    assert isinstance(result.exception, CommandError), result.output
    assert message in str(result.exception)


def test_unusable_rows_are_allowed_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "week.csv"
    file.write_text("submit,duration,gpus\n0,5,1\n0,,1\n")
    result = lab(file, *CLUSTER, "--allow-dropped")
    assert result.exit_code == 0, result.output
    assert "left out 1 with no duration, of 2 rows" in result.stderr


def test_the_report_never_replaces_the_week(tmp_path: Path, week: Path) -> None:
    jobs = week.rename(tmp_path / "jobs.csv")
    result = lab(jobs, *CLUSTER, "--out", tmp_path / "report.html")
    assert "is the week itself" in str(result.exception)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/laboratory.py"), run_name="__main__")
    assert "2 shards: mean wait" in capsys.readouterr().out
