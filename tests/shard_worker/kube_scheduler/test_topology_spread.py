"""Hard topology spread, and the wish for it, against counting by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.statement import WorldStatement
from shard_worker.kube_scheduler.filters.topology_spread import MISSING, SKEW
from shard_worker.session_model.status import Status
from shared.model.constraints import Spread, Taint
from tests.examples import examples
from tests.shard_worker.neighbourhood import (
    APP,
    HOST,
    ZONE,
    asks,
    label,
    marked,
    open_to,
    place_all,
    reasons,
    task_of,
    where,
    zones,
)

WEB = marked(app="web")


def even(max_skew: int = 1, key: str = ZONE, **fields: Any) -> dict[str, object]:
    return asks(spreads=[Spread(key, max_skew, selector=APP, **fields)])


def test_no_domain_gets_further_ahead_than_it_may() -> None:
    cluster = zones("a", "a", "b", "c")
    cluster.job("web", tasks=3, on=["n0", "n1", "n2"], members=WEB)
    cluster.job("new", rules=even(), members=WEB)
    cluster.job("wide", rules=even(2), members=WEB)
    session = cluster.open()
    assert open_to(session, "new-0") == ["n3"]
    assert open_to(session, "wide-0") == ["n2", "n3"]
    assert reasons(session, "new-0") == {SKEW: 3}


def test_one_that_is_not_counted_itself_has_one_more() -> None:
    cluster = zones("a", "b")
    cluster.job("web", on=["n0"], members=WEB)
    cluster.job("new", rules=even())
    assert open_to(cluster.open(), "new-0") == ["n0", "n1"]


def test_nodes_without_the_key_are_out() -> None:
    cluster = zones("a", "")
    cluster.job("new", rules=even(), members=WEB)
    session = cluster.open()
    assert open_to(session, "new-0") == ["n0"]
    assert reasons(session, "new-0") == {MISSING: 1}


def test_too_few_domains_count_as_an_empty_one() -> None:
    cluster = zones("a", "b")
    cluster.job("web", tasks=2, on=["n0", "n1"], members=WEB)
    cluster.job("two", rules=even(min_domains=2), members=WEB)
    cluster.job("three", rules=even(min_domains=3), members=WEB)
    session = cluster.open()
    assert open_to(session, "two-0") == ["n0", "n1"]
    assert open_to(session, "three-0") == []


def test_domains_excluded_by_own_selector_count_only_when_affinity_is_ignored() -> None:
    cluster = zones("a", "b")
    cluster.job("web", on=["n0"], members=WEB)
    chosen = {"selector": ((ZONE, "a"),)}
    cluster.job("honor", rules={**even(), **chosen}, members=WEB)
    cluster.job("ignore", rules={**even(honor_affinity=False), **chosen}, members=WEB)
    session = cluster.open()
    assert open_to(session, "honor-0") == ["n0"]
    assert open_to(session, "ignore-0") == []


def test_tainted_domains_count_unless_told() -> None:
    cluster = zones("a")
    cluster.node("n1", labels={ZONE: "b"}, taints=(Taint("k", "", "NoSchedule"),))
    cluster.job("web", on=["n0"], members=WEB)
    cluster.job("ignore", rules=even(), members=WEB)
    cluster.job("honor", rules=even(honor_taints=True), members=WEB)
    session = cluster.open()
    assert open_to(session, "ignore-0") == []
    assert open_to(session, "honor-0") == ["n0"]


def test_spread_ignores_releasing_pods_and_other_namespaces() -> None:
    cluster = zones("a", "b")
    cluster.job("gone", on=["n0"], status=Status.RELEASING, members=WEB)
    cluster.job("far", on=["n0"], members=WEB, namespace="other")
    cluster.job("new", rules=even(), members=WEB)
    assert open_to(cluster.open(), "new-0") == ["n0", "n1"]


def test_an_eviction_makes_it_even_again() -> None:
    cluster = zones("a", "b")
    cluster.job("web", on=["n0"], members=WEB)
    there = {"selector": ((HOST, "n0"),)}
    cluster.job("new", rules={**even(honor_affinity=False), **there}, members=WEB)
    session = cluster.open()
    assert open_to(session, "new-0") == []
    WorldStatement(session).evict(task_of(session, "web-0"), "test")
    assert open_to(session, "new-0") == ["n0"]


def test_it_can_be_switched_off() -> None:
    cluster = zones("", predicate_PodTopologySpreadEnable=False)
    cluster.job("new", rules=even(), members=WEB)
    assert open_to(cluster.open(), "new-0") == ["n0"]


constraints = st.lists(
    st.builds(
        Spread,
        topology_key=st.sampled_from([ZONE, HOST]),
        max_skew=st.integers(1, 2),
        selector=st.sampled_from([APP, label("app", "web", "db")]),
        min_domains=st.integers(1, 3),
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), constraints, st.integers(1, 8))
def test_a_session_never_skews_more_than_it_may(
    names: list[str], spreads: list[Spread], tasks: int
) -> None:
    cluster = zones(*names, cpu=3)
    cluster.job("new", tasks=tasks, rules=asks(spreads=spreads), members=WEB)
    session = cluster.open()
    place_all(session)
    nodes = [f"n{i}" for i in range(len(names))]
    for spread in spreads:
        of = dict(zip(nodes, names if spread.topology_key == ZONE else nodes, strict=True))
        counts = Counter(dict.fromkeys(of.values(), 0))
        counts.update(of[node] for node in where(session).values())
        least = min(counts.values()) if len(counts) >= spread.min_domains else 0
        assert max(counts.values()) - least <= spread.max_skew
