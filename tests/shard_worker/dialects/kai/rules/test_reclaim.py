"""Reclaim between queues: by whom, from whom, how far, and how much at most."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NO_BOUND, Amounts, total
from shard_worker.dialects.kai.rules.reclaim import (
    QueueBalance,
    Reclaimer,
    Victim,
    is_reclaimable,
    largest_parts,
    leveled,
    may_cost,
    may_lose,
    may_reclaim,
)


def gpus(amount: int) -> Amounts:
    return Amounts(gpu=amount)


def queue(
    uid: str,
    *,
    parent: str | None = None,
    quota: int = 0,
    fair: int = 0,
    has: int = 0,
    held: int = 0,
) -> QueueBalance:
    """``has``: allocated, ``held``: of it what nobody may evict."""
    free = Amounts(-1, -1, quota)
    return QueueBalance(
        uid=uid,
        parent=parent,
        quota=free,
        limit=NO_BOUND,
        fair_share=Amounts(0, 0, fair),
        allocated=gpus(has),
        non_preemptible=gpus(held),
    )


def siblings(*queues: QueueBalance) -> dict[str, QueueBalance]:
    return {queue.uid: queue for queue in queues}


@pytest.mark.parametrize(
    ("quota", "held", "asks", "preemptible", "may"),
    [
        (0, 0, 2, True, True),
        (0, 0, 3, True, False),
        (1, 1, 1, True, True),
        (1, 1, 1, False, False),
        (2, 1, 1, False, True),
    ],
)
def test_a_reclaimer_stays_within_its_share_and_quota(
    quota: int, held: int, asks: int, preemptible: bool, may: bool
) -> None:
    queues = siblings(queue("r", fair=4, quota=quota, has=2, held=held))
    assert may_reclaim(queues, Reclaimer("r", gpus(asks), preemptible)) is may


@pytest.mark.parametrize(
    ("quota_of_reclaimer", "quota", "fair", "has", "may"),
    [
        (1, 2, 2, 3, True),  # within its quota, from one above its own
        (1, 2, 2, 2, True),  # exactly at its quota: looked at, the validator decides
        (1, 3, 3, 2, False),  # below its quota
        (0, 2, 3, 3, False),  # beyond its quota: only from one above its share
        (0, 2, 3, 4, True),
    ],
)
def test_which_queues_are_looked_at(
    quota_of_reclaimer: int, quota: int, fair: int, has: int, may: bool
) -> None:
    queues = siblings(
        queue("r", quota=quota_of_reclaimer, fair=9), queue("v", quota=quota, fair=fair, has=has)
    )
    assert may_lose(queues, Reclaimer("r", gpus(1)), "v") is may


def test_queues_are_judged_just_below_the_one_that_both_are_in() -> None:
    queues = siblings(
        queue("top"),
        queue("left", parent="top"),
        queue("right", parent="top"),
        queue("l1", parent="left"),
        queue("l2", parent="left"),
        queue("r1", parent="right"),
    )

    def pair(one: str, other: str) -> tuple[str, str]:
        mine, theirs = leveled(queues, one, other)
        return mine.uid, theirs.uid

    assert pair("l1", "l2") == ("l1", "l2")
    assert pair("l1", "r1") == ("left", "right")
    assert pair("l1", "left") == ("left", "left")


@pytest.mark.parametrize(
    ("parts", "valid"),
    [
        ([1], True),
        ([1, 1], True),
        ([1, 1, 1], False),  # the third finds the queue at its share
        ([4], True),  # one part may push it below, as in KAI
        ([1, 4], True),
        ([2, 1], False),
    ],
)
def test_a_part_is_judged_before_it_is_taken(parts: list[int], valid: bool) -> None:
    queues = siblings(queue("r", quota=0, fair=9), queue("v", quota=0, fair=4, has=6))
    victims = [Victim("v", gpus(part)) for part in parts]
    assert is_reclaimable(queues, Reclaimer("r", gpus(1)), victims) is valid


def test_within_its_quota_a_reclaimer_goes_down_to_the_quota_of_others() -> None:
    queues = siblings(queue("r", quota=2, fair=2), queue("v", quota=1, fair=4, has=3))
    victims = [Victim("v", gpus(1)), Victim("v", gpus(1))]
    assert is_reclaimable(queues, Reclaimer("r", gpus(2)), victims)
    assert not is_reclaimable(queues, Reclaimer("r", gpus(3)), victims)


@pytest.mark.parametrize(
    ("has", "left_after", "multiplier", "valid"),
    [
        (4, 5, 1, True),  # at its fair share: nobody is compared
        (5, 7, 1, True),  # 6/5 of its share against 7/5
        (5, 6, 1, False),  # 6/5 against 6/5
        (5, 7, 2, False),  # twice 6/5 against 7/5
    ],
)
def test_nobody_comes_out_fuller_than_a_sibling_that_lost(
    has: int, left_after: int, multiplier: int, valid: bool
) -> None:
    queues = siblings(
        queue("r", quota=9, fair=5, has=has), queue("v", quota=0, fair=5, has=left_after + 1)
    )
    result = is_reclaimable(
        queues,
        Reclaimer("r", gpus(1)),
        [Victim("v", gpus(1))],
        multiplier=Fraction(multiplier),
    )
    assert result is valid


def test_at_every_level_of_the_tree() -> None:
    queues = siblings(
        queue("left", fair=2, has=2),
        queue("right", fair=2, has=3),
        queue("l", parent="left", quota=2, fair=2, has=1),
        queue("r", parent="right", fair=2, has=3),
    )
    assert not is_reclaimable(queues, Reclaimer("l", gpus(1)), [Victim("r", gpus(1))])
    richer = {
        **queues,
        "right": queue("right", fair=2, has=5),
        "r": queue("r", parent="right", has=5),
    }
    assert is_reclaimable(richer, Reclaimer("l", gpus(1)), [Victim("r", gpus(1))])


AMOUNTS = st.builds(Amounts, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
BOUNDS = st.builds(Amounts, *[st.integers(-1, 6)] * 3)
JOBS = st.lists(st.lists(AMOUNTS, min_size=1, max_size=3), min_size=1, max_size=4)


@given(quota=BOUNDS, other_quota=BOUNDS, fair=BOUNDS, asks=AMOUNTS, jobs=JOBS)
def test_no_valid_reclaim_costs_more_than_could_be_taken(
    quota: Amounts, other_quota: Amounts, fair: Amounts, asks: Amounts, jobs: list[list[Amounts]]
) -> None:
    """Whichever jobs go: what they lose together is never denied beforehand."""
    queues = siblings(
        QueueBalance(uid="r", quota=quota, fair_share=Amounts(9, 9, 9)),
        QueueBalance(
            uid="v",
            quota=other_quota,
            fair_share=Amounts(*(max(part, 0) for part in fair)),
            allocated=total(task for job in jobs for task in job),
        ),
    )
    reclaimer, leaves = Reclaimer("r", asks), {"v": largest_parts(jobs)}
    victims: list[Victim] = []
    for job in jobs:
        victims.append(Victim("v", total(job)))
        if is_reclaimable(queues, reclaimer, victims):
            lost = total(victim.amounts for victim in victims)
            assert may_cost(queues, reclaimer, lost, leaves)
        else:
            victims.pop()


def test_one_gpu_over_the_quota_is_denied_beforehand() -> None:
    queues = siblings(queue("r", quota=80, fair=80), queue("v", quota=721, fair=721, has=800))
    leaves = {"v": largest_parts([[gpus(1)]] * 3)}
    assert may_cost(queues, Reclaimer("r", gpus(79)), gpus(79), leaves)
    assert not may_cost(queues, Reclaimer("r", gpus(80)), gpus(80), leaves)
    assert not may_cost(queues, Reclaimer("r", gpus(80)), gpus(80), {})
