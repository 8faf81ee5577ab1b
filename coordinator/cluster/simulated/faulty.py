"""A cluster behind a faulty connection: by a seed it refuses, times out, and repeats reports.

The cluster's state stays honest: the wrapped cluster accepts a bind or does not, and the history
records which. Only the answers to the binder are falsified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from random import Random
from typing import TypeVar

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    ClusterTimeout,
    Foreign,
    Listed,
    Reports,
)
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.kubelets import REPORTS_AT_ONCE

T = TypeVar("T")

_MEMORY = 64
"""How many reports back a repeated one may come from."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities, each between 0 and 1."""

    refuse: float = 0.0
    """Per task: the node refuses it. Never for a task that is or was on a node."""
    unknown_before: float = 0.0
    """Per task: the request is lost and the answer is UNKNOWN."""
    unknown_after: float = 0.0
    """Per task: the task is bound, the answer is UNKNOWN."""
    silent_before: float = 0.0
    """Per call: the whole request is lost, without an answer."""
    silent_after: float = 0.0
    """Per call: everything is executed, without an answer."""
    broken: float = 0.0
    """Per node: it refuses every new task, always for the same reason."""
    duplicate: float = 0.0
    """Per report: an earlier report (one of the last 64, or this one) is repeated."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not 0 <= value <= 1:
                raise ValueError(f"fault {option.name}: {value} is not between 0 and 1")


def parse_faults(text: str) -> Faults:
    """``refuse=0.01,duplicate=0.2``; raises ValueError that names the part and the remedy."""
    names = [option.name for option in fields(Faults)]
    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, equals, number = part.strip().partition("=")
        if name not in names:
            raise ValueError(f"fault {name!r} is not known; choose from {', '.join(names)}")
        try:
            values[name] = float(number) if equals else 1.0
        except ValueError:
            message = f"fault {name}: {number!r} is not a number; give a probability like 0.1"
            raise ValueError(message) from None
    return Faults(**values)


class _Fate(Enum):
    """The fate of one task of a bind."""

    HONEST = 0
    REFUSED = 1
    BROKEN = 4  # refused, as always
    LOST = 2
    HIDDEN = 3  # done, but the answer does not say so


_PASSED = (_Fate.HONEST, _Fate.HIDDEN)
_ANSWERS = {
    _Fate.HONEST: BindAnswer.UNKNOWN,  # until the cluster has answered
    _Fate.REFUSED: BindAnswer.REFUSED,
    _Fate.BROKEN: BindAnswer.REFUSED,
    _Fate.LOST: BindAnswer.UNKNOWN,
    _Fate.HIDDEN: BindAnswer.UNKNOWN,
}


_SAID = {_Fate.REFUSED: "OutOfLuck", _Fate.BROKEN: "NodeBroken"}


class FaultyCluster:
    """A :class:`LocalCluster` with faults; the same calls in the same order repeat exactly."""

    def __init__(self, cluster: LocalCluster, faults: Faults, seed: int) -> None:
        self._cluster = cluster
        self._faults = faults
        self._random = Random(seed)
        self._seed = seed
        self._broken: dict[str, bool] = {}
        """Node -> whether it refuses all tasks; drawn on first use."""
        self._refusals: list[ClusterEvent] = []
        self._said: deque[tuple[int, str, str, int]] = deque(maxlen=_MEMORY)
        """(kind, task, node, life)"""

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        """Raises ClusterTimeout if the whole call is lost, before or after its effect."""
        if self._strikes(self._faults.silent_before):
            raise ClusterTimeout("the bind request was lost")
        fates = [
            self._fate(task, node)
            for task, node in zip(requests.tasks, requests.nodes, strict=True)
        ]
        answers, where = [int(_ANSWERS[fate]) for fate in fates], [""] * len(fates)
        reasons = [_SAID.get(fate, "") for fate in fates]
        passed = [i for i, fate in enumerate(fates) if fate in _PASSED]
        if passed:
            reached = self._cluster.bind(requests.select(passed), now)
            for i, answer, node in zip(passed, reached.answers, reached.where, strict=True):
                if fates[i] is _Fate.HONEST:
                    answers[i], where[i] = answer, node
        self._note_refusals(requests, fates, now)
        if self._strikes(self._faults.silent_after):
            raise ClusterTimeout("the bind answer was lost")
        return BindAnswers(answers, where, reasons if any(reasons) else [])

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        """Raises ClusterTimeout if the whole call is lost, before or after its effect."""
        if self._strikes(self._faults.silent_before):
            raise ClusterTimeout("the delete request was lost")
        never = self._cluster.delete(tasks, now, uids)
        if self._strikes(self._faults.silent_after):
            raise ClusterTimeout("the delete answer was lost")
        return never

    def advance(self, now: float) -> None:
        self._cluster.advance(now)

    def next_due(self) -> float | None:
        return self._cluster.next_due()

    def reports(self, after: int, limit: int = REPORTS_AT_ONCE) -> Reports:
        """The reports in order, with repetitions in between; ``last`` counts only the real ones."""
        fresh = self._cluster.reports(after, limit)
        if not self._faults.duplicate:
            return fresh
        repeated: list[tuple[int, str, str, int]] = []
        columns = zip(fresh.kinds, fresh.tasks, fresh.nodes, strict=True)
        for i, (kind, task, node) in enumerate(columns):
            report = kind, task, node, fresh.incarnations.get(i, 0)
            repeated.append(report)
            self._said.append(report)
            if self._strikes(self._faults.duplicate):
                repeated.append(self._random.choice(self._said))
        return Reports(
            last=fresh.last,
            kinds=[row[0] for row in repeated],
            tasks=[row[1] for row in repeated],
            nodes=[row[2] for row in repeated],
            incarnations={i: row[3] for i, row in enumerate(repeated) if row[3]},
        )

    def listing(self, token: str) -> Listed:
        return self._unless_silent(lambda: self._cluster.listing(token), "listing")

    def look(self, tasks: list[str]) -> Listed:
        return self._unless_silent(lambda: self._cluster.look(tasks), "look")

    def foreign(self) -> Foreign:
        return self._unless_silent(self._cluster.foreign, "foreign")

    def _unless_silent(self, ask: Callable[[], T], call_name: str) -> T:
        """Run a read-only call, which may be lost. Whether request or answer is lost makes no
        difference."""
        if self._strikes(self._faults.silent_before) or self._strikes(self._faults.silent_after):
            raise ClusterTimeout(f"the {call_name} was lost")
        return ask()

    def drain(self) -> list[ClusterEvent]:
        events = self._cluster.drain() + self._refusals
        self._refusals = []
        return events

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    def _refuses_all(self, node: str) -> bool:
        """Whether the node refuses all tasks. Depends only on seed and name, not on the order of
        requests."""
        if not self._faults.broken:
            return False
        if node not in self._broken:
            drawn = Random(f"{self._seed}/{node}").random()
            self._broken[node] = drawn < self._faults.broken
        return self._broken[node]

    def _fate(self, task: str, node: str) -> _Fate:
        if self._refuses_all(node) and not self._cluster.knows(task):
            return _Fate.BROKEN
        if self._strikes(self._faults.refuse) and not self._cluster.knows(task):
            return _Fate.REFUSED
        if self._strikes(self._faults.unknown_before):
            return _Fate.LOST
        return _Fate.HIDDEN if self._strikes(self._faults.unknown_after) else _Fate.HONEST

    def _note_refusals(self, requests: BindRequests, fates: list[_Fate], now: float) -> None:
        chosen = [i for i, fate in enumerate(fates) if fate in _SAID]
        if chosen:
            refused = requests.select(chosen)
            answers = [BindAnswer.REFUSED.name] * len(chosen)
            self._refusals.append(
                ClusterEvent(now, "bind", refused.tasks, refused.nodes, refused.uids, answers)
            )
