"""Partition: stable, whole hyper nodes, new nodes where there is least, balanced at the start."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.dispatch import partition
from coordinator.dispatch.partition import NOBODY, Cut, Offers, cut
from coordinator.dispatch.rebalance import even_out
from tests.coordinator.dispatch.clusters import cut_of, owners_of, rows, shards_of


def fresh(count: int, shards: int, *, domains: tuple[list[int], ...] = ()) -> Cut:
    return cut_of([8] * count, {}, shards=shards, domains=domains)


def sizes(cut: Cut) -> list[int]:
    owners = list(owners_of(cut).values())
    return [owners.count(shard) for shard in range(len(cut.totals))]


@given(count=st.integers(1, 60), shards=st.integers(1, 7))
def test_every_node_is_in_one_shard_and_equal_nodes_are_spread_evenly(
    count: int, shards: int
) -> None:
    fresh_view = fresh(count, shards)
    assert sorted(owners_of(fresh_view)) == list(range(count))
    assert max(sizes(fresh_view)) - min(sizes(fresh_view)) <= 1


@given(
    loads=st.lists(st.integers(1, 9), min_size=4, max_size=60),
    shards=st.integers(1, 5),
    order=st.randoms(use_true_random=False),
)
def test_the_same_input_gives_the_same_shards_in_any_order(
    loads: list[int], shards: int, order: Random
) -> None:
    first = owners_of(cut_of(loads, {}, shards=shards))
    shuffled, offer_tree = list(enumerate(loads)), Offers()
    order.shuffle(shuffled)
    for row, load in shuffled:
        offer_tree.put(row, ((0, load),))
    nobody = shards_of({}, len(offer_tree.present))
    assert owners_of(cut(offer_tree, [], shards=shards, previous=nobody)) == first
    assert owners_of(cut_of(loads, first, shards=shards)) == first


def test_new_nodes_move_no_old_one() -> None:
    before = owners_of(fresh(40, 4))
    after = cut_of([8] * 44, before, shards=4)
    assert before.items() <= owners_of(after).items()
    assert sizes(after) == [11, 11, 11, 11]


def test_many_new_nodes_get_their_shards_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PLACED_AT_ONCE", 30)
    owners: dict[int, int] = {}
    for size, left in ((30, True), (60, True), (70, False)):
        result = cut_of([8] * 70, owners, shards=3)
        owners = owners_of(result)
        assert (len(owners), result.incomplete) == (size, left)
    assert max(sizes(result)) - min(sizes(result)) <= 1


def test_a_node_that_is_gone_is_nobodys_load() -> None:
    offers = Offers()
    for row in range(4):
        offers.put(row, ((0, 8), (3, 2)))
    offers.drop(2)
    offers.put(3, ((0, 24),))
    partition = cut(offers, [], shards=1, previous=shards_of({2: 0}, len(offers.present)))
    assert sorted(owners_of(partition)) == [0, 1, 3]
    assert partition.load.tolist()[:4] == [0.5, 0.5, 0.0, 0.6]


def test_hyper_nodes_stay_whole_where_they_fit_and_are_split_where_not() -> None:
    racks = tuple(list(range(4 * i, 4 * i + 4)) for i in range(4))
    owners = owners_of(fresh(16, 4, domains=racks))
    assert all(len({owners[row] for row in rack}) == 1 for rack in racks)
    assert sizes(fresh(16, 4, domains=(list(range(8)),))) == [4, 4, 4, 4]


def test_a_node_of_two_domains_counts_in_the_first() -> None:
    fresh_view = fresh(8, 2, domains=([0, 1, 2], [2, 3]))
    assert fresh_view.unit.tolist()[:4] == [0, 0, 0, 3]
    assert fresh_view.size.tolist()[:4] == [3, 0, 0, 1]


def test_a_hyper_node_goes_where_most_of_it_is() -> None:
    previous = {row: row % 2 for row in range(8)}
    partition = cut_of([8] * 8, previous, shards=2, domains=([0, 1, 2],))
    assert owners_of(partition) == previous | {1: 0}
    fresh_members = dict.fromkeys(range(3, 8), 1)
    partition = cut_of([8] * 8, fresh_members, shards=2, domains=([0, 1, 2],))
    assert owners_of(partition) == fresh_members | {0: 0, 1: 0, 2: 0}


def test_a_domain_that_would_fill_its_shard_too_much_goes_where_there_is_room() -> None:
    previous = dict.fromkeys(range(8), 0) | {8: 1, 9: 1}
    partition = cut_of([8] * 10, previous, shards=2, domains=([0, 1, 8],))
    assert owners_of(partition) == previous | {0: 1, 1: 1}


def test_domains_that_come_and_go_leave_no_shard_empty() -> None:
    owners = owners_of(fresh(8, 2))
    for start in range(40):
        members = sorted({start % 8, (start * 3 + 1) % 8, (start * 5 + 2) % 8})
        partition = cut_of([8] * 8, owners, shards=2, domains=(members,))
        owners = owners_of(partition)
        assert min(sizes(partition)) >= 3, start


def test_rows_just_moved_to_a_shard_are_not_moved_again() -> None:
    partition = cut_of([1, 1, 1, 2, 1, 1], dict.fromkeys(range(6), 0), shards=3)
    moved, _ = even_out(partition, busy=rows(0, 1, 2, 3, of=len(partition.unit)))
    assert moved == sum(shard != 0 for shard in owners_of(partition).values())


@given(
    loads=st.lists(st.integers(1, 40), min_size=1, max_size=40),
    shards=st.integers(1, 5),
    data=st.data(),
)
def test_evening_out_never_widens_the_gap_and_loses_no_node(
    loads: list[int], shards: int, data: st.DataObject
) -> None:
    row = st.integers(0, len(loads) - 1)
    previous = data.draw(st.dictionaries(row, st.integers(0, shards - 1)))
    partition = cut_of(loads, previous, shards=shards)
    busy = rows(*data.draw(st.frozensets(row)), of=len(partition.unit))
    before, gap = owners_of(partition), partition.gap
    moved, ended_early = even_out(partition, busy=busy)
    after = owners_of(partition)
    assert not ended_early
    assert after.keys() == before.keys() == set(range(len(loads)))
    assert moved == sum(after[row] != shard for row, shard in before.items())
    assert partition.gap <= gap + 1e-9
    held = [0.0] * shards
    for unit in partition.units.tolist():
        held[partition.owner.item(unit)] += partition.load.item(unit)
    assert held == pytest.approx(partition.totals)
    assert NOBODY not in after.values()
