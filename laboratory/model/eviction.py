"""A model of one victim: ledger, leader and cluster, with every late message between them.

A task is placed, evicted, stopped, and placed again as another incarnation, twice. Messages arrive
in any order, some of them twice, and the leadership may change at any moment. Each rule that keeps
messages for one incarnation from affecting another can be disabled: then the exploration finds a
broken promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import StrEnum
from typing import NamedTuple

from laboratory.model.state import Came, way_to

PENDING, BINDING, RUNNING, LEAVING, FAILED = range(5)
"""The ledger's state of the task."""

BIND, STOP, BOUND, GONE, ENDED, NEVER_HAD = range(6)
"""Messages: two requests to the cluster, two answers to a bind; a report, and an answer to a
stop."""

NONE = -1


class EvictionRule(StrEnum):
    """The rules that can be disabled."""

    BIND = "bind-incarnation"
    STOP = "stop-incarnation"
    REPORT = "report-incarnation"
    ANSWER = "answer-incarnation"


MEANING = {
    EvictionRule.BIND: "the cluster binds no incarnation older than the last one it had",
    EvictionRule.STOP: "the cluster stops only the incarnation that was named",
    EvictionRule.REPORT: "reports and answers to stops of earlier incarnations change nothing",
    EvictionRule.ANSWER: "answers to binds of earlier incarnations change nothing",
}


class EvictionPromise(StrEnum):
    ONE = "1: what runs is what the ledger has on a node, in this incarnation"
    INNOCENT = "1: nobody is stopped for an earlier incarnation"


class EvictionState(NamedTuple):
    record: int = PENDING
    incarnation: int = 0
    leader_knows: bool = False
    """Whether the leader knows that the task is leaving."""
    live: int = NONE
    """The running incarnation."""
    over: int = NONE
    """The last incarnation that ended in the cluster, or that the cluster will never accept."""
    never: int = NONE
    """The last incarnation that the cluster never had."""
    deleted: bool = False
    messages: frozenset[tuple[int, int]] = frozenset()
    """(kind, incarnation)"""
    echoes: int = 2
    """Number of messages that may still be repeated later."""
    leaderships: int = 1
    """Number of further changes of the leadership."""
    deletes: int = 1


class ExploredEvictions(NamedTuple):
    states: int
    steps: int
    broken: EvictionPromise | None
    trace: list[str]


ALL: Set[EvictionRule] = frozenset(EvictionRule)
INCARNATIONS = 2
"""Evictions of one run."""


def explore(rules: Set[EvictionRule] = ALL) -> ExploredEvictions:
    """Explore all reachable states, or find the shortest path to one that breaks a promise."""
    begin = EvictionState()
    came: Came[EvictionState] = {begin: None}
    frontier, steps = [begin], 0
    while frontier:
        reached: list[EvictionState] = []
        for state in frontier:
            for label, after, broken in _steps(state, rules):
                steps += 1
                if broken is not None:
                    return ExploredEvictions(
                        len(came), steps, broken, [*way_to(came, state), label]
                    )
                if after not in came:
                    came[after] = state, label
                    reached.append(after)
        frontier = reached
    return ExploredEvictions(len(came), steps, None, [])


Step = tuple[str, EvictionState, EvictionPromise | None]


def _steps(s: EvictionState, rules: Set[EvictionRule]) -> Iterator[Step]:
    for label, after in _own(s):
        yield label, after, _broken(after)
    for message in s.messages:
        kind, incarnation = message
        name = ("bind", "stop", "bound", "gone", "failed", "never had it")[kind]
        rest = s._replace(messages=s.messages - {message})
        innocent = kind == STOP and s.live > incarnation and EvictionRule.STOP not in rules
        after = _arrive(rest, kind, incarnation, rules)
        broken = EvictionPromise.INNOCENT if innocent else _broken(after)
        yield f"{name}, of incarnation {incarnation}", after, broken
        if s.echoes:
            more = after._replace(messages=after.messages | {message}, echoes=s.echoes - 1)
            yield f"{name}, of incarnation {incarnation}; it will come again", more, broken


