"""Rules from outside this repository, guarded: what one raises is a PluginError with its name.

A rule that raises says nothing about the job, and must not take the worker or the coordinator with
it (docs/decisions/0049). In a worker the error ends the turn. In the coordinator, which asks one
rule about all jobs at once, it is *contained*: recorded, and answered with what lets nothing
happen. The plugins of this repository are not guarded, because they are asked for every task: in a
worker :mod:`shard_worker.framework.raised_rule` finds afterwards which of them raised.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from shard_worker.framework.rules import REJECT, EventHandler, NodeColumns, Rows, Scorer, Scores
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.model import TaskClass
from shared.policy.model import PolicyError

LONGEST_ERROR = 400
"""Longest text of an exception in a message, in characters."""
LONGEST_TRACEBACK = 8_000
"""A traceback is cut to its end: the lines nearest to the exception."""


class PluginError(PolicyError):
    """A plugin raised, at this extension point. One line; :attr:`traceback` has the rest."""

    def __init__(self, plugin: str, point: str, error: Exception) -> None:
        self.plugin, self.point = plugin, point
        self.exception = type(error).__name__
        self.traceback = "".join(traceback.format_exception(error))[-LONGEST_TRACEBACK:]
        text = " ".join(f"{self.exception}: {error}".split()).removesuffix(":")
        super().__init__(f"plugin {plugin} raised at {point}: {text[:LONGEST_ERROR]}")

    @property
    def kind(self) -> str:
        """Errors of one kind have one traceback in the log."""
        return f"{self.plugin} {self.point} {self.exception}"

    @property
    def reason(self) -> str:
        """The error as a reason to skip a job."""
        return written(Reason.PLUGIN_ERROR, str(self))


Contain = Callable[[PluginError], None]


class SortLast:
    """A part of a sort key that goes after every other: of a job or queue whose key raised."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortLast)

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, SortLast)

    __hash__ = None  # type: ignore[assignment]


LAST = SortLast()
CONTAINED: dict[str, Callable[[PluginError], object]] = {
    "JobOrder": lambda _: LAST,
    "QueueOrder": lambda _: LAST,
    "TaskOrder": lambda _: LAST,
    "Overused": lambda _: True,
    "Allocatable": lambda _: False,
    "JobReady": lambda _: False,
    "JobPipelined": lambda _: REJECT,
    "JobEnqueueable": lambda _: REJECT,
    "JobEnqueued": lambda _: None,
    "JobStarving": lambda _: False,
    "JobValid": lambda error: error.reason,
    "TargetJob": lambda _: None,
    "PrePredicate": lambda _: True,
    "LivePredicate": lambda _: True,
    "BatchNodeOrder": lambda _: True,
}
"""Point -> the answer that lets nothing happen, of the form that the coordinator asks: last in
order, queue full, job not ready, session needed."""
COMPARISON = 0.0
"""The answer of an order that only compares: it does not tell the two apart."""


class GuardedRule:
    """A rule that is called like a function, guarded."""

    __slots__ = ("_fn", "_guard", "_is_comparison")

    def __init__(self, fn: Callable[..., Any], guard: Guard, *, is_comparison: bool) -> None:
        self._fn = fn
        self._guard = guard
        self._is_comparison = is_comparison

    def __call__(self, *args: Any) -> Any:
        try:
            return self._fn(*args)
        except Exception as error:  # whatever a stranger's rule does
            return self._guard.raised(error, is_comparison=self._is_comparison)


class GuardedScorer:
    """A rule that is a scorer, guarded."""

    def __init__(self, scorer: Scorer, guard: Guard) -> None:
        self._scorer = scorer
        self._guard = guard
        by_look: Callable[..., Any] | None = getattr(scorer, "by_look", None)
        self.by_look = None if by_look is None else guard.rule(by_look)

    @property
    def node_local(self) -> bool:
        try:
            return self._scorer.node_local
        except Exception as error:
            raise self._guard.error(error) from error

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Scores:
        try:
            return self._scorer.rows(cls, view, rows)
        except Exception as error:
            raise self._guard.error(error) from error

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        try:
            return self._scorer.row(cls, view, row)
        except Exception as error:
            raise self._guard.error(error) from error


class Guard:
    """Turns exceptions of one plugin's rules at one extension point into PluginErrors."""

    def __init__(self, plugin: str, point: str, contain: Callable[[], Contain | None]) -> None:
        """``contain`` returns the handler that collects errors at the moment of the call, or None
        if they are to be raised."""
        self._plugin = plugin
        self._point = point
        self._contain = contain

    def rule(self, rule: Any, *, is_comparison: bool = False) -> Any:
        """The rule, guarded: a function, a scorer, an event handler, or None."""
        if rule is None:
            return None
        if isinstance(rule, EventHandler):
            return EventHandler(self.rule(rule.allocate), self.rule(rule.deallocate))
        if hasattr(rule, "rows") and hasattr(rule, "row"):
            return GuardedScorer(rule, self)
        return GuardedRule(rule, self, is_comparison=is_comparison)

    def error(self, error: Exception) -> PluginError:
        """As a PluginError; one that passes through a second rule keeps the first one's name."""
        if isinstance(error, PluginError):
            return error
        return PluginError(self._plugin, self._point, error)

    def raised(self, error: Exception, *, is_comparison: bool) -> object:
        """Contain the error, or raise PluginError."""
        plugin_error, contain = self.error(error), self._contain()
        answer = CONTAINED.get(self._point)
        if contain is None or answer is None:
            raise plugin_error from error
        contain(plugin_error)
        return COMPARISON if is_comparison else answer(plugin_error)
