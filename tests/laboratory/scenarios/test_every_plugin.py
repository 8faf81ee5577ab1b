"""Seeds whose policy is drawn from all plugins: each is drawn, and what it forbids is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from laboratory.scenarios.every_plugin import EXTENDER
from laboratory.scenarios.generate import drawn_policy, scenario, whole_policy
from laboratory.scenarios.play import play
from laboratory.simulation.scenario import Item, Scenario
from laboratory.workloads.extender_answers import ask_in_process
from shard_worker.dialects.volcano.plugins.node.extender import Extender, ExtenderQuestion
from shard_worker.dialects.volcano.plugins.node.nodegroup import NodeGroup
from shard_worker.dialects.volcano.plugins.node.usage import Usage
from shard_worker.dialects.volcano.registry import PLUGINS
from shard_worker.view.mode import Mode

SEEDS = 500
DRAWN = [seed for seed in range(SEEDS) if drawn_policy(seed)]


def policies(scenario: Scenario) -> Iterator[Item]:
    yield scenario.policy
    yield from (change.policy for change in scenario.policy_changes)


def test_every_plugin_is_drawn_in_the_tests_seeds() -> None:
    drawn = {
        plugin["name"]
        for seed in DRAWN
        for policy in policies(scenario(seed))
        for tier in policy["tiers"]
        for plugin in tier["plugins"]
    }
    assert drawn == set(PLUGINS)
    assert len(DRAWN) >= SEEDS // 10
    assert not any(whole_policy(seed) for seed in DRAWN)
    assert {scenario(seed).mode for seed in DRAWN[:3]} == set(Mode)


def test_every_job_is_deleted_in_the_end() -> None:
    """A drawn policy may let a job in nowhere: all are deleted in the end."""
    for seed in DRAWN[:6]:
        expected = scenario(seed)
        named = {item["metadata"]["name"] for wish in expected.wishes for item in wish.items}
        jobs = {
            item["metadata"]["name"]
            for wish in expected.wishes
            for item in wish.items
            if item["kind"] in ("Job", "PodGroup")
        }
        last = max(wish.at for wish in expected.wishes)
        deleted = {w.delete.name for w in expected.wishes if w.delete is not None and w.at == last}
        assert jobs == deleted & named


def test_the_extender_answers_the_same_to_the_same_question() -> None:
    """And without HTTP: nobody is at that address."""
    body = '{"node": "n0", "task": {"job": "ns/a"}}'
    question = ExtenderQuestion(f"{EXTENDER}/predicate", body, 1.0)
    first = ask_in_process([question])
    assert first == ask_in_process([question])
    assert first[question.key] in ({"code": 0}, {"code": 1})


@pytest.mark.all
@pytest.mark.parametrize(
    ("plugin", "part", "silent", "message"),
    [
        (NodeGroup, "checks", [], "onto nodes of group"),
        (Usage, "on_session_open", None, "is in use"),
        (Extender, "on_session_open", None, "the extender refuses its node"),
    ],
)
def test_a_plugin_of_a_drawn_policy_that_checks_nothing_is_noticed(
    plugin: Any, part: str, silent: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker holds every placement to the predicates of the policy that was drawn."""
    monkeypatch.setattr(plugin, part, lambda *_: silent)
    for seed in (seed for seed in DRAWN if f"'{plugin.name}'" in str(scenario(seed).policy)):
        if any(message in broken.message for broken in play(scenario(seed)).broken):
            return
    raise AssertionError("no seed shows it")
