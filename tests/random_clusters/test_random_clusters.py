"""Some random clusters in all forms; ``make soak`` runs 2,000 of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laboratory.replay.session import run_session
from laboratory.workloads.drawn_policies import plugins_of
from shard_worker.dialects.volcano.registry import PLUGINS
from tests.examples import examples
from tests.laboratory.replay.build import case, gang, node
from tests.random_clusters.extender import answering
from tests.random_clusters.forms import Tried, drawn, try_cluster

SEEDS = 32
"""``make soak`` has 2,000."""
PER_TEST = 4
TRIED = examples(SEEDS, least=PER_TEST)


@pytest.fixture(scope="module")
def extender() -> Iterator[str]:
    with answering() as url:
        yield url


@pytest.mark.parametrize("first", range(0, TRIED, PER_TEST))
def test_the_checker_finds_nothing_in_any_form(first: int, extender: str) -> None:
    tried = Tried()
    for seed in range(first, first + PER_TEST):
        try_cluster(seed, tried, extender=extender)
    assert tried.wrong == []
    assert tried.done["session bound"] and tried.done["3 shards bound"]


def test_every_plugin_is_drawn() -> None:
    """CI's clusters are enough for each. A plugin that is new is drawn by itself."""
    observed: set[str] = set()
    for seed in range(SEEDS):
        observed |= plugins_of(drawn(seed, extender="")[0])
    assert observed == set(PLUGINS)


def test_a_replay_asks_the_extender(extender: str) -> None:
    """It ended with a traceback at the first question."""
    verbs = {"extender.urlPrefix": extender, "extender.predicateVerb": "predicate"}
    plugins = [{"name": "gang"}, {"name": "extender", "arguments": verbs}]
    under = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    replay_case = case(node("a"), node("b"), *gang("g", pods=2), under=under)
    assert len(run_session(replay_case.policy, replay_case.recorded).committed) == 2
