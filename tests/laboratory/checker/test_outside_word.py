"""The checker on what others say of nodes: a metrics source, and an extender (promise 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laboratory.checker.check import check_lines
from laboratory.checker.placement.outside_word import Refuses
from tests.laboratory.checker.story import T0, Story

USAGE = {"name": "usage", "arguments": {"thresholds": {"cpu": 50}}}
EXTENDER = {
    "name": "extender",
    "arguments": {"extender.urlPrefix": "http://x", "extender.predicateVerb": "predicate"},
}


def story(*plugins: dict[str, Any]) -> Story:
    made = Story()
    tiers = [[{"name": "predicates"}, *plugins]]
    made.ledger("policy", policy={"actions": ["allocate"], "tiers": tiers})
    made.job(3, 2)
    return made


def measured(
    made: Story, cpu: float, *, memory: float = 0.0, begins: float = 0.0, ends: float | None = None
) -> None:
    event = made.cluster("measured", [], [])
    del event["tasks"], event["nodes"], event["uids"], event["answers"]
    event |= {"usage": {"n0": [cpu, memory]}, "from": begins, "until": ends}


def wrong(made: Story, tmp_path: Path, *, refuses: Refuses | None = None) -> list[str]:
    made.write(tmp_path / "history.jsonl")
    lines = (tmp_path / "history.jsonl").read_bytes().splitlines(keepends=True)
    report = check_lines(lines, name="story", refuses=refuses)
    return [str(found) for found in report.violations if found.rule == "node-rules"]


@pytest.mark.parametrize(
    ("cpu", "memory", "is_wrong"), [(50, 80, False), (51, 0, True), (0, 81, True), (-1, -1, False)]
)
def test_a_busy_node_takes_nothing(
    cpu: float, memory: float, is_wrong: bool, tmp_path: Path
) -> None:
    made = story(USAGE)
    measured(made, cpu, memory=memory)
    made.commit(3, {0: 0})
    found = wrong(made, tmp_path)
    assert bool(found) == is_wrong
    assert not found or "is in use" in found[0]


def test_other_nodes_and_other_policies_take_it(tmp_path: Path) -> None:
    made = story(USAGE)
    measured(made, 99)
    made.commit(3, {0: 1})  # of n1 nothing is known
    assert not wrong(made, tmp_path)
    without = story()
    measured(without, 99)
    without.commit(3, {0: 0})
    assert not wrong(without, tmp_path)


@pytest.mark.parametrize(("later", "is_wrong"), [(10.0, False), (40.0, True)])
def test_a_worker_may_have_had_the_figures_before(
    later: float, is_wrong: bool, tmp_path: Path
) -> None:
    made = story(USAGE)
    measured(made, 10)
    made.t += 5
    measured(made, 99, begins=made.t)
    made.t += later
    made.commit(3, {0: 0})
    assert bool(wrong(made, tmp_path)) == is_wrong


def test_figures_that_are_over_count_no_more(tmp_path: Path) -> None:
    made = story(USAGE)
    measured(made, 99, ends=T0 + 60)
    made.t = T0 + 70
    made.commit(3, {0: 0})
    assert not wrong(made, tmp_path)


def test_the_next_leader_has_none_until_it_asked(tmp_path: Path) -> None:
    made = story(USAGE)
    measured(made, 99)
    made.ledger("epoch")
    made.commit(3, {0: 0})
    assert not wrong(made, tmp_path)
    measured(made, 99)
    made.commit(3, {1: 0})
    assert wrong(made, tmp_path)


def test_an_extenders_refusals_count_where_they_are_known(tmp_path: Path) -> None:
    made = story(EXTENDER)
    made.commit(3, {0: 0})
    assert not wrong(made, tmp_path)

    def refuses(job: str, node: str) -> bool:
        return (job, node) == ("default/job-3", "n0")

    [found] = wrong(made, tmp_path, refuses=refuses)
    assert "the extender refuses its node" in found
    other = story({**EXTENDER, "flags": {"enablePredicate": False}})
    other.commit(3, {0: 0})
    assert not wrong(other, tmp_path, refuses=refuses)
