"""Partition: balanced, stable, minimal moves, whole hyper nodes."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.partition import partition
from shared.model import HyperNode, Node


def nodes(count: int, cpus: int = 8) -> list[Node]:
    return [Node(row=r, name=f"n{r:05}", allocatable=((0, cpus * 1000),)) for r in range(count)]


def owners(shards: dict[int, list[int]]) -> dict[int, int]:
    return {row: shard for shard, rows in shards.items() for row in rows}


@given(count=st.integers(1, 60), shards=st.integers(1, 7))
def test_every_node_is_in_exactly_one_shard_and_equal_nodes_are_spread_evenly(
    count: int, shards: int
) -> None:
    result = partition(nodes(count), [], shards=shards, previous={})
    rows = [row for part in result.values() for row in part]
    assert sorted(rows) == list(range(count))
    sizes = [len(part) for part in result.values()]
    assert max(sizes) - min(sizes) <= 1


@given(count=st.integers(4, 60), shards=st.integers(1, 5), order=st.randoms(use_true_random=False))
def test_the_same_input_gives_the_same_shards_in_any_order(
    count: int, shards: int, order: Random
) -> None:
    listed = nodes(count)
    shuffled = list(listed)
    order.shuffle(shuffled)
    first = partition(listed, [], shards=shards, previous={})
    assert partition(shuffled, [], shards=shards, previous={}) == first
    assert partition(listed, [], shards=shards, previous=owners(first)) == first


def test_new_nodes_move_no_old_one() -> None:
    before = owners(partition(nodes(40), [], shards=4, previous={}))
    after = owners(partition(nodes(44), [], shards=4, previous=before))
    assert all(after[row] == shard for row, shard in before.items())


def test_lost_nodes_move_only_as_many_as_balance_needs() -> None:
    before = owners(partition(nodes(40), [], shards=4, previous={}))
    left = [node for node in nodes(40) if before[node.row] != 0]
    after = owners(partition(left, [], shards=4, previous=before))
    moved = [row for row in after if after[row] != before[row]]
    sizes = [list(after.values()).count(shard) for shard in range(4)]
    assert max(sizes) - min(sizes) <= 2
    assert len(moved) <= 8


def test_hyper_nodes_stay_whole_where_they_fit_and_are_split_where_not() -> None:
    listed = nodes(16)
    racks = [
        HyperNode(name=f"rack{i}", tier=1, nodes=tuple(n.name for n in listed[4 * i : 4 * i + 4]))
        for i in range(4)
    ]
    shards = owners(partition(listed, racks, shards=4, previous={}))
    for i in range(4):
        assert len({shards[row] for row in range(4 * i, 4 * i + 4)}) == 1
    halves = [HyperNode(name="half", tier=1, nodes=tuple(n.name for n in listed[:8]))]
    sizes = list(owners(partition(listed, halves, shards=4, previous={})).values())
    assert sorted(sizes.count(shard) for shard in range(4)) == [4, 4, 4, 4]
