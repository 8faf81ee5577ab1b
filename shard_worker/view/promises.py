"""The nominations that a view knows of, by job: replaced with each accepted statement."""

from __future__ import annotations

from collections.abc import Iterable

from shared.ledger.entries.snapshot import Nomination
from shared.messages.messages import EvictRun, Run, promises_of


def renominate(
    held: dict[int, Nomination], jid: int, *, priority: int, expiry: float, runs: list[Run]
) -> None:
    """Replace all nominations of a job by those of its accepted statement (empty ``runs``: by
    none)."""
    earlier = held.pop(jid, None)
    if runs:
        since = earlier.since if earlier is not None else expiry
        held[jid] = Nomination(jid=jid, priority=priority, since=since, expiry=expiry, runs=runs)


def take_moves(
    held: dict[int, Nomination], evictions: Iterable[EvictRun], *, expiry: float
) -> None:
    """Take the promises of an accepted statement for the jobs whose tasks move."""
    for jid, moves in promises_of(evictions).items():
        runs = [run.promise for run in moves]
        renominate(held, jid, priority=moves[0].priority, expiry=expiry, runs=runs)
