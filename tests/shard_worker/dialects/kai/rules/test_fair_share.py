"""The division of a cluster among a tree of queues: cases worked out by hand, and what always
holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NOTHING, UNLIMITED, Amounts
from shard_worker.dialects.kai.rules.fair_share import (
    Claim,
    QueueDemand,
    divide,
    fair_shares,
)
from shared.policy.kai_usage import USAGE_ONE

GPU = 1000


def claim(
    uid: str,
    requestable: float,
    *,
    quota: float = 0,
    weight: float = 1,
    priority: int = 100,
    created: float = 0,
    usage: float = 0,
) -> Claim:
    """A claim on devices; amounts in devices, usage as a part of the cluster."""
    return Claim(
        uid,
        created,
        priority,
        UNLIMITED if quota == UNLIMITED else round(quota * GPU),
        round(requestable * GPU),
        round(weight * 1000),
        round(usage * USAGE_ONE),
    )


@dataclass(frozen=True)
class DivisionCase:
    name: str
    total: float
    claims: list[Claim]
    shares: dict[str, float]
    k: Fraction = field(default=Fraction(1))


CASES = [
    DivisionCase("nothing to divide", 0, [claim("a", 3)], {"a": 0}),
    DivisionCase(
        "quota first, the rest by weight",
        10,
        [claim("a", 10, quota=2), claim("b", 10, quota=4, weight=3)],
        {"a": 3, "b": 7},
    ),
    DivisionCase(
        "a quota counts only as far as it is asked for",
        10,
        [claim("a", 1, quota=6), claim("b", 20, quota=2)],
        {"a": 1, "b": 9},
    ),
    DivisionCase(
        "quotas beyond the total stay whole, nothing else is given",
        4,
        [claim("a", 9, quota=3), claim("b", 9, quota=3), claim("c", 9)],
        {"a": 3, "b": 3, "c": 0},
    ),
    DivisionCase(
        "an unlimited quota is the whole total",
        4,
        [claim("a", 9, quota=UNLIMITED), claim("b", 9)],
        {"a": 4, "b": 0},
    ),
    DivisionCase(
        "what one leaves goes round again",
        9,
        [claim("a", 1), claim("b", 9), claim("c", 9)],
        {"a": 1, "b": 4, "c": 4},
    ),
    DivisionCase(
        "higher priority takes all it asks for first",
        5,
        [claim("a", 4, priority=200), claim("b", 4)],
        {"a": 4, "b": 1},
    ),
    DivisionCase(
        "the next priority goes before the remainders of the one above",
        3,
        [claim("a", 5, priority=200), claim("b", 5, priority=200, created=1), claim("c", 5)],
        {"a": 1, "b": 1, "c": 1},
    ),
    DivisionCase(
        "what the last priority leaves goes to the remainders, here of the oldest",
        5,
        [
            claim("a", 9, priority=200),
            claim("b", 9, priority=200, created=1),
            claim("c", 0.5),
        ],
        {"a": 2.5, "b": 2, "c": 0.5},
    ),
    DivisionCase(
        "the largest remainder gets the device",
        5,
        [claim("a", 9, weight=1), claim("b", 9, weight=3)],
        {"a": 1, "b": 4},
    ),
    DivisionCase(
        "who is satisfied in a later round has no remainder of an earlier one",
        10,
        [claim("a", 3, weight=2), claim("b", 5, weight=1)],
        {"a": 3, "b": 5},
    ),
    DivisionCase(
        "of equal remainders the oldest, then by uid",
        5,
        [claim("c", 9, created=1), claim("b", 9, created=1), claim("a", 9, created=2)],
        {"c": 2, "b": 2, "a": 1},
    ),
    DivisionCase(
        "weight 0 gets nothing beyond its quota",
        8,
        [claim("a", 8, quota=1, weight=0), claim("b", 3)],
        {"a": 1, "b": 3},
    ),
    DivisionCase(
        "all weights 0: the rest is left",
        8,
        [claim("a", 8, quota=1, weight=0), claim("b", 3, weight=0)],
        {"a": 1, "b": 0},
    ),
    DivisionCase(
        "a sole queue of negative weight gets what it asks for",
        8,
        [claim("a", 5, weight=-1)],
        {"a": 5},
    ),
    DivisionCase(
        "a half device is given to who asks for no more",
        1,
        [claim("a", 0.5), claim("b", 1)],
        {"a": 0.5, "b": 0.5},
    ),
    DivisionCase(
        "usage beyond the weight costs the queue: 2 x 1/2 - 3/4 against 2 x 1/2",
        10,
        [claim("a", 20, usage=0.75), claim("b", 20)],
        {"a": 2, "b": 8},
    ),
    DivisionCase(
        "usage counts for nothing with k = 0",
        10,
        [claim("a", 20, usage=0.75), claim("b", 20)],
        {"a": 5, "b": 5},
        k=Fraction(0),
    ),
    DivisionCase(
        "who used too much gets nothing while others ask",
        10,
        [claim("a", 20, usage=0.9), claim("b", 20)],
        {"a": 0, "b": 10},
        k=Fraction(10),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_devices_are_divided(case: DivisionCase) -> None:
    shares = divide(round(case.total * GPU), case.claims, unit=GPU, k=case.k)
    assert {uid: share / GPU for uid, share in shares.items()} == case.shares


def test_less_than_nothing_is_nothing() -> None:
    """Others use more than there is."""
    assert divide(-5, [claim("a", 1, quota=UNLIMITED)]) == {"a": 0}


def test_cores_are_divided_to_a_thousandth() -> None:
    shares = divide(100, [claim("a", 9), claim("b", 9, created=1), claim("c", 9, created=2)])
    assert shares == {"a": 34, "b": 33, "c": 33}


def test_children_share_what_their_parent_got() -> None:
    queues = [
        QueueDemand(uid="top", quota=Amounts(gpu=4 * GPU), requested=Amounts(gpu=9 * GPU)),
        QueueDemand(uid="other", quota=Amounts(gpu=6 * GPU), requested=Amounts(gpu=6 * GPU)),
        QueueDemand(uid="left", parent="top", requested=Amounts(gpu=5 * GPU)),
        QueueDemand(uid="right", parent="top", requested=Amounts(gpu=4 * GPU)),
        QueueDemand(uid="orphan", parent="gone", requested=Amounts(gpu=4 * GPU)),
    ]
    shares = fair_shares(Amounts(gpu=10 * GPU), queues)
    assert {uid: share.gpu / GPU for uid, share in shares.items()} == {
        "top": 4,
        "other": 6,
        "left": 2,
        "right": 2,
    }


def test_a_limit_bounds_the_share() -> None:
    limited = QueueDemand(
        uid="a", limit=Amounts(cpu=5, memory=-1, gpu=0), requested=Amounts(9, 9, 9 * GPU)
    )
    assert fair_shares(Amounts(20, 20, 20 * GPU), [limited])["a"] == Amounts(5, 9, 0)


# --- what always holds ----------------------------------------------------------------------------

AMOUNTS = st.integers(0, 40).map(lambda halves: halves * GPU // 2)
CLAIMS = st.lists(
    st.builds(
        Claim,
        uid=st.sampled_from("abcdefgh"),
        created=st.integers(0, 3).map(float),
        priority=st.sampled_from([50, 100, 200]),
        quota=st.one_of(st.just(UNLIMITED), AMOUNTS),
        requestable=AMOUNTS,
        weight=st.integers(0, 4).map(lambda weight: weight * 500),
        usage=st.integers(0, USAGE_ONE),
    ),
    max_size=8,
    unique_by=lambda claim: claim.uid,
)
UNIT = st.sampled_from([1, GPU])
K = st.fractions(0, 3, max_denominator=7)


@given(total=AMOUNTS, claims=CLAIMS, unit=UNIT, k=K, data=st.data())
def test_the_order_of_queues_changes_nothing(
    total: int, claims: list[Claim], unit: int, k: Fraction, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(claims))
    assert divide(total, claims, unit=unit, k=k) == divide(total, shuffled, unit=unit, k=k)


@given(total=AMOUNTS, claims=CLAIMS, unit=UNIT, k=K)
def test_shares_stay_within_bounds(total: int, claims: list[Claim], unit: int, k: Fraction) -> None:
    shares = divide(total, claims, unit=unit, k=k)
    quotas = 0
    for claim in claims:
        quota = min(total if claim.quota == UNLIMITED else claim.quota, claim.requestable)
        quotas += quota
        share = shares[claim.uid]
        assert isinstance(share, int)
        assert quota <= share < max(claim.requestable, quota) + unit
        if claim.weight == 0:
            assert share == quota
    assert sum(shares.values()) <= max(total, quotas)


@given(total=AMOUNTS, claims=CLAIMS, unit=UNIT)
def test_nothing_is_left_while_somebody_with_weight_asks(
    total: int, claims: list[Claim], unit: int
) -> None:
    """Without usage: what remains is less than a unit, or nobody hungry has a weight."""
    shares = divide(total, [c._replace(usage=0) for c in claims], unit=unit)
    left = total - sum(shares.values())
    hungry = [c for c in claims if c.weight and c.requestable > shares[c.uid]]
    assert left <= 0 or not hungry


@given(total=AMOUNTS, claims=CLAIMS, unit=UNIT)
def test_a_higher_priority_never_waits_for_a_lower_one(
    total: int, claims: list[Claim], unit: int
) -> None:
    """A queue exceeds its quota only once every queue of higher priority is satisfied."""
    claims = [c._replace(usage=0) for c in claims]
    shares = divide(total, claims, unit=unit)
    for low in claims:
        quota = min(total if low.quota == UNLIMITED else low.quota, low.requestable)
        if shares[low.uid] > quota:
            assert all(
                shares[high.uid] >= high.requestable
                for high in claims
                if high.priority > low.priority and high.weight
            )


def test_no_demand_no_share() -> None:
    assert fair_shares(Amounts(10, 10, 10 * GPU), [QueueDemand(uid="a")]) == {"a": NOTHING}
