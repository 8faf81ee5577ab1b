"""How long the rules of each plugin take, by extension point.

A worker times the rules in a share of its calls, and only there: the rules of its session are then
replaced by timed ones, so that they cost nothing otherwise (decision 0059). A timed call stands for
all since the last one. Where rules are slow, the next call is timed too. Whether a call is timed
does not depend on what it takes, so that the sums are right on average.

Times are those of the wall clock: a rule that waits for a server costs its turn just as much. A
rule that asks others holds their time too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shard_worker.framework.registered import Registered
from shard_worker.framework.rules import EventHandler, NodeColumns, Rows, Scorer, Scores
from shared.model.model import TaskClass

SHARE = 16
"""One call in so many is timed, with all the rules that it asks."""
SLOW_SECONDS = 0.00005
"""A hundred times what it costs to time a rule: from here on every call is timed."""

OPENING = "OnSessionOpen"
"""Stands for the extension point while a plugin registers its rules."""

Clock = Callable[[], float]
AnyRule = Registered[Any, Any]


class RuleTime:
    """Time and calls of one plugin's rules at one point since the last reading."""

    __slots__ = ("_clock", "calls", "seconds", "weight")

    def __init__(self, clock: Clock) -> None:
        self.seconds = 0.0
        self.calls = 0
        self.weight = 0
        """How many calls the present one stands for; 0 while none is timed."""
        self._clock = clock

    def timed(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def call(*args: Any) -> Any:
            if not self.weight:  # kept beyond the timed call
                return fn(*args)
            began = self._clock()
            try:
                return fn(*args)
            finally:
                self.seconds += (self._clock() - began) * self.weight
                self.calls += self.weight

        return call


class TimedScorer:
    """A scorer, timed."""

    def __init__(self, scorer: Scorer, times: RuleTime) -> None:
        self._scorer = scorer
        self.by_look: Callable[..., Any] | None = getattr(scorer, "by_look", None)
        self.rows: Callable[[TaskClass, NodeColumns, Rows], Scores] = times.timed(scorer.rows)
        self.row: Callable[[TaskClass, NodeColumns, int], float] = times.timed(scorer.row)

    @property
    def node_local(self) -> bool:
        return self._scorer.node_local


@dataclass(frozen=True, slots=True)
class _Twin:
    """A rule of a session that lasts, and its timed form."""

    rules: list[AnyRule]
    at: int
    plain: AnyRule
    timed: AnyRule


class RuleTimes:
    """The times of all rules of a worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[str, RuleTime] = {}
        self._twins: list[_Twin] = []
        self._weight = 0
        self._left = self._share = 1
        """Number of calls until the next one is timed, and how many that one stands for."""

    @property
    def on(self) -> bool:
        """Whether the present call is timed."""
        return self._weight > 0

    def added(self, point: str, rules: list[AnyRule]) -> None:
        """A session's newest rule at a point: timed from now on in a timed call, and else in the
        timed calls to come, as long as this object lives."""
        plain = rules[-1]
        timed = Registered(
            plain.tier,
            plain.plugin,
            self.timed(plain.plugin, point, plain.fn),
            self.timed(plain.plugin, point, plain.scalar),
            plain.scope,
            plain.symmetric,
        )
        if self.on:
            rules[-1] = timed
        else:
            self._twins.append(_Twin(rules, len(rules) - 1, plain, timed))

    def timed(self, plugin: str, point: str, rule: Any) -> Any:
        """The rule, timed: a function, a scorer, an event handler, or None."""
        if rule is None:
            return None
        name = f"{plugin} {point}"
        if name not in self._times:
            self._times[name] = RuleTime(self._clock)
            self._times[name].weight = self._weight
        times = self._times[name]
        if isinstance(rule, EventHandler):
            return EventHandler(times.timed(rule.allocate), times.timed(rule.deallocate))
        if hasattr(rule, "rows") and hasattr(rule, "row"):
            return TimedScorer(rule, times)
        return times.timed(rule)

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the worker, which may be one of those that are timed."""
        self._left -= 1
        if self._left > 0:
            yield
            return
        before = self._sums()
        self._weigh(self._share)
        for twin in self._twins:
            twin.rules[twin.at] = twin.timed
        try:
            yield
        finally:
            for twin in self._twins:
                twin.rules[twin.at] = twin.plain
            self._weigh(0)
            seconds, calls = self._sums()
            spent, call_count = seconds - before[0], calls - before[1]
            is_slow = call_count > 0 and spent >= call_count * SLOW_SECONDS
            self._left = self._share = 1 if is_slow else SHARE

    def _weigh(self, weight: int) -> None:
        self._weight = weight
        for times in self._times.values():
            times.weight = weight

    def _sums(self) -> tuple[float, int]:
        times = self._times.values()
        return sum(rule.seconds for rule in times), sum(rule.calls for rule in times)

    def totals(self) -> tuple[dict[str, float], dict[str, int]]:
        """(seconds, calls) by ``PLUGIN POINT`` since they were last taken; only of those called."""
        called = [(name, times) for name, times in self._times.items() if times.calls]
        seconds = {name: times.seconds for name, times in called}
        return seconds, {name: times.calls for name, times in called}

    def take(self) -> tuple[dict[str, float], dict[str, int]]:
        """The totals, which begin anew."""
        totals = self.totals()
        for name in totals[0]:
            self._times[name].seconds, self._times[name].calls = 0.0, 0
        return totals
