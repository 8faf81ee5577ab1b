"""The eight steps that order queues, one case each, and what holds for any queues."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NO_BOUND, NOTHING, UNLIMITED, Amounts
from shard_worker.dialects.kai.rules.queue_order import (
    Candidate,
    OrderStep,
    QueueFigures,
    allocatable,
    compare,
    dominant_share,
    first,
    last,
)

CLUSTER = Amounts(1000, 1000, 10_000)


def gpus(number: float) -> Amounts:
    return Amounts(gpu=round(number * 1000))


def of(
    uid: str,
    *,
    has: Amounts = NOTHING,
    quota: Amounts = NOTHING,
    share: Amounts = NOTHING,
    limit: Amounts = NO_BOUND,
    priority: int = 100,
    created: float = 0,
    asks: Amounts = NOTHING,
    victims: Amounts = NOTHING,
) -> Candidate:
    queue = QueueFigures(
        uid=uid,
        created=created,
        priority=priority,
        quota=quota,
        limit=limit,
        fair_share=share,
        allocated=has,
    )
    return Candidate(queue, cluster=CLUSTER, asks=asks, victims=victims)


@dataclass(frozen=True)
class OrderCase:
    name: str
    step: OrderStep
    first: Candidate
    then: Candidate


CASES = [
    OrderCase(
        "more than its share of everything goes last, whatever its priority",
        OrderStep.UTILIZATION,
        of("a", has=Amounts(9, 9, 1000), share=Amounts(1, 1, 1000)),
        of("b", has=Amounts(2, 2, 2000), share=Amounts(1, 1, 1000), priority=900),
    ),
    OrderCase(
        "within its quota with the next job goes before priority",
        OrderStep.QUOTA,
        of("b", quota=gpus(2), share=gpus(5), asks=gpus(2)),
        of("a", quota=gpus(2), share=gpus(5), asks=gpus(3), priority=900),
    ),
    OrderCase(
        "an unlimited quota is never exceeded",
        OrderStep.QUOTA,
        of("b", quota=NO_BOUND, asks=gpus(50)),
        of("a", quota=gpus(2), asks=gpus(3)),
    ),
    OrderCase(
        "higher priority goes before a smaller share",
        OrderStep.PRIORITY,
        of("b", has=gpus(5), share=gpus(5), asks=gpus(1), priority=101),
        of("a", has=gpus(1), share=gpus(5), asks=gpus(1)),
    ),
    OrderCase(
        "who would use what it has no share of goes last",
        OrderStep.ZERO_SHARE,
        of("b", has=gpus(5), share=Amounts(10, 10, 5000), asks=gpus(1)),
        of("a", share=Amounts(0, 10, 5000), asks=Amounts(cpu=1)),
    ),
    OrderCase(
        "the smaller part of the share, with the next job",
        OrderStep.SHARE_WITH_JOB,
        of("b", has=gpus(2), share=gpus(4), asks=gpus(1)),
        of("a", has=gpus(1), share=gpus(4), asks=gpus(4)),
    ),
    OrderCase(
        "the smaller part of the share without it, where they are equal with it",
        OrderStep.SHARE,
        of("b", has=gpus(1), share=gpus(4), asks=gpus(2)),
        of("a", has=gpus(2), share=gpus(4), asks=gpus(1)),
    ),
    OrderCase(
        "what was taken from a queue already counts for it",
        OrderStep.SHARE_WITH_JOB,
        of("b", has=gpus(4), share=gpus(4), victims=gpus(3)),
        of("a", has=gpus(2), share=gpus(4)),
    ),
    OrderCase(
        "the queue with less to share",
        OrderStep.ALLOCATABLE,
        of("b", share=Amounts(2, 2, 2000)),
        of("a", share=Amounts(2, 3, 2000)),
    ),
    OrderCase(
        "shares of which neither is smaller: the older queue",
        OrderStep.AGE,
        of("b", share=Amounts(2, 3, 2000)),
        of("a", share=Amounts(3, 2, 2000), created=1),
    ),
    OrderCase("equal ages: the first uid", OrderStep.AGE, of("a"), of("b")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_decides(case: OrderCase) -> None:
    assert compare(case.first, case.then) == (True, case.step)
    assert compare(case.then, case.first) == (False, case.step)
    assert first([case.then, case.first]) == 1
    assert last([case.then, case.first]) == 0


@pytest.mark.parametrize(
    ("quota", "limit", "share", "expected"),
    [
        (UNLIMITED, UNLIMITED, 5, UNLIMITED),
        (UNLIMITED, 7, 5, 7),
        (3, UNLIMITED, 5, 5),
        (8, UNLIMITED, 5, 8),
        (8, 6, 5, 6),
    ],
)
def test_allocatable_is_the_share_or_the_quota_within_the_limit(
    quota: int, limit: int, share: int, expected: int
) -> None:
    queue = QueueFigures(
        uid="a",
        quota=Amounts(cpu=quota),
        limit=Amounts(cpu=limit, memory=-1, gpu=-1),
        fair_share=Amounts(cpu=share),
    )
    assert allocatable(queue).cpu == expected


@pytest.mark.parametrize(
    ("has", "may", "part"),
    [
        (Amounts(5, 10, 0), Amounts(10, 100, 0), Fraction(1, 2)),
        (Amounts(5, 0, 5000), NO_BOUND, Fraction(1, 2)),
        (gpus(2), NOTHING, Fraction(2000)),
        (Amounts(memory=2), NOTHING, Fraction(2000)),
        (NOTHING, NOTHING, Fraction(0)),
    ],
)
def test_the_dominant_share(has: Amounts, may: Amounts, part: Fraction) -> None:
    assert dominant_share(has, may, CLUSTER) == part


# --- what always holds ----------------------------------------------------------------------------

SMALL = st.builds(Amounts, *[st.integers(0, 3)] * 3)
BOUNDS = st.builds(Amounts, *[st.integers(-1, 3)] * 3)
CANDIDATES = st.lists(
    st.builds(
        of,
        uid=st.sampled_from("abcdef"),
        has=SMALL,
        quota=BOUNDS,
        share=SMALL,
        limit=BOUNDS,
        priority=st.sampled_from([100, 200]),
        created=st.sampled_from([0.0, 1.0]),
        asks=SMALL,
        victims=SMALL,
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda candidate: candidate.queue.uid,
)


@given(candidates=CANDIDATES, data=st.data())
def test_first_and_last_queue_do_not_depend_on_the_input_order(
    candidates: list[Candidate], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(candidates))
    for choose in (first, last):
        assert candidates[choose(candidates)] is shuffled[choose(shuffled)]


@given(candidates=CANDIDATES)
def test_nobody_of_a_smaller_key_or_share_is_passed_over(candidates: list[Candidate]) -> None:
    chosen = candidates[first(candidates)]
    for other in candidates:
        if other is not chosen:
            verdict = compare(other, chosen)
            assert not verdict.left_first or verdict.step is OrderStep.AGE
            assert verdict.left_first != compare(chosen, other).left_first


def test_a_circle_of_pairs_has_one_first_in_any_order() -> None:
    """a has less than b, b is older than c, c is older than a: who has less of nothing is out."""
    a = of("a", created=2, share=Amounts(2, 2, 2000))
    b = of("b", created=0, share=Amounts(2, 3, 2000))
    c = of("c", created=1, share=Amounts(1, 9, 2000))
    assert compare(a, b).left_first
    assert compare(b, c).left_first
    assert compare(c, a).left_first
    assert first([a, b, c]) == 2
    assert first([c, b, a]) == 0
