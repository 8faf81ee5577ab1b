"""Estimates of the wait against what happened: a week worked out by hand, and the figures of random
weeks computed again from the rows of the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator.cli.options.failure import CommandError
from laboratory import Cluster, Week, run, search
from laboratory.lab.experiment import Experiment, SeedRun, play_all
from laboratory.lab.files import FORECAST_COLUMNS
from laboratory.lab.waits.forecast_accuracy import DEFINITIONS, forecast_accuracy
from laboratory.lab.waits.forecasts import MOST_JOBS, Forecasts, sampled_rows
from shared.codec.packed import replace
from tests.conftest import ROOT
from tests.examples import examples
from tests.laboratory.lab.weeks import by_hand, lab, small, write_csv

# One GPU, jobs of 600 s. Job i of 0 to 12 is submitted at 310 i and starts at 600 i: it waits
# 290 i. Job 13 is submitted at 5900 and starts at 7800, job 14 at 7700 and starts at 8400.
SUBMIT = [*(310.0 * i for i in range(13)), 5900.0, 7700.0]
WAITS = [*(290.0 * i for i in range(13)), 1900.0, 700.0]
# Known when each job is asked about: the waits of the jobs that started before. Fewer than five are
# no estimate: so about jobs 1 to 9 (job 0 never waits). Of n waits the p50 is number n // 2 from 0
# and the p90 number 9 n // 10: of 290 to 1450 (5, for jobs 10 and 11), to 1740 (6, job 12), to 2610
# (9, job 13), to 3480 (12, job 14).
ESTIMATES = {
    10: (870.0, 1450.0),
    11: (870.0, 1450.0),
    12: (1160.0, 1740.0),
    13: (1450.0, 2610.0),
    14: (2030.0, 3190.0),
}
# Jobs 10 to 12 waited 2900, 3190 and 3480: longer than the p90. Job 13 lies between, job 14 below.
# Errors against the p50: 2030, 2320, 2320, 450, 1330.
MESSAGES = 5.0
"""Seconds that the messages of all jobs before may take."""


def test_estimates_of_a_week_worked_out_by_hand() -> None:
    week = Week.of(submit=SUBMIT, duration=[600] * 15, gpus=[1] * 15)
    played = run(week, Cluster.equal(1, gpus=1), forecast=True)
    given = played.forecasts
    assert given is not None
    assert played.wait.tolist() == pytest.approx(WAITS, abs=MESSAGES)
    assert given.job.tolist() == list(range(1, 15))
    assert (given.waited <= 60).all()
    assert (given.waited + given.remaining).tolist() == pytest.approx(played.wait[1:].tolist())
    columns = (given.job.tolist(), given.waited, given.p50, given.p90)
    for job, waited, p50, p90 in zip(*columns, strict=True):
        if job in ESTIMATES:
            expected = [each - waited for each in ESTIMATES[job]]
            assert [p50, p90] == pytest.approx(expected, abs=MESSAGES)
        else:
            assert np.isnan([p50, p90]).all()
    assert given.alike.tolist() == [0] * 9 + [5, 5, 6, 9, 12]
    every, size, waited_group = forecast_accuracy([played])
    assert (every.group, size.group, waited_group.group) == (
        *("all", "size=0-1"),
        "waited=below 1 h",
    )
    assert replace(every, group="") == replace(size, group="") == replace(waited_group, group="")
    assert (every.asked, every.given) == (14, 5 / 14)
    assert (every.hit, every.by_p50, every.by_p90) == (1 / 5, 1 / 5, 2 / 5)
    assert every.error_p50 == pytest.approx(2030, abs=MESSAGES)
    assert every.error_p90 == pytest.approx(2320, abs=MESSAGES)


def test_figures_of_each_size_and_of_how_long_a_job_had_waited() -> None:
    """Job a has 4 GPUs, b 4 in two pods, c 4: one size. Questions: of a without an estimate, of b
    a hit at once and a late start after an hour, of c an early start after nine."""
    nan = float("nan")
    forecasts = Forecasts(
        job=np.array([0, 1, 1, 2]),
        waited=np.array([30.0, 30.0, 3630.0, 9 * 3600.0]),
        p50=np.array([nan, 100.0, 50.0, 40.0]),
        p90=np.array([nan, 300.0, 90.0, 80.0]),
        alike=np.array([0, 5, 6, 7]),
        remaining=np.array([9.0, 200.0, 100.0, 4.0]),
    )
    every, size, first, hour, nine = forecast_accuracy([replace(by_hand(), forecasts=forecasts)])
    assert (every.asked, every.given, every.hit) == (4, 3 / 4, 1 / 3)
    assert (every.by_p50, every.by_p90) == (1 / 3, 2 / 3)
    assert (every.error_p50, every.error_p90) == (50.0, 90.0)  # of 36, 50 and 100
    assert every.relative_p50 == 0.5  # of 100 / 200, 50 / 100 and 36 / 10
    assert size == replace(every, group="size=2-7")
    assert (first.group, first.asked, first.given, first.hit) == ("waited=below 1 h", 2, 0.5, 1.0)
    assert (hour.group, hour.hit, hour.by_p90) == ("waited=1 h to 8 h", 0.0, 0.0)
    assert (nine.group, nine.hit, nine.by_p50) == ("waited=8 h and more", 0.0, 1.0)


def drawn(seed: int) -> Week:
    """Jobs of one to four GPUs that wait for minutes to hours."""
    random = np.random.default_rng(seed)
    count = 40
    return Week.of(
        name=[f"job {i}" for i in range(count)],
        submit=np.sort(random.uniform(0, 30_000, count)),
        duration=random.uniform(2000, 9000, count),
        gpus=random.choice([1, 1, 2, 4], count).tolist(),
        queue=random.choice(["prod", "dev"], count).tolist(),
    )


def recomputed(rows: list[dict[str, str]]) -> dict[str, Any]:
    """The figures of the definitions, from rows of forecasts.csv one by one."""
    given = [row for row in rows if row["p50"]]
    p50, p90, left = (
        np.array([float(row[name]) for row in given]) for name in ("p50", "p90", "remaining")
    )
    error = np.abs(left - p50)
    relative = error / np.maximum(left, 10)
    return {
        "asked": len(rows),
        "given": len(given) / len(rows),
        "hit": np.mean((left >= p50 - 0.05) & (left <= p90 + 0.05)),
        "by_p50": np.mean(left <= p50 + 0.05),
        "by_p90": np.mean(left <= p90 + 0.05),
        "error_p50": np.percentile(error, 50),
        "error_p90": np.percentile(error, 90),
        "relative_p50": np.percentile(relative, 50),
        "relative_p90": np.percentile(relative, 90),
    }


def test_figures_of_random_weeks_follow_from_the_files(tmp_path: Path) -> None:
    for seed in range(examples(4, least=1)):
        week, out = tmp_path / "week.csv", tmp_path / "report.html"
        week.write_text(write_csv(drawn(seed)))
        arguments = ("--nodes", "2", "--gpus-per-node", "4", "--seeds", "1,2", "--processes", "1")
        result = lab(week, *arguments, "--forecast", "--out", out)
        assert result.exit_code == 0, result.output
        (variant,) = json.loads((tmp_path / "summary.json").read_text())["forecast"]
        rows, jobs = read(tmp_path / "forecasts.csv"), read(tmp_path / "jobs.csv")
        wait_of = {(row["seed"], row["job"]): float(row["wait"]) for row in jobs}
        for row in rows:
            wait = float(row["waited"]) + float(row["remaining"])
            assert wait == pytest.approx(wait_of[row["seed"], row["job"]], abs=3e-3)
        assert tuple(rows[0]) == FORECAST_COLUMNS
        every = variant["groups"][0]
        assert every == {"group": "all"} | {
            name: pytest.approx(value, abs=2e-3) for name, value in recomputed(rows).items()
        }
        for what in ("size=", "waited="):
            parts = [group for group in variant["groups"] if group["group"].startswith(what)]
            assert sum(group["asked"] for group in parts) == every["asked"]
        assert "Estimates of the wait against what happened" in out.read_text()
        assert "Estimates of the wait against what happened: default, 1 shard" in result.stdout


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_asking_changes_nothing() -> None:
    asked = run(drawn(7), Cluster.equal(2, gpus=4), seed=3, forecast=True)
    plain = run(drawn(7), Cluster.equal(2, gpus=4), seed=3)
    assert asked.end.tolist() == plain.end.tolist()
    assert asked.forecasts is not None
    assert plain.forecasts is None
    waited = asked.forecasts.waited[asked.forecasts.job == int(np.argmax(asked.wait))]
    hours = (waited - waited[0]) / 3600
    assert hours[:5].tolist() == pytest.approx([0, 1, 2, 4, 8], abs=0.2)


def test_the_sample_is_bounded_and_the_same_each_time() -> None:
    assert list(sampled_rows(MOST_JOBS)) == list(range(MOST_JOBS))
    drawn_rows = sampled_rows(5 * MOST_JOBS)
    assert len(drawn_rows) == MOST_JOBS
    assert drawn_rows == sampled_rows(5 * MOST_JOBS)


def test_a_search_records_only_the_half_that_it_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Experiment] = []

    def recording(experiment: Experiment, **options: Any) -> list[SeedRun]:
        played.append(experiment)
        return play_all(experiment, **options)

    monkeypatch.setattr("laboratory.lab.questions.search.play_all", recording)
    found = search(
        *(*small(), "nodeorder.leastrequested.weight=1..2"),
        seeds=(1,),
        receipts=True,
        forecast=True,
    )
    first, rest = (experiment.settings for experiment in played)
    assert (first.receipts, first.forecast) == (False, False)
    assert (rest.receipts, rest.forecast) == (True, True)
    assert all(run.played.receipts and run.played.forecasts for run in found.runs)


def test_forecasts_of_the_fewest_nodes_are_refused() -> None:
    result = lab("absent.csv", "--fewest-nodes", "--forecast", "--guard", "sor >= 1%")
    assert isinstance(result.exception, CommandError)
    assert "--forecast: does not go with --fewest-nodes" in str(result.exception)


def test_the_page_has_the_definitions() -> None:
    page = (ROOT / "docs/laboratory.md").read_text()
    for name, text in DEFINITIONS.items():
        assert f"| `{name}` | {text} |" in page
