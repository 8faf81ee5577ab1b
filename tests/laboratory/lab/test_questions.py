"""Questions of many runs: the best value of an argument, and the fewest nodes that are enough."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from coordinator.cli.options.failure import CommandError
from laboratory import Cluster, Week, fewest_nodes, search
from laboratory.lab.policies import NamedPolicy
from laboratory.lab.questions.search import ArgumentRange, with_argument
from laboratory.lab.week import WeekError
from tests.laboratory.lab.weeks import lab, small, write_csv

BINPACK = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: binpack\n'
FOUR_GPUS = partial(Cluster.equal, gpus=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("binpack.weight=1..4", (1, 2, 3, 4)),
        ("binpack.weight=1..100", (1, 12, 23, 34, 45, 56, 67, 78, 89, 100)),
        ("p.x = 0.5..1.4", (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)),
    ],
)
def test_values_lie_within_the_bounds(text: str, expected: tuple[float, ...]) -> None:
    assert ArgumentRange.parse(text).values == pytest.approx(expected)


@pytest.mark.parametrize("text", ["weight=1..2", "binpack.weight=3..3", "binpack.weight=1"])
def test_a_range_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(WeekError, match=r"not of the form binpack.weight=1..10"):
        ArgumentRange.parse(text)


def test_the_value_is_set_in_the_policy() -> None:
    policy = with_argument(NamedPolicy("mine", BINPACK), "binpack.weight", 4)
    assert policy.name == "mine, binpack.weight 4"
    (tier,) = policy.parse().tiers
    assert tier[1].arguments == {"binpack.weight": 4}
    nodeorder = with_argument(NamedPolicy(), "nodeorder.leastrequested.weight", 3).parse()
    assert nodeorder.tiers[1][-1].arguments == {"leastrequested.weight": 3}
    with pytest.raises(WeekError, match="policy mine has no plugin drf"):
        with_argument(NamedPolicy("mine", BINPACK), "drf.weight", 4)


def test_a_value_is_chosen_on_one_half_and_compared_on_the_other(tmp_path: Path) -> None:
    week, policy, out = tmp_path / "week.csv", tmp_path / "mine.yaml", tmp_path / "r.html"
    week.write_text(write_csv(small()[0]))
    policy.write_text(BINPACK)
    cluster = ("--nodes", "2", "--gpus-per-node", "4", "--seeds", "1", "--processes", "1")
    asked = ("--policy", policy, "--search", "binpack.weight=1..2", "--out", out)
    result = lab(week, *cluster, *asked)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    found = search(*small(), "binpack.weight=1..2", policy=policy, seeds=(1,))
    assert summary["search"] == json.loads(json.dumps(found.as_json()))
    assert [one["value"] for one in summary["search"]["tried"]] == [None, 1, 2]
    assert summary["week"]["jobs"] == len(found.held_out.week) == 6
    assert found.held_out.week.name[0] == "job 6"
    assert "had no part in the choice" in out.read_text()
    again = lab(week, "--again", tmp_path / "summary.json", "-o", "json", "--processes", "1")
    assert json.loads(again.stdout.splitlines()[-1])["runs"] == summary["runs"]


def test_the_fewest_nodes_that_keep_a_guard() -> None:
    # Three jobs of a whole node at once: with three nodes none waits, with two one does.
    week = Week.of(submit=[0, 0, 0], duration=[600] * 3, gpus=[4] * 3)
    guards = ["wait.p99 <= 60"]
    found = fewest_nodes(week, guards, FOUR_GPUS, nodes=2, seeds=(1,))
    assert found.nodes == 3
    assert [one.nodes for one in found.tried] == [2, 4, 3]
    assert "wait.p99 <= 60: default, 1 shard has" in found.tried[0].broken
    assert fewest_nodes(week, ["wait.p99 <= 6000"], FOUR_GPUS, nodes=2, seeds=(1,)).nodes == 1


def test_jobs_without_room_need_more_nodes() -> None:
    week = Week.of(submit=[0], duration=[60], gpus=[8])
    found = fewest_nodes(week, ["wait.p99 <= 60"], FOUR_GPUS, nodes=1, seeds=(1,))
    assert found.nodes == 2
    assert found.tried[0].broken == "no room even without other jobs for 1 of 1 jobs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fewest-nodes",), "needs a --guard"),
        (("--fewest-nodes", "--guard", "wait.p99 <= +5%"), "bounds without a sign"),
        (("--fewest-nodes", "--again", "summary.json"), "does not go with --again"),
        (("--search", "binpack.weight=1..2"), "policy default has no plugin binpack"),
        (("--search", "drf.x=1..2", "--shards", "1,2"), "one number of --shards"),
        (("--search", "nodeorder.leastrequested.weight=1..2", "--search-by", "speed"), "no value"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    week = tmp_path / "week.csv"
    week.write_text(write_csv(small()[0]))
    result = lab(week, "--nodes", "2", *arguments)
    assert isinstance(result.exception, CommandError)
    assert message in str(result.exception)
