"""Partition: stable, whole hyper nodes, new nodes where there is least, balanced at the start."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.partition import Cut, cut
from coordinator.rebalance import even_out
from shared.model import HyperNode, Node


def nodes(count: int, cpus: int = 8) -> list[Node]:
    return [Node(row=r, name=f"n{r:05}", allocatable=((0, cpus * 1000),)) for r in range(count)]


def sizes(found: Cut) -> list[int]:
    owners = list(found.owners().values())
    return [owners.count(shard) for shard in range(len(found.totals))]


@given(count=st.integers(1, 60), shards=st.integers(1, 7))
def test_every_node_is_in_one_shard_and_equal_nodes_are_spread_evenly(
    count: int, shards: int
) -> None:
    found = cut(nodes(count), [], shards=shards, previous={})
    assert sorted(found.owners()) == list(range(count))
    assert max(sizes(found)) - min(sizes(found)) <= 1


@given(count=st.integers(4, 60), shards=st.integers(1, 5), order=st.randoms(use_true_random=False))
def test_the_same_input_gives_the_same_shards_in_any_order(
    count: int, shards: int, order: Random
) -> None:
    listed = nodes(count)
    shuffled = list(listed)
    order.shuffle(shuffled)
    first = cut(listed, [], shards=shards, previous={}).owners()
    assert cut(shuffled, [], shards=shards, previous={}).owners() == first
    assert cut(listed, [], shards=shards, previous=first).owners() == first


def test_new_nodes_move_no_old_one() -> None:
    before = cut(nodes(40), [], shards=4, previous={}).owners()
    after = cut(nodes(44), [], shards=4, previous=before)
    assert all(after.owners()[row] == shard for row, shard in before.items())
    assert sizes(after) == [11, 11, 11, 11]


def test_nodes_of_a_shard_that_there_is_no_more_are_new_ones() -> None:
    before = cut(nodes(40), [], shards=4, previous={}).owners()
    after = cut(nodes(40), [], shards=2, previous=before)
    kept = {row: shard for row, shard in before.items() if shard < 2}
    assert kept.items() <= after.owners().items()
    assert sizes(after) == [20, 20]


def test_hyper_nodes_stay_whole_where_they_fit_and_are_split_where_not() -> None:
    listed = nodes(16)
    racks = [
        HyperNode(name=f"rack{i}", tier=1, nodes=tuple(n.name for n in listed[4 * i : 4 * i + 4]))
        for i in range(4)
    ]
    shards = cut(listed, racks, shards=4, previous={}).owners()
    for i in range(4):
        assert len({shards[row] for row in range(4 * i, 4 * i + 4)}) == 1
    halves = [HyperNode(name="half", tier=1, nodes=tuple(n.name for n in listed[:8]))]
    assert sizes(cut(listed, halves, shards=4, previous={})) == [4, 4, 4, 4]


def test_a_hyper_node_goes_where_most_of_it_is() -> None:
    rack = HyperNode(name="rack", tier=1, nodes=("n00000", "n00001", "n00002"))
    previous = {row: row % 2 for row in range(8)}
    shards = cut(nodes(8), [rack], shards=2, previous=previous).owners()
    assert shards == previous | {1: 0}


@given(
    loads=st.lists(st.integers(1, 40), min_size=1, max_size=40),
    shards=st.integers(1, 5),
    data=st.data(),
)
def test_evening_out_never_widens_the_gap_and_loses_no_node(
    loads: list[int], shards: int, data: st.DataObject
) -> None:
    listed = [Node(row=r, name=f"n{r}", allocatable=((0, load),)) for r, load in enumerate(loads)]
    rows = st.integers(0, len(loads) - 1)
    previous = data.draw(st.dictionaries(rows, st.integers(0, shards - 1)))
    busy = data.draw(st.frozensets(rows))
    found = cut(listed, [], shards=shards, previous=previous)
    before, gap = found.owners(), found.gap
    moved, _ = even_out(found, busy=busy)
    after = found.owners()
    assert after.keys() == before.keys() == set(range(len(loads)))
    assert moved >= sum(after[row] != shard for row, shard in before.items())
    assert found.gap <= gap + 1e-9
    assert abs(sum(found.totals) - sum(unit.load for unit in found.units)) < 1e-9
