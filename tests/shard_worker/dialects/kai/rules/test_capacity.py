"""Limits bind every job at every level, quotas those that nobody may evict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NO_BOUND, NOTHING, Amounts
from shard_worker.dialects.kai.rules.capacity import Bound, OverCapacity, QueueRoom, over_capacity

LEAF = QueueRoom(
    uid="leaf",
    quota=Amounts(4, 4, 4),
    limit=Amounts(8, -1, 8),
    allocated=Amounts(6, 6, 6),
    non_preemptible=Amounts(1, 1, 3),
)
TOP = QueueRoom(
    uid="top",
    quota=Amounts(-1, -1, 7),
    limit=Amounts(-1, 9, 20),
    allocated=Amounts(7, 7, 12),
    non_preemptible=Amounts(5, 5, 7),
)


@pytest.mark.parametrize(
    ("asks", "preemptible", "refusal"),
    [
        (NOTHING, False, None),
        (Amounts(2, 2, 2), True, None),
        (Amounts(cpu=3), True, OverCapacity("leaf", Bound.LIMIT, "cpu", 6, 3, 8)),
        (Amounts(memory=3), True, OverCapacity("top", Bound.LIMIT, "memory", 7, 3, 9)),
        (Amounts(memory=2), False, None),
        (Amounts(gpu=2), False, OverCapacity("leaf", Bound.QUOTA, "gpu", 3, 2, 4)),
        (Amounts(gpu=1), False, OverCapacity("top", Bound.QUOTA, "gpu", 7, 1, 7)),
        (Amounts(gpu=3), False, OverCapacity("leaf", Bound.LIMIT, "gpu", 6, 3, 8)),
    ],
)
def test_the_first_bound_along_the_chain(
    asks: Amounts, preemptible: bool, refusal: OverCapacity | None
) -> None:
    assert over_capacity([LEAF, TOP], asks, preemptible=preemptible) == refusal


def test_an_exceeded_limit_refuses_only_requests_for_that_resource() -> None:
    full = QueueRoom(uid="q", limit=Amounts(1, -1, 1), allocated=Amounts(5, 5, 5))
    assert over_capacity([full], Amounts(memory=9), preemptible=True) is None
    assert over_capacity([full], Amounts(cpu=1), preemptible=True) is not None


AMOUNTS = st.builds(Amounts, *[st.integers(0, 6)] * 3)
BOUNDS = st.builds(Amounts, *[st.integers(-1, 12)] * 3)


@given(
    limit=BOUNDS, quota=BOUNDS, requests=st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=12)
)
def test_turn_by_turn_no_bound_is_ever_exceeded(
    limit: Amounts, quota: Amounts, requests: list[tuple[Amounts, bool]]
) -> None:
    held = non_preemptible = NOTHING
    for asks, preemptible in requests:
        room = QueueRoom(
            uid="q", quota=quota, limit=limit, allocated=held, non_preemptible=non_preemptible
        )
        if over_capacity([room], asks, preemptible=preemptible) is None:
            held = held.plus(asks)
            non_preemptible = non_preemptible if preemptible else non_preemptible.plus(asks)
    for has, most in [(held, limit), (non_preemptible, quota)]:
        assert all(
            most_of in (-1, *range(amount, 99)) for amount, most_of in zip(has, most, strict=True)
        )


def test_a_queue_without_bounds_refuses_nothing() -> None:
    free = QueueRoom(uid="q", quota=NO_BOUND, limit=NO_BOUND, allocated=Amounts(9, 9, 9))
    assert over_capacity([free], Amounts(9, 9, 9), preemptible=False) is None
