"""The explored model of one victim: ledger, leader and cluster, and every late word between them.

A task is placed, evicted, stopped, and placed again as another incarnation, twice. Messages arrive
in any order, some of them twice, and the seat may change hands at any moment. Each rule that keeps
one incarnation from what was meant for another can be taken away: then a way to break a promise is
found.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import StrEnum
from typing import NamedTuple

PENDING, BINDING, RUNNING, LEAVING, FAILED = range(5)
"""What the ledger has of the task."""

BIND, STOP, BOUND, GONE, ENDED, NEVER = range(6)
"""Messages: two to the cluster, two answers to a bind; a report, and an answer to a stop."""

NONE = -1


class Rule(StrEnum):
    BIND = "the cluster binds nothing older than what it had"
    STOP = "the cluster stops only the incarnation that was named"
    REPORT = "reports and answers to stops of earlier incarnations mean nothing"
    ANSWER = "answers to binds of earlier incarnations mean nothing"


class Promise(StrEnum):
    ONE = "what runs is what the ledger has on a node, in this incarnation"
    INNOCENT = "nobody is stopped for an earlier incarnation"


class State(NamedTuple):
    record: int = PENDING
    life: int = 0
    told: bool = False
    """The leader knows that the task is leaving."""
    live: int = NONE
    """The incarnation that runs."""
    over: int = NONE
    """The last incarnation that ended in the cluster, or that it will never take."""
    never: int = NONE
    """The last of those that it never had."""
    deleted: bool = False
    messages: frozenset[tuple[int, int]] = frozenset()
    """(kind, incarnation)"""
    echoes: int = 2
    """How many messages may still arrive once more, later."""
    seats: int = 1
    """How often the seat may still change hands."""
    deletes: int = 1


class Explored(NamedTuple):
    states: int
    broken: Promise | None
    trace: list[str]


ALL: Set[Rule] = frozenset(Rule)
LIVES = 2
"""Evictions of one run."""


def explore(rules: Set[Rule] = ALL) -> Explored:
    """Every state that can be reached, or the shortest way to one that breaks a promise."""
    begin = State()
    came: dict[State, tuple[State, str] | None] = {begin: None}
    frontier = [begin]
    while frontier:
        reached: list[State] = []
        for state in frontier:
            for label, after, broken in _steps(state, rules):
                if broken is not None:
                    return Explored(len(came), broken, [*_way(came, state), label])
                if after not in came:
                    came[after] = state, label
                    reached.append(after)
        frontier = reached
    return Explored(len(came), None, [])


def _way(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return labels[::-1]


Step = tuple[str, State, Promise | None]


def _steps(s: State, rules: Set[Rule]) -> Iterator[Step]:
    for label, after in _own(s):
        yield label, after, _broken(after)
    for message in s.messages:
        kind, life = message
        name = ("bind", "stop", "bound", "gone", "failed", "never had it")[kind]
        left = s._replace(messages=s.messages - {message})
        innocent = kind == STOP and s.live > life and Rule.STOP not in rules
        after = _arrive(left, kind, life, rules)
        broken = Promise.INNOCENT if innocent else _broken(after)
        yield f"{name}, of incarnation {life}", after, broken
        if s.echoes:
            more = after._replace(messages=after.messages | {message}, echoes=s.echoes - 1)
            yield f"{name}, of incarnation {life}; it will come again", more, broken


def _broken(s: State) -> Promise | None:
    on_a_node = s.record in (BINDING, RUNNING, LEAVING)
    return None if s.live == NONE or (on_a_node and s.live == s.life) else Promise.ONE


def _own(s: State) -> Iterator[tuple[str, State]]:
    """What somebody does without being told."""
    if s.record == PENDING and not s.deleted:
        yield "it is placed", _send(s._replace(record=BINDING), BIND)
    if s.record == RUNNING and s.life < LIVES:
        yield "it is evicted", s._replace(record=LEAVING)
    if s.record == LEAVING and not s.told:
        yield "the leader reads of it", _send(s._replace(told=True), STOP)
    if s.seats:
        yield "another takes the seat", _take_seat(s._replace(seats=s.seats - 1))
    if s.deletes:
        gone = s._replace(deleted=True, deletes=0)
        yield "its job is deleted", gone if s.record in (PENDING, FAILED) else _send(gone, STOP)


def _send(s: State, kind: int, life: int | None = None) -> State:
    return s._replace(messages=s.messages | {(kind, s.life if life is None else life)})


def _take_seat(s: State) -> State:
    """The successor knows what the ledger has, and asks the cluster again."""
    if s.record == BINDING:
        s = _send(s, BIND)
    return _send(s._replace(told=True), STOP) if s.record == LEAVING else s._replace(told=False)


def _arrive(s: State, kind: int, life: int, rules: Set[Rule]) -> State:
    match kind:
        case 0:
            return _bind(s, life, rules)
        case 1:
            return _stop(s, life, rules)
        case 2 | 3:
            if Rule.ANSWER in rules and life < s.life:
                return s
            if kind == BOUND:
                return s._replace(record=RUNNING) if s.record == BINDING else s
            return s._replace(record=FAILED) if s.record in (BINDING, RUNNING) else s
        case _:
            return s if Rule.REPORT in rules and life < s.life else _end(s)


def _bind(s: State, life: int, rules: Set[Rule]) -> State:
    if s.live == life:
        return _send(s, BOUND, life)
    if s.live != NONE or (life <= s.over if Rule.BIND in rules else life == s.over):
        return _send(s, GONE, life)
    return _send(s._replace(live=life), BOUND, life)


def _stop(s: State, life: int, rules: Set[Rule]) -> State:
    if s.live != NONE:
        if s.live != life and Rule.STOP in rules:
            return s
        return _send(s._replace(live=NONE, over=s.live), ENDED, s.live)
    if life > s.over:
        return _send(s._replace(over=life, never=life), NEVER, life)
    return _send(s, NEVER, life) if life == s.never else s


def _end(s: State) -> State:
    """The leader records an end: what was evicted is pending again, unless its job goes."""
    if s.record not in (BINDING, RUNNING, LEAVING):
        return s
    if s.record == LEAVING and s.told and not s.deleted:
        return s._replace(record=PENDING, life=s.life + 1, told=False)
    return s._replace(record=FAILED, told=False)
