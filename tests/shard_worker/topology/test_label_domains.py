"""Jobs whose members have to run on nodes with one value of a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from tests.shard_worker.racks import NTA, racks_of

KEY = "rack"


def racks(
    *sizes: int, plugins: Sequence[str] = (), actions: Sequence[str] = ("allocate",)
) -> Cluster:
    """Racks ``r0``, ``r1``, ... with that many nodes each, and large nodes in no rack."""
    names = ("priority", "gang", "predicates", "nodeorder", *plugins)
    cluster = Cluster(*names, actions=actions)
    for at, size in enumerate(sizes):
        for i in range(size):
            cluster.node(f"r{at}-{i}", cpu=1, labels={KEY: f"r{at}"})
    cluster.node("none-0", cpu=64)
    cluster.node("empty-0", cpu=64, labels={KEY: ""})
    return cluster


def reasons(cluster: Cluster) -> str:
    session = cluster.open()
    run_actions(session)
    assert cluster.result(session).binds == {}
    (skipped,) = session.skipped.values()
    return skipped[1]


@pytest.mark.parametrize("plugins", [(), (NTA,)])
def test_the_rack_that_is_filled_most_of_those_that_take_all(plugins: Sequence[str]) -> None:
    cluster = racks(2, 5, 4, 9, plugins=plugins)
    cluster.job("a", tasks=4, minimum=3, topology_key=KEY)
    assert racks_of(cluster.run().binds, "a") == ["r2"] * 4


def test_the_surplus_stays_in_the_rack_and_waits_there() -> None:
    cluster = racks(3, 2)
    cluster.job("a", tasks=5, minimum=2, topology_key=KEY)
    assert racks_of(cluster.run().binds, "a") == ["r0"] * 3


def test_growth_goes_where_members_run_although_another_rack_has_more_room() -> None:
    cluster = racks(2, 6)
    cluster.job("a", tasks=3, minimum=1, on=["r0-1"], topology_key=KEY)
    assert racks_of(cluster.run().binds, "a") == ["r0"]


def test_a_replacement_below_the_minimum_waits_for_the_rack_of_the_others() -> None:
    cluster = racks(2, 6)
    cluster.job("other", on=["r0-1"])
    cluster.job("a", tasks=2, on=["r0-0"], topology_key=KEY)
    assert reasons(cluster) == (
        "0/1 placements are available, first placement status: minCount (2) cannot be satisfied: "
        "1 scheduled, 0 remaining; its members run in rack=r0"
    )


@pytest.mark.parametrize("on", [["r0-0", "r1-0"], ["none-0"], ["empty-0", "r0-0"]])
def test_members_that_no_rack_has_together_get_no_other(on: list[str]) -> None:
    cluster = racks(2, 2)
    cluster.job("a", tasks=3, minimum=1, on=on, topology_key=KEY)
    assert reasons(cluster) == (
        "no feasible placements found: its members run on nodes that no value of label rack has "
        "together"
    )


def test_a_label_that_no_node_has_is_named() -> None:
    cluster = racks(2)
    cluster.job("a", tasks=2, topology_key="zone")
    assert reasons(cluster) == "no feasible placements found: no node has the label zone"


def test_the_reason_counts_racks_and_the_room_of_the_largest() -> None:
    cluster = racks(2, 3)
    cluster.job("a", tasks=4, topology_key=KEY)
    assert reasons(cluster) == (
        "0/2 placements are available, first placement status: minCount (4) cannot be satisfied: "
        "2 scheduled, 0 remaining; no value of label rack has room for more than 3 of its pods"
    )


def test_members_that_ask_for_nothing_are_in_the_rack_too() -> None:
    cluster = racks(2, 1, actions=("allocate", "backfill"))
    cluster.job("a", tasks=3, cpu=0, topology_key=KEY)
    assert racks_of(cluster.run().binds, "a") in (["r0"] * 3, ["r1"] * 3)


def test_a_gang_makes_room_in_one_rack() -> None:
    cluster = racks(2, 3, actions=("gangpreempt",))
    cluster.job("low", tasks=5, minimum=0, on=[f"r{at // 3}-{at % 3}" for at in (0, 1, 3, 4, 5)])
    cluster.job("high", tasks=3, priority=2, topology_key=KEY)
    result = cluster.run()
    assert racks_of(result.pipelined, "high") == ["r1"] * 3
    assert len(result.evicted) == 3


def test_victims_on_single_nodes_are_not_asked_to_leave_for_it() -> None:
    cluster = racks(2, actions=("preempt",))
    cluster.job("low", tasks=2, minimum=0, on=["r0-0", "r0-1"])
    cluster.job("high", tasks=1, priority=2, topology_key=KEY)
    assert cluster.run().evicted == []


def test_room_now_goes_before_room_that_others_are_leaving() -> None:
    cluster = racks(2, 3)
    cluster.job("gone", tasks=2, on=["r0-0", "r0-1"], status=Status.RELEASING)
    cluster.job("a", tasks=2, topology_key=KEY)
    assert racks_of(cluster.run().binds, "a") == ["r1"] * 2


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_placed_in_one_rack_whenever_one_has_room(
    sizes: list[int], tasks: int, minimum: int
) -> None:
    minimum = min(minimum, tasks)
    cluster = racks(*sizes)
    cluster.job("a", tasks=tasks, minimum=minimum, topology_key=KEY)
    bound = Counter(racks_of(cluster.run().binds, "a"))
    most = min(max(sizes), tasks)
    assert list(bound.values()) == ([most] if most >= minimum else [])