def _broken(s: EvictionState) -> EvictionPromise | None:
    on_a_node = s.record in (BINDING, RUNNING, LEAVING)
    return (
        None if s.live == NONE or (on_a_node and s.live == s.incarnation) else EvictionPromise.ONE
    )


def _own(s: EvictionState) -> Iterator[tuple[str, EvictionState]]:
    """Steps that need no message."""
    if s.record == PENDING and not s.deleted:
        yield "it is placed", _send(s._replace(record=BINDING), BIND)
    if s.record == RUNNING and s.incarnation < INCARNATIONS:
        yield "it is evicted", s._replace(record=LEAVING)
    if s.record == LEAVING and not s.leader_knows:
        yield "the leader reads of it", _send(s._replace(leader_knows=True), STOP)
    if s.leaderships:
        yield (
            "another takes the leadership",
            _take_leadership(s._replace(leaderships=s.leaderships - 1)),
        )
    if s.deletes:
        without_job = s._replace(deleted=True, deletes=0)
        yield (
            "its job is deleted",
            without_job if s.record in (PENDING, FAILED) else _send(without_job, STOP),
        )


def _send(s: EvictionState, kind: int, incarnation: int | None = None) -> EvictionState:
    return s._replace(
        messages=s.messages | {(kind, s.incarnation if incarnation is None else incarnation)}
    )


def _take_leadership(s: EvictionState) -> EvictionState:
    """A successor reads the ledger's state, and asks the cluster again."""
    # The successor finds the entry open in the bind stream, and asks again.
    if s.record == BINDING:
        s = _send(s, BIND)
    return (
        _send(s._replace(leader_knows=True), STOP)
        if s.record == LEAVING
        else s._replace(leader_knows=False)
    )


def _arrive(
    s: EvictionState, kind: int, incarnation: int, rules: Set[EvictionRule]
) -> EvictionState:
    match kind:
        case 0:
            return _bind(s, incarnation, rules)
        case 1:
            return _stop(s, incarnation, rules)
        case 2 | 3:
            if EvictionRule.ANSWER in rules and incarnation < s.incarnation:
                return s
            if kind == BOUND:
                return s._replace(record=RUNNING) if s.record == BINDING else s
            return s._replace(record=FAILED) if s.record in (BINDING, RUNNING) else s
        case _:
            return s if EvictionRule.REPORT in rules and incarnation < s.incarnation else _end(s)


def _bind(s: EvictionState, incarnation: int, rules: Set[EvictionRule]) -> EvictionState:
    if s.live == incarnation:
        return _send(s, BOUND, incarnation)
    if s.live != NONE or (
        incarnation <= s.over if EvictionRule.BIND in rules else incarnation == s.over
    ):
        return _send(s, GONE, incarnation)
    return _send(s._replace(live=incarnation), BOUND, incarnation)


def _stop(s: EvictionState, incarnation: int, rules: Set[EvictionRule]) -> EvictionState:
    if s.live != NONE:
        if s.live != incarnation and EvictionRule.STOP in rules:
            return s
        return _send(s._replace(live=NONE, over=s.live), ENDED, s.live)
    if incarnation > s.over:
        return _send(s._replace(over=incarnation, never=incarnation), NEVER_HAD, incarnation)
    return _send(s, NEVER_HAD, incarnation) if incarnation == s.never else s


def _end(s: EvictionState) -> EvictionState:
    """The leader records an end: an evicted task is pending again, unless its job is deleted."""
    if s.record not in (BINDING, RUNNING, LEAVING):
        return s
    if s.record == LEAVING and s.leader_knows and not s.deleted:
        return s._replace(record=PENDING, incarnation=s.incarnation + 1, leader_knows=False)
    return s._replace(record=FAILED, leader_knows=False)
