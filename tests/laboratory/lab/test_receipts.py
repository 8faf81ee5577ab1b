"""What each job of a random week waited for: parts without gap, which sum to the wait."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coordinator.cli.options.failure import CommandError
from laboratory import Cluster, Played, Week, run
from laboratory.cli.app import app
from shared.policy.dialect import parse_policy
from tests.examples import examples, first_of
from tests.laboratory.lab.weeks import small, write_csv

PREEMPTS = parse_policy(
    {
        "actions": "enqueue, allocate, preempt, reclaim, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
        ],
    }
)
SECOND = 1000


def drawn(seed: int) -> Week:
    """Forty jobs of all sizes, one pod or a gang, in two queues and two priorities."""
    random = np.random.default_rng(seed)
    count = 40
    return Week.of(
        name=[f"job {i}" for i in range(count)],
        submit=np.sort(random.uniform(0, 4000, count)),
        duration=random.uniform(50, 1500, count),
        gpus=random.choice([1, 1, 2, 3, 4], count).tolist(),
        pods=random.choice([1, 1, 1, 2, 3], count).tolist(),
        queue=random.choice(["prod", "dev"], count).tolist(),
        priority=random.choice([0, 5], count).tolist(),
    )


def check(played: Played) -> None:
    """Every job's parts are gapless and sum to its wait, which the cluster's own events say."""
    assert len(played.receipts) == len(played.week)
    for row, body in enumerate(played.receipts):
        receipt = body["receipt"]
        assert body["job"] == played.week.name[row]
        assert receipt["milliseconds"] == sum(receipt["sums"].values())
        for wait in receipt["waits"]:
            begin = round(wait["begin"] * 1000)
            for part in wait["parts"]:
                assert round(part["begin"] * 1000) == begin
                assert part["milliseconds"] > 0
                begin += part["milliseconds"]
            assert begin == round(wait["end"] * 1000)
            assert wait["milliseconds"] == sum(part["milliseconds"] for part in wait["parts"])
        first = receipt["waits"][0]
        assert round(first["begin"] * 1000) == round(played.submit[row] * 1000)
        if not played.evictions[row]:
            wait_of_week = round(played.start[row] * 1000) - round(played.submit[row] * 1000)
            assert receipt["milliseconds"] == wait_of_week
            assert len(receipt["waits"]) == 1
        else:
            check_idle(played, row, receipt)


def check_idle(played: Played, row: int, receipt: dict[str, Any]) -> None:
    """A job that was evicted waits whenever not all of its pods run, but for the messages."""
    runs = played.runs.job == row
    moments = np.concatenate([played.runs.start[runs], played.runs.end[runs]])
    change = np.repeat([1, -1], runs.sum())
    order = np.argsort(moments, kind="stable")
    times, running = moments[order], np.cumsum(change[order])
    whole = played.week.pods[row] + (played.week.rest[row] > 0)
    until = played.runs.start[runs].max()
    idle = times[0] - played.submit[row]
    for at, count, end in zip(times, running, times[1:], strict=False):
        if count < whole and at < until:
            idle += end - at
    assert abs(receipt["milliseconds"] - idle * 1000) < 5 * SECOND


@pytest.mark.parametrize("shards", first_of([4, 1]))
@pytest.mark.parametrize("policy", first_of([PREEMPTS, None]))
def test_the_parts_of_every_job_of_a_random_week_sum_to_its_wait(shards: int, policy: Any) -> None:
    evicted = 0
    for seed in range(examples(10)):
        played = run(
            drawn(seed),
            Cluster.equal(3, gpus=4),
            policy=policy,
            shards=shards,
            seed=seed,
            receipts=True,
        )
        check(played)
        evicted += int(played.evictions.sum())
    assert bool(evicted) == (policy is PREEMPTS)


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_the_command_reads_the_receipts_of_every_run(tmp_path: Path) -> None:
    week, out = tmp_path / "week.csv", tmp_path / "report.html"
    week.write_text(write_csv(small()[0]))
    cluster = ("--nodes", "2", "--gpus-per-node", "4", "--seeds", "1", "--shards", "1,4")
    made = command("lab", week, *cluster, "--receipts", "--out", out)
    assert made.exit_code == 0, made.output
    answer = command("receipt", "job", "4", "--from", tmp_path, "-o", "json")
    bodies = json.loads(answer.stdout)["items"]
    assert [(body["run"]["shards"], body["of"]["name"]) for body in bodies] == [(1, "4"), (4, "4")]
    with (tmp_path / "jobs.csv").open(newline="") as file:
        waits = [float(row["wait"]) for row in csv.DictReader(file) if row["job"] == "4"]
    lengths = [body["receipt"]["milliseconds"] for body in bodies]
    assert lengths == [round(wait * 1000) for wait in waits]
    table = command("receipt", "job", "4", "--from", tmp_path / "receipts.jsonl").stdout
    assert table.startswith("Job 4 (default, 1 shard, seed 1) waited ")
    assert "NotEnoughResources: gang of 2 asks 8 nvidia.com/gpu" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("job", "a", "--from", "absent"), "absent: cannot be read: No such file or directory; it"),
        (("job", "a", "--from", "odd.jsonl"), "odd.jsonl: is no file of receipts (KeyError"),
        (("job", "b", "--from", "odd.jsonl"), "odd.jsonl: has no job b; jobs.csv beside it has"),
        (("pod", "a", "--from", "odd.jsonl"), "odd.jsonl has jobs; write job NAME"),
    ],
)
def test_a_file_without_the_receipt_is_refused_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.jsonl").write_text('{"job":"a","else":1}\n')
    result = command("receipt", *arguments)
    assert isinstance(result.exception, CommandError)
    assert message in str(result.exception)


def test_receipts_without_a_report_are_refused_before_the_week_is_played() -> None:
    result = command("lab", "absent.csv", "--receipts")
    assert isinstance(result.exception, CommandError)
    assert "add --out" in str(result.exception)
