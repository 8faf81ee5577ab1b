"""Scores by other pods against the rules as one would read them aloud, node by node."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.model.constraints import PodTerm, Spread
from shared.model.label_selector import matches
from shared.policy.model import PluginOption
from tests.examples import examples
from tests.shard_worker.neighbourhood import (
    APP,
    HOST,
    ZONE,
    asks,
    far,
    label,
    marked,
    near,
    task_of,
)

WEIGHTS = ("leastrequested", "balancedresource", "imagelocality", "nodeaffinity", "tainttoleration")
OFF = {f"{name}.weight": 0 for name in WEIGHTS}


def zones(*names: str, near_weight: int = 0, even_weight: int = 0) -> Cluster:
    weights = {"podaffinity.weight": near_weight, "podtopologyspread.weight": even_weight}
    cluster = Cluster(PluginOption("nodeorder", arguments={**OFF, **weights}))
    for i, zone in enumerate(names):
        cluster.node(f"n{i}", labels={ZONE: zone} if zone else {})
    return cluster


def scores(session: Session, name: str) -> list[float]:
    rows = np.arange(session.world.size)
    result: list[float] = session.node_scores(task_of(session, name), rows).tolist()
    return result


class TestNeighbourScores:
    def test_wishes_for_and_against_are_scaled_to_a_hundred(self) -> None:
        cluster = zones("a", "b", "c", near_weight=2)
        cluster.job("web", on=["n0"], members=marked(app="web"))
        cluster.job("db", on=["n1"], members=marked(app="db"))
        wishes = near(weight=30), far(label("app", "db"), weight=10)
        cluster.job("new", rules=asks(*wishes))
        assert scores(cluster.open(), "new-0") == [200, 0, 50]

    def test_preferences_of_present_pods_count(self) -> None:
        cluster = zones("a", "b", near_weight=1)
        cluster.job("fan", on=["n1"], rules=asks(near(weight=1)))
        cluster.job("new", members=marked(app="web"))
        session = cluster.open()
        assert scores(session, "new-0") == [0, 100]
        WorldStatement(session).evict(task_of(session, "fan-0"), "test")
        assert scores(session, "new-0") == [0, 0]

    def test_required_terms_of_present_pods_add_no_score(self) -> None:
        cluster = zones("a", "b", near_weight=1)
        cluster.job("fan", on=["n1"], rules=asks(near()))
        cluster.job("new", members=marked(app="web"))
        assert scores(cluster.open(), "new-0") == [0, 0]


class TestSpread:
    def test_emptier_domains_score_higher(self) -> None:
        cluster = zones("a", "b", "c", even_weight=1)
        cluster.job("web", tasks=3, on=["n0", "n0", "n1"], members=marked(app="web"))
        soft = Spread(ZONE, 1, hard=False, selector=APP)
        cluster.job("new", rules=asks(spreads=[soft]), members=marked(app="web"))
        assert scores(cluster.open(), "new-0") == [0, 33, 100]

    def test_nodes_without_the_key_score_nothing_and_equals_a_hundred(self) -> None:
        cluster = zones("a", "", "b", even_weight=1)
        cluster.job("new", rules=asks(spreads=[Spread(ZONE, 1, hard=False, selector=APP)]))
        assert scores(cluster.open(), "new-0") == [100, 0, 100]


def test_only_wishes_need_a_session() -> None:
    cluster = zones("a", near_weight=1, even_weight=1)
    cluster.job("plain")
    cluster.job("wishes", rules=asks(near(weight=1)))
    cluster.job("even", rules=asks(spreads=[Spread(ZONE, hard=False)]))
    session = cluster.open()
    fast = [session.fast(task_of(session, f"{n}-0").cls) for n in ("plain", "wishes", "even")]
    assert fast == [True, False, False]


# --- properties -------------------------------------------------------------------------------

wishes = st.builds(
    lambda app, key, anti, weight: PodTerm(key, label("app", app), anti=anti, weight=weight),
    st.sampled_from("xy"),
    st.sampled_from([ZONE, HOST]),
    st.booleans(),
    st.integers(1, 100),
)
soft = st.builds(
    Spread,
    topology_key=st.sampled_from([ZONE, HOST]),
    max_skew=st.integers(1, 3),
    hard=st.just(False),
    selector=st.sampled_from([label("app", "x"), label("app", "x", "y"), None]),
)
jobs = st.lists(
    st.tuples(
        st.sampled_from("xy"),
        st.lists(wishes, max_size=2),
        st.lists(soft, max_size=2),
        st.lists(st.integers(0, 3), max_size=3),
    ),
    min_size=1,
    max_size=4,
)
names = st.lists(st.sampled_from(["a", "b", ""]), min_size=2, max_size=4)


def crowd(cluster: Cluster, size: int, described: list[Any]) -> Session:
    for i, (app, terms, spreads, rows) in enumerate(described):
        on = [f"n{row % size}" for row in rows]
        rules = asks(*terms, spreads=spreads)
        cluster.job(f"j{i}", tasks=len(on) + 1, on=on, rules=rules, members=marked(app=app))
    return cluster.open()


def terms_of(task: TaskInfo) -> tuple[PodTerm, ...]:
    return () if task.cls.constraints is None else task.cls.constraints.pod_terms


def meant(term: PodTerm, task: TaskInfo) -> bool:
    return matches(term.selector, dict(task.role.labels))


def shares(session: Session, key: str, one: int, other: int) -> bool:
    world = session.world
    value = world.node(one).labels.get(key)
    return value is not None and value == world.node(other).labels.get(key)


def wished(session: Session, task: TaskInfo, row: int) -> int:
    total = 0
    for other in session.world.tasks():
        if other.row < 0:
            continue
        pairs = [(term, meant(term, other)) for term in terms_of(task)]
        pairs += [(term, meant(term, task)) for term in terms_of(other)]
        for term, is_meant in pairs:
            if is_meant and shares(session, term.topology_key, row, other.row):
                total += -term.weight if term.anti else term.weight
    return total


@settings(max_examples=examples(60), deadline=None)
@given(names, jobs)
def test_affinity_scores_are_what_the_rule_says(zone_of: list[str], described: list[Any]) -> None:
    session = crowd(zones(*zone_of, near_weight=1), len(zone_of), described)
    for task in session.world.tasks():
        if task.status is not Status.PENDING:
            continue
        raw = [wished(session, task, row) for row in range(len(zone_of))]
        low, high = min(raw), max(raw)
        expected = [int(100 * ((one - low) / (high - low))) if high > low else 0 for one in raw]
        assert scores(session, task.name) == expected


def crowded(session: Session, task: TaskInfo, spreads: list[Spread], row: int) -> int | None:
    """The raw score of a node, None where it lacks one of the keys."""
    world = session.world
    rows = range(world.size)
    keys = [spread.topology_key for spread in spreads]
    judged = [r for r in rows if all(key in world.node(r).labels for key in keys)]
    if row not in judged:
        return None
    total = 0.0
    for spread in spreads:
        values = {world.node(r).labels[spread.topology_key] for r in judged}
        there = [
            other
            for other in world.tasks()
            if other.row in judged
            and shares(session, spread.topology_key, row, other.row)
            and matches(spread.selector, dict(other.role.labels))
        ]
        total += len(there) * math.log(len(values) + 2) + (spread.max_skew - 1)
    return math.floor(total + 0.5)


@settings(max_examples=examples(60), deadline=None)
@given(names, jobs)
def test_spread_scores_are_what_the_rule_says(zone_of: list[str], described: list[Any]) -> None:
    session = crowd(zones(*zone_of, even_weight=1), len(zone_of), described)
    for task in session.world.tasks():
        if task.status is not Status.PENDING or task.cls.constraints is None:
            continue
        spreads = list(task.cls.constraints.spreads)
        raw = [crowded(session, task, spreads, row) for row in range(len(zone_of))]
        reports = [one for one in raw if one is not None]
        expected = []
        for one in raw:
            if one is None or not spreads:
                expected.append(0)
            elif max(reports) == 0:
                expected.append(100)
            else:
                expected.append(100 * (max(reports) + min(reports) - one) // max(reports))
        assert scores(session, task.name) == expected
