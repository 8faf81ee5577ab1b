"""The invariants of every state, however it was reached."""

from __future__ import annotations

from laboratory.model.checks import Promise
from laboratory.model.state import (
    JOBS,
    LEADING,
    PENDING,
    PLACED,
    ModelCoordinator,
    State,
)


def broken(s: State) -> tuple[Promise, ...]:
    """The promises that this state breaks."""
    if s.blessed != s.run:
        return ()  # the ledger is not in service: what it lacks is put right before it is
    if any(s.cluster[job] not in ((), s.places[job]) for job in JOBS):
        return (Promise.NOTHING_LOST,)
    if set(s.places[0]) & set(s.places[1]):
        return (Promise.ROOM,)
    for c in s.coordinators:
        if (
            c.role == LEADING
            and c.leadership == s.leadership
            and c.run == s.run
            and not _right(s, c)
        ):
            return (Promise.NOTHING_LOST,)
    return ()


def _right(s: State, c: ModelCoordinator) -> bool:
    """Whether the leader's books agree with the ledger; jobs with open turns may differ."""
    for believed, place in zip(c.jobs, s.places, strict=True):
        if believed == (PENDING if place else PLACED):
            return False
    return True
