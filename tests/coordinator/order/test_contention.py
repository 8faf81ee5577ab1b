"""When a job that starves may evict: action after action, and not at once after it was evicted."""

from __future__ import annotations

from coordinator.order.starvation import (
    AGAIN_SECONDS,
    EVICTED_LIMIT_SECONDS,
    EVICTED_SECONDS,
    Contention,
)
from shared.policy.model import Policy

POLICY = Policy(("allocate", "preempt", "reclaim"), ())


def may(contention: Contention, now: float) -> str | None:
    return contention.action(7, now=now, revision=0)


def test_an_evicted_job_waits_longer_before_each_eviction() -> None:
    contention, now, waits = Contention(POLICY), 100.0, []
    for _ in range(12):
        contention.was_evicted(7, now=now)
        contention.was_evicted(7, now=now)  # a gang leaves task by task: it counts once
        began = now
        while may(contention, now) is None:
            due = contention.next_due(now)
            assert due is not None
            now = due
        waits.append(now - began)
        contention.forget(7)  # it got what it needed, and is evicted again
    assert waits[:3] == [EVICTED_SECONDS, 2 * EVICTED_SECONDS, 4 * EVICTED_SECONDS]
    assert waits[-1] == EVICTED_LIMIT_SECONDS


def test_after_a_long_peace_it_waits_as_at_first() -> None:
    contention = Contention(POLICY)
    contention.was_evicted(7, now=0.0)
    contention.was_evicted(7, now=2.0)
    later = 10.0 + EVICTED_LIMIT_SECONDS
    contention.was_evicted(7, now=later)
    assert contention.next_due(later) == later + EVICTED_SECONDS


def test_others_and_another_policy_are_not_held_up() -> None:
    contention = Contention(POLICY)
    contention.was_evicted(7, now=0.0)
    assert contention.action(8, now=0.0, revision=0) == "preempt"
    contention.adopt(POLICY)
    assert may(contention, 0.0) == "preempt"
    contention.was_evicted(7, now=0.0)
    contention.gone(7)
    assert may(contention, 0.0) == "preempt"


def test_a_job_that_fails_to_use_freed_room_evicts_ever_less_often() -> None:
    """Its victims came back and were evicted again, six times a second: 903 evictions in two
    minutes on a cluster of five nodes."""
    contention = Contention(POLICY)
    now, times = 0.0, []
    while now < 120.0:
        if contention.action(1, now=now, revision=int(now * 1000)) is not None:
            contention.opened(1, "preempt")
            contention.came_back(1)
            contention.evicted_for(1, now=now)
            times.append(now)
            contention.promised(1)  # the turn that should take it
        now += 0.05
    assert len(times) <= 11
    contention.forget(1)  # it was placed
    assert contention.action(1, now=now, revision=0) is not None


def test_a_passed_over_job_does_not_pause() -> None:
    """The turn of those before it may come to an end at once."""
    contention = Contention(POLICY)
    for expected in ("preempt", "reclaim", "preempt"):
        assert may(contention, 0.0) == expected
        contention.pass_over(7, now=0.0, revision=0)


def test_a_failed_and_passed_over_job_pauses() -> None:
    """Or what failed would be searched again at once."""
    contention = Contention(POLICY)
    contention.skip(7, now=0.0, revision=0)
    contention.pass_over(7, now=0.0, revision=0)
    assert may(contention, 0.0) is None
    assert contention.action(7, now=AGAIN_SECONDS, revision=1) == "preempt"
    contention.pass_over(7, now=AGAIN_SECONDS, revision=1)
    contention.pass_over(7, now=AGAIN_SECONDS, revision=1)
    assert contention.action(7, now=AGAIN_SECONDS, revision=1) == "preempt"
