"""Rebalance: when it starts and stops, what it moves first, and how much in a minute."""

from __future__ import annotations

from itertools import pairwise

from coordinator.partition import Cut, cut
from coordinator.rebalance import PAUSE_SECONDS, START_ABOVE, STOP_BELOW, Rebalancer, even_out
from shared.model import HyperNode, Node


def nodes(rows: range, cpus: int = 8) -> list[Node]:
    return [Node(row=r, name=f"n{r:05}", allocatable=((0, cpus * 1000),)) for r in rows]


def owned(*sizes: int) -> tuple[list[Node], dict[int, int]]:
    """Equal nodes, so many of each shard."""
    previous = [shard for shard, size in enumerate(sizes) for _ in range(size)]
    return nodes(range(len(previous))), dict(enumerate(previous))


def cut_of(*sizes: int) -> Cut:
    listed, previous = owned(*sizes)
    return cut(listed, [], shards=len(sizes), previous=previous)


def run(
    rebalancer: Rebalancer, found: Cut, *, now: float = 0.0, busy: frozenset[int] = frozenset({0})
) -> int:
    return rebalancer.even_out(found, busy=lambda: busy, now=now)


def test_it_moves_only_as_many_as_balance_needs() -> None:
    found = cut_of(100, 100, 100, 60)
    before = found.owners()
    moved = run(Rebalancer(1000), found)
    after = found.owners()
    assert {after[row] for row in after if after[row] != before[row]} == {3}
    assert sum(after[row] != before[row] for row in after) == moved == 24
    assert found.gap <= STOP_BELOW


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
    found = cut_of(114, 86)
    assert run(rebalancer, found) == 2
    assert rebalancer.active
    between = cut_of(109, 91)
    assert run(rebalancer, between, now=60.0) == 2


def test_so_many_in_a_minute_and_not_all_the_time() -> None:
    rebalancer, found = Rebalancer(12), cut_of(300, 0)
    moved = {second: run(rebalancer, found, now=float(second)) for second in range(601)}
    times = [second for second, count in moved.items() if count]
    assert moved[0] == 12
    assert all(later - sooner >= PAUSE_SECONDS for sooner, later in pairwise(times))
    for start in range(1, 541):
        assert sum(moved[s] for s in range(start, start + 60)) <= 12 + 2  # it fills up meanwhile
    assert 11 * 12 >= sum(moved.values()) >= 10 * 12
    assert rebalancer.due(700.0)


def test_a_cap_of_nothing_moves_nothing() -> None:
    rebalancer, found = Rebalancer(0), cut_of(300, 0)
    assert [run(rebalancer, found, now=t) for t in (0.0, 100.0, 1000.0)] == [0, 0, 0]


def test_a_domain_larger_than_the_cap_goes_when_a_whole_minute_is_saved() -> None:
    listed, previous = owned(40, 10)
    racks = [HyperNode(f"r{i}", 1, tuple(f"n{r:05}" for r in range(i, i + 8))) for i in (0, 8, 16)]
    rebalancer, moves = Rebalancer(4), []
    for now in (0.0, 60.0, 120.0, 180.0):
        found = cut(listed, racks, shards=2, previous=previous)
        moves.append(rebalancer.even_out(found, busy=lambda: set(range(24, 50)), now=now))
        previous = found.owners()
    assert moves[0] == 8
    assert sum(moves) <= 8 + 3 * 4


def test_where_nothing_runs_goes_first() -> None:
    found = cut_of(10, 4)
    before = found.owners()
    busy = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 12})
    run(Rebalancer(1000), found, busy=busy)
    after = found.owners()
    assert {row for row in after if after[row] != before[row]} >= {8, 9}
    assert run(Rebalancer(1000), cut_of(10, 4), busy=frozenset(range(10))) == 3


def test_a_cluster_on_which_nothing_runs_is_cut_at_once() -> None:
    found = cut_of(300, 0)
    assert run(Rebalancer(1), found, busy=frozenset()) > 100
    assert found.gap <= STOP_BELOW


def test_a_shard_that_cannot_give_is_no_reason_to_leave_the_others_as_they_are() -> None:
    listed = [*nodes(range(1), cpus=800), *nodes(range(1, 101))]
    previous = {0: 0} | dict.fromkeys(range(1, 101), 1)
    found = cut(listed, [], shards=3, previous=previous)
    even_out(found, busy=())
    assert found.owners()[0] == 0
    assert abs(found.totals[1] - found.totals[2]) < 0.1
