"""Domains of a topology: which are tried, in what order, and what their nodes score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.domains import (
    Domain,
    GroupRequest,
    Limits,
    common_domain,
    domains_to_try,
    grown,
    in_order,
    level_scores,
)

ZONES = ["z0", "z0", "z0", "z0", "z1", "z1"]
RACKS = ["r0", "r0", "r1", "r1", "r2", "r2"]
"""Zones and racks of six rows."""
NOBODY = np.array([], np.intp)


def tree(zones: Sequence[str] = ZONES, racks: Sequence[str] = RACKS) -> Domain:
    columns = [list(zones), list(racks)]
    values = [sorted(set(column)) for column in columns]
    codes = [
        np.array([names.index(value) for value in column], np.int32)
        for names, column in zip(values, columns, strict=True)
    ]
    return grown(np.arange(len(zones)), codes, values)


def asked(
    tasks: int, free: Sequence[int], *, alike: bool = True, own: Sequence[int] | None = None
) -> GroupRequest:
    """One unit each of one resource, of which rows have so much free."""
    room = np.array(free, np.int64)
    mine = None if own is None else np.array(own, np.bool_)
    return GroupRequest(tasks, room if alike else None, [(tasks, room)], mine)


def tried(limits: Limits, wants: GroupRequest, active: Sequence[int] = ()) -> list[str]:
    start = common_domain(tree(), limits)
    ordered = in_order(start, wants, limits.deepest)
    return [d.id for d in domains_to_try(ordered, wants, limits, np.array(active, np.intp))]


RACK, ZONE = 1, 0


@pytest.mark.parametrize(
    ("limits", "free", "tasks", "expected"),
    [
        (Limits(RACK, None), [1, 1, 2, 2, 1, 2], 3, ["z1.r2", "z0.r1"]),
        (Limits(RACK, None), [1, 1, 1, 1, 1, 1], 3, []),
        (Limits(ZONE, None), [1, 1, 1, 1, 1, 1], 3, ["z0"]),
        (Limits(ZONE, RACK), [1, 1, 2, 2, 1, 1], 2, ["z1.r2", "z0.r0", "z0.r1", "z1", "z0"]),
        (Limits(None, RACK), [1, 1, 1, 1, 1, 1], 3, ["z0", ""]),
        (Limits(None, ZONE), [1, 1, 1, 1, 1, 1], 5, [""]),
        (Limits(RACK, None), [2, 2, 2, 2, 2, 2], 2, ["z1.r2", "z0.r0", "z0.r1"]),
    ],
)
def test_the_fullest_domain_of_the_lowest_level_first(
    limits: Limits, free: list[int], tasks: int, expected: list[str]
) -> None:
    """Within a level in the order of the tree: the fuller zone's racks before the other's."""
    assert tried(limits, asked(tasks, free)) == expected


def test_domains_of_the_own_shard_go_before_fuller_ones() -> None:
    free = [2, 2, 2, 2, 1, 1]
    assert tried(Limits(RACK, None), asked(2, free))[0] == "z1.r2"
    wants = asked(2, free, own=[0, 1, 1, 0, 0, 0])
    assert tried(Limits(RACK, None), wants)[0] == "z1.r2", "half of a rack is not all of it"
    wants = asked(2, free, own=[0, 1, 1, 1, 0, 0])
    whole, most = tried(Limits(ZONE, RACK), wants), tried(Limits(RACK, None), wants)
    assert most[0] == "z0.r1"
    assert (whole[0], whole[-2:]) == ("z0.r1", ["z0", "z1"])


def test_a_group_stays_in_the_domains_of_its_members() -> None:
    wants = asked(1, [1, 1, 1, 1, 1, 1])
    assert tried(Limits(RACK, None), wants, active=[2]) == ["z0.r1"]
    assert tried(Limits(ZONE, RACK), wants, active=[2]) == ["z0.r0", "z0.r1", "z0"]
    assert len(tried(Limits(None, RACK), wants, active=[2])) == 6


def test_tasks_of_different_kinds_fit_by_their_sums() -> None:
    wants = asked(4, [3, 1, 1, 1, 0, 0], alike=False)
    assert tried(Limits(RACK, None), wants) == ["z0.r0"]
    assert not wants.fits(tree().children[1])


def test_the_search_begins_at_the_lowest_domain_with_all_nodes() -> None:
    one_zone = tree(["z0"] * 4, ["r0", "r0", "r1", "r1"])
    assert common_domain(one_zone, Limits(RACK, None)).id == "z0"
    one_rack = tree(["z0"] * 2, ["r0"] * 2)
    assert common_domain(one_rack, Limits(RACK, None)).id == "z0.r0"
    assert common_domain(one_rack, Limits(ZONE, None)).id == "z0"
    assert common_domain(tree(), Limits(RACK, None)).id == ""


def test_the_emptier_domains_score_more() -> None:
    ordered = in_order(tree(), asked(1, [1, 1, 2, 2, 5, 5]), RACK)
    assert level_scores(ordered, RACK, 6).tolist() == [3, 3, 6, 6, 10, 10]
    assert level_scores(ordered, ZONE, 6).tolist() == [5, 5, 5, 5, 10, 10]


# --- what always holds ----------------------------------------------------------------------------

FREE = st.lists(st.integers(0, 4), min_size=6, max_size=6)
LEVELS = st.sampled_from([RACK, ZONE])
LIMITS = st.one_of(
    st.builds(Limits, LEVELS, st.none()),
    st.builds(Limits, st.none(), LEVELS),
    st.just(Limits(ZONE, RACK)),
)


@given(free=FREE, tasks=st.integers(1, 6), limits=LIMITS, active=st.lists(st.integers(0, 5)))
def test_tried_domains_have_room_and_stay_within_the_level_limits(
    free: list[int], tasks: int, limits: Limits, active: list[int]
) -> None:
    wants = asked(tasks, free)
    ordered = in_order(common_domain(tree(), limits), wants, limits.deepest)
    domains = domains_to_try(ordered, wants, limits, np.array(active, np.intp))
    levels = [domain.level for domain in domains]
    assert levels == sorted(levels, reverse=True)
    assert all(limits.highest <= level <= limits.deepest for level in levels)
    assert all(sum(free[row] for row in domain.rows) >= tasks for domain in domains)
    assert len({domain.path for domain in domains}) == len(domains)
    fitting = [
        domain
        for level in range(limits.highest, limits.deepest + 1)
        for domain in tree().at_level(level)
        if sum(free[row] for row in domain.rows) >= tasks
    ]
    if limits.required is None or not active:
        assert {domain.path for domain in domains} == {domain.path for domain in fitting}


@given(free=FREE, order=st.permutations(range(6)))
def test_the_order_of_rows_decides_nothing(free: list[int], order: list[int]) -> None:
    wants = asked(2, free)
    mixed = asked(2, [free[at] for at in order])
    limits = Limits(ZONE, RACK)
    shuffled = tree([ZONES[at] for at in order], [RACKS[at] for at in order])
    there = domains_to_try(in_order(shuffled, mixed, RACK), mixed, limits, NOBODY)
    here = domains_to_try(in_order(tree(), wants, RACK), wants, limits, NOBODY)
    assert [domain.id for domain in there] == [domain.id for domain in here]
