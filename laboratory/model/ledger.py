"""The model's ledger: the scripts' checks in their order, one function per call.

A commit is judged as by ``gate`` of prelude.lua and ``judge`` of commit.lua. ``broken`` tells which
promise an acceptance breaks, from the state alone and without these checks.
"""

from __future__ import annotations

from collections.abc import Set

from laboratory.model.checks import ModelCheck, Promise
from laboratory.model.state import (
    ACCEPTED,
    DROPPED,
    FENCED,
    IN_USE,
    MEMBER_DELETED,
    MOVING,
    REFUSED,
    SINGLE,
    UNANSWERED,
    Message,
    ModelCoordinator,
    State,
    with_item,
)

Checks = Set[ModelCheck]


def fenced(s: State, checks: Checks, *, run: int, epoch_holds: bool, lease_lasts: bool) -> bool:
    """Whether the gate refuses a batch: by the run, then by the epoch and its lease."""
    if ModelCheck.RUN in checks and not (s.blessed == s.run == run):
        return True
    if ModelCheck.EPOCH in checks and not epoch_holds:
        return True
    return ModelCheck.LEASE in checks and not lease_lasts


def judge(s: State, m: Message, checks: Checks) -> int:
    """The commit script's answer to a request."""
    holds, lasts = s.shards[m.shard] == m.epoch, s.lasts[m.shard]
    if fenced(s, checks, run=m.run, epoch_holds=holds, lease_lasts=lasts):
        return FENCED
    if ModelCheck.IDEMPOTENCY in checks and m.answer != UNANSWERED:
        return m.answer
    if ModelCheck.READ in checks and _read_conflict(s, m):
        return REFUSED
    if ModelCheck.TASK in checks and _taken(s, m):
        return REFUSED
    if ModelCheck.FIT in checks and _crowded(s.places, m):
        return REFUSED
    return ACCEPTED


def _read_conflict(s: State, m: Message) -> bool:
    """Whether the job or node changed after the worker read it: a worker's view may be arbitrarily
    old."""
    dropped = m.job == SINGLE and s.change == DROPPED
    return dropped or (s.cordoned and MOVING in m.place)


def _taken(s: State, m: Message) -> bool:
    deleted = m.job == SINGLE and s.change == MEMBER_DELETED
    return deleted or s.places[m.job] != ()


def _crowded(places: tuple[tuple[int, ...], tuple[int, ...]], m: Message) -> bool:
    return any(node in places[1 - m.job] for node in m.place)


def broken(s: State, m: Message) -> tuple[Promise, ...]:
    """The promises that accepting this request (for the first time) breaks."""
    void = s.shards[m.shard] != m.epoch or not s.lasts[m.shard] or s.blessed != s.run
    breaks_of = {
        Promise.ONE_PLACE: s.places[m.job] != (),
        Promise.ROOM: _crowded(s.places, m),
        Promise.FENCE: void,
        Promise.READ_SET: _read_conflict(s, m),
        Promise.NOTHING_LOST: m.job == SINGLE and s.change == MEMBER_DELETED,
        Promise.OWNERSHIP: _others_node(s, m),
    }
    return tuple(promise for promise, breaks in breaks_of.items() if breaks)


def _others_node(s: State, m: Message) -> bool:
    if MOVING not in m.place:
        return False
    return m.shard != (1 if s.phase == IN_USE else 0)


def apply(s: State, m: Message) -> State:
    return s._replace(places=with_item(s.places, m.job, m.place))


def may_write(s: State, c: ModelCoordinator, checks: Checks) -> bool:
    """Whether an intake batch of this coordinator passes the gate."""
    holds = s.leadership == c.leadership
    return not fenced(
        s, checks, run=c.run, epoch_holds=holds, lease_lasts=not holds or s.lease_lasts
    )


def leads(s: State, c: ModelCoordinator, checks: Checks) -> bool:
    """Whether the coordinator may claim shards and accept runs."""
    return ModelCheck.LEADER not in checks or s.leadership == c.leadership


def behind(s: State, c: ModelCoordinator, checks: Checks) -> bool:
    """Whether the log lacks the newest entry that this coordinator knows, from the note beside the
    data or its own reading.

    A coordinator that has read this run has read up to its own claims. If claims are logged, it
    asks for them, and they are there.
    """
    if not s.rolled:
        return False
    has_read = c.run == s.run
    return not (s.counts and has_read) if ModelCheck.UNTOLD in checks else not has_read


def accepted_too_early(s: State) -> tuple[Promise, ...]:
    """The promises that accepting this run now breaks."""
    return (Promise.OLD_COPY,) if s.rolled and not s.counts else ()
