"""Times of rules: in a share of a worker's calls, in every one while they are slow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shard_worker.dialects.open_session import open_session, opened_again
from shard_worker.framework.extension_points import JOB_VALID
from shard_worker.framework.rule_times import OPENING, SHARE, SLOW_SECONDS, RuleTimes
from shard_worker.framework.rules import EventHandler
from shared.policy.volcano import DEFAULT_POLICY

FAST = SLOW_SECONDS / 100


class Watch:
    """A clock that moves when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now

    def rule(self, seconds: float) -> float:
        self.now += seconds
        return seconds


def test_a_timed_call_stands_for_those_since_the_last_one() -> None:
    watch = Watch()
    times = RuleTimes(watch)
    rule = times.timed("mine", "NodeOrder", watch.rule)
    for _ in range(1 + 10 * SHARE):
        with times.call():
            assert rule(FAST) == FAST
            rule(FAST)
    seconds, calls = times.take()
    assert calls == {"mine NodeOrder": 2 * (1 + 10 * SHARE)}
    assert seconds["mine NodeOrder"] == pytest.approx(2 * FAST * (1 + 10 * SHARE))
    assert watch.looks == 2 * 2 * 11
    assert times.take() == ({}, {})


def test_while_rules_are_slow_every_call_is_timed_also_one_that_raises() -> None:
    watch = Watch()
    times = RuleTimes(watch)

    def rule() -> None:
        watch.rule(2 * SLOW_SECONDS)
        raise KeyError("rack")

    timed = times.timed("mine", "Predicate", rule)
    for _ in range(5):
        with pytest.raises(KeyError), times.call():
            timed()
    seconds, calls = times.totals()
    assert calls == {"mine Predicate": 5}
    assert seconds["mine Predicate"] == pytest.approx(10 * SLOW_SECONDS)
    assert not times.on


def test_slow_moments_are_not_counted_for_more_than_they_are() -> None:
    """Whether a call is timed follows from the one before it, never from its own time."""
    random = np.random.default_rng(7)
    watch = Watch()
    times = RuleTimes(watch)
    rule = times.timed("mine", "NodeOrder", watch.rule)
    spent = [float(s) for s in random.choice([FAST, 20 * SLOW_SECONDS], 60_000, p=[0.9, 0.1])]
    for each in spent:
        with times.call():
            rule(each)
    seconds, calls = times.totals()
    assert seconds["mine NodeOrder"] == pytest.approx(sum(spent), rel=0.05)
    assert calls["mine NodeOrder"] == pytest.approx(len(spent), rel=0.01)


def test_scorers_and_event_handlers_keep_their_form() -> None:
    class Scorer:
        node_local = True

        def by_look(self, cls: Any, view: Any) -> bool:
            return False

        def rows(self, cls: Any, view: Any, rows: Any) -> Any:
            return [2.0]

        def row(self, cls: Any, view: Any, row: int) -> float:
            return 2.0

    times = RuleTimes(Watch())
    with times.call():
        scorer: Any = times.timed("mine", "NodeOrder", Scorer())
        assert (scorer.node_local, scorer.rows(0, 0, 0), scorer.row(0, 0, 0)) == (True, [2.0], 2.0)
        assert scorer.by_look(0, 0) is False
        handler = EventHandler(lambda task: None, lambda task: None)
        times.timed("mine", "EventHandler", handler).allocate(None)
        assert times.timed("mine", "JobOrder", None) is None
    assert times.totals()[1] == {"mine NodeOrder": 2, "mine EventHandler": 1}


def test_a_session_has_timed_rules_in_a_timed_call_alone() -> None:
    times = RuleTimes(Watch())
    session = open_session(DEFAULT_POLICY, times=times)
    plain = [*session.rules(JOB_VALID)]
    with times.call():
        assert times.on
        timed = [*session.rules(JOB_VALID)]
        opened_again(session)
    assert [rule.plugin for rule in timed] == [rule.plugin for rule in plain]
    assert all(a.fn is not b.fn for a, b in zip(timed, plain, strict=True))
    assert [*session.rules(JOB_VALID)] == plain
    assert times.totals()[1][f"gang {OPENING}"] == 1
    with times.call():
        assert [*session.rules(JOB_VALID)] == plain
