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
    history = Story()
    tiers = [[{"name": "predicates"}, *plugins]]
    history.ledger("policy", policy={"actions": ["allocate"], "tiers": tiers})
    history.job(3, 2)
    return history


def measured(
    history: Story,
    cpu: float,
    *,
    memory: float = 0.0,
    begins: float = 0.0,
    ends: float | None = None,
) -> None:
    event = history.cluster("measured", [], [])
    del event["tasks"], event["nodes"], event["uids"], event["answers"]
    event |= {"usage": {"n0": [cpu, memory]}, "from": begins, "until": ends}


def wrong(history: Story, tmp_path: Path, *, refuses: Refuses | None = None) -> list[str]:
    history.write(tmp_path / "history.jsonl")
    lines = (tmp_path / "history.jsonl").read_bytes().splitlines(keepends=True)
    report = check_lines(lines, name="story", refuses=refuses)
    return [str(result) for result in report.violations if result.rule == "node-rules"]


@pytest.mark.parametrize(
    ("cpu", "memory", "is_wrong"), [(50, 80, False), (51, 0, True), (0, 81, True), (-1, -1, False)]
)
def test_a_busy_node_takes_nothing(
    cpu: float, memory: float, is_wrong: bool, tmp_path: Path
) -> None:
    history = story(USAGE)
    measured(history, cpu, memory=memory)
    history.commit(3, {0: 0})
    result = wrong(history, tmp_path)
    assert bool(result) == is_wrong
    assert not result or "is in use" in result[0]


def test_other_nodes_and_other_policies_take_it(tmp_path: Path) -> None:
    history = story(USAGE)
    measured(history, 99)
    history.commit(3, {0: 1})  # of n1 nothing is known
    assert not wrong(history, tmp_path)
    without = story()
    measured(without, 99)
    without.commit(3, {0: 0})
    assert not wrong(without, tmp_path)


@pytest.mark.parametrize(("later", "is_wrong"), [(10.0, False), (40.0, True)])
def test_a_worker_may_have_had_the_figures_before(
    later: float, is_wrong: bool, tmp_path: Path
) -> None:
    history = story(USAGE)
    measured(history, 10)
    history.t += 5
    measured(history, 99, begins=history.t)
    history.t += later
    history.commit(3, {0: 0})
    assert bool(wrong(history, tmp_path)) == is_wrong


def test_figures_that_are_over_count_no_more(tmp_path: Path) -> None:
    history = story(USAGE)
    measured(history, 99, ends=T0 + 60)
    history.t = T0 + 70
    history.commit(3, {0: 0})
    assert not wrong(history, tmp_path)


def test_the_next_leader_has_none_until_it_asked(tmp_path: Path) -> None:
    history = story(USAGE)
    measured(history, 99)
    history.ledger("epoch")
    history.commit(3, {0: 0})
    assert not wrong(history, tmp_path)
    measured(history, 99)
    history.commit(3, {1: 0})
    assert wrong(history, tmp_path)


def test_an_extenders_refusals_count_where_they_are_known(tmp_path: Path) -> None:
    history = story(EXTENDER)
    history.commit(3, {0: 0})
    assert not wrong(history, tmp_path)

    def refuses(job: str, node: str) -> bool:
        return (job, node) == ("default/job-3", "n0")

    [result] = wrong(history, tmp_path, refuses=refuses)
    assert "the extender refuses its node" in result
    other = story({**EXTENDER, "flags": {"enablePredicate": False}})
    other.commit(3, {0: 0})
    assert not wrong(other, tmp_path, refuses=refuses)
