"""Rebalance: when it starts and stops, what it moves first, and how much in a minute."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from coordinator.dispatch.partition import Cut
from coordinator.dispatch.rebalance import (
    PAUSE_SECONDS,
    START_ABOVE,
    STOP_BELOW,
    Rebalancer,
    even_out,
)
from tests.coordinator.dispatch import clusters
from tests.coordinator.dispatch.clusters import owners_of, rows


def owned(*sizes: int) -> dict[int, int]:
    """Assign the given number of rows to each shard."""
    return dict(enumerate([shard for shard, size in enumerate(sizes) for _ in range(size)]))


def cut_of(*sizes: int) -> Cut:
    """Cut with the given number of equal nodes in each shard."""
    previous = owned(*sizes)
    return clusters.cut_of([8] * len(previous), previous, shards=len(sizes))


def run(rebalancer: Rebalancer, cut: Cut, *busy: int, now: float = 0.0) -> int:
    """``busy``: rows; row 0 where none is said."""

    def mask() -> NDArray[np.bool_]:
        return rows(*(busy or (0,)), of=len(cut.unit))

    return rebalancer.even_out(cut, busy=mask, now=now)


def test_it_moves_only_as_many_as_balance_needs() -> None:
    partition = cut_of(100, 100, 100, 60)
    before = owners_of(partition)
    moved = run(Rebalancer(1000), partition)
    after = owners_of(partition)
    assert {after[row] for row in after if after[row] != before[row]} == {3}
    assert sum(after[row] != before[row] for row in after) == moved == 24
    assert partition.gap <= STOP_BELOW


def test_it_starts_above_one_bound_and_goes_on_to_a_lower_one() -> None:
    rebalancer = Rebalancer(1000)
    between = cut_of(109, 91)  # 0.18 of a part
    assert STOP_BELOW < between.gap < START_ABOVE
    assert run(rebalancer, between) == 0
    above = cut_of(114, 86)
    assert above.gap > START_ABOVE
    assert run(rebalancer, above) > 0
    assert above.gap <= STOP_BELOW
    assert run(rebalancer, cut_of(109, 91), now=100.0) == 0  # it is over: the upper bound again


def test_one_that_was_begun_goes_on_between_the_bounds() -> None:
    rebalancer = Rebalancer(2)
    partition = cut_of(114, 86)
    assert run(rebalancer, partition) == 2
    assert rebalancer.active
    between = cut_of(109, 91)
    assert run(rebalancer, between, now=60.0) == 2


def test_moves_are_capped_by_minute_with_pauses_between() -> None:
    rebalancer, result = Rebalancer(12), cut_of(300, 0)
    moved = {second: run(rebalancer, result, now=float(second)) for second in range(601)}
    times = [second for second, count in moved.items() if count]
    assert moved[0] == 12
    assert all(later - sooner >= PAUSE_SECONDS for sooner, later in pairwise(times))
    for start in range(1, 541):
        assert sum(moved[s] for s in range(start, start + 60)) <= 12 + 2  # it fills up meanwhile
    assert 11 * 12 >= sum(moved.values()) >= 10 * 12
    assert rebalancer.due(700.0)


def test_a_cap_of_nothing_moves_nothing() -> None:
    rebalancer, result = Rebalancer(0), cut_of(300, 0)
    assert [run(rebalancer, result, now=t) for t in (0.0, 100.0, 1000.0)] == [0, 0, 0]


def test_a_domain_larger_than_the_cap_goes_when_a_whole_minute_is_saved() -> None:
    previous, domains = owned(40, 10), [list(range(i, i + 8)) for i in (0, 8, 16)]
    rebalancer, moves = Rebalancer(4), []
    for now in (0.0, 60.0, 120.0, 180.0):
        partition = clusters.cut_of([8] * 50, previous, shards=2, domains=domains)
        moves.append(run(rebalancer, partition, *range(24, 50), now=now))
        previous = owners_of(partition)
    assert moves[0] == 8
    assert sum(moves) <= 8 + 3 * 4


def test_where_nothing_runs_goes_first() -> None:
    partition = cut_of(10, 4)
    before = owners_of(partition)
    run(Rebalancer(1000), partition, *range(8), 12)
    after = owners_of(partition)
    assert {row for row in after if after[row] != before[row]} >= {8, 9}
    assert run(Rebalancer(1000), cut_of(10, 4), *range(10)) == 3


def test_a_cluster_on_which_nothing_runs_is_cut_at_once() -> None:
    partition = cut_of(300, 0)
    nothing = rows(of=len(partition.unit))
    assert Rebalancer(1).even_out(partition, busy=lambda: nothing, now=0.0) > 100
    assert partition.gap <= STOP_BELOW


def test_a_shard_that_cannot_give_is_no_reason_to_leave_the_others_as_they_are() -> None:
    previous = {0: 0} | dict.fromkeys(range(1, 101), 1)
    partition = clusters.cut_of([800] + [8] * 100, previous, shards=3)
    even_out(partition, busy=rows(of=len(partition.unit)))
    assert owners_of(partition)[0] == 0
    assert abs(partition.totals[1] - partition.totals[2]) < 0.1
