"""Nominations and rank: a job's own make room for it, lower ones may be displaced.

A nomination of equal or higher priority held by another job is respected like an allocation. One
of lower priority can be taken away by naming its job in the statement; the ledger then drops all
nominations of that job.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_worker.statement import Statement
from shard_worker.view import View
from shared.ledger.protocol import Nomination
from shared.messages import Turn
from shared.model import Requests


def holdings(view: View, nomination: Nomination) -> Iterator[tuple[Requests, int]]:
    """(request, row) of every nominated task; classes that the view does not know are left out."""
    for run in nomination.runs:
        cls = view.classes.get(run.cid)
        if cls is not None:
            for row in run.rows:
                if row < view.size:
                    yield cls.requests, row


def withdraw(statement: Statement, view: View, nomination: Nomination) -> None:
    """Take all nominations of a job off the view."""
    for requests, row in holdings(view, nomination):
        statement.withdraw(requests, row)


def give_back_own(statement: Statement, view: View, turn: Turn) -> None:
    """What a job holds by nomination is room for the job itself: its statement replaces them."""
    mine = view.nominations.get(turn.jid)
    if mine is not None:
        withdraw(statement, view, mine)


def rivals(view: View, turn: Turn) -> list[Nomination]:
    """Nominations that this turn may displace, lowest rank last: higher priority, then earlier."""
    found = [
        n for n in view.nominations.values() if n.priority < turn.priority and n.jid != turn.jid
    ]
    return sorted(found, key=lambda n: (-n.priority, n.since, n.jid))


def withdraw_all(statement: Statement, view: View, lower: list[Nomination]) -> list[Nomination]:
    """Take all these nominations off the view; returns them."""
    for nomination in lower:
        withdraw(statement, view, nomination)
    return lower


def settle(statement: Statement, view: View, withdrawn: list[Nomination]) -> list[int]:
    """Put back, best rank first, what still fits beside the placements; the rest is displaced."""
    touched = {place.row for place in statement.placed()}
    displaced: list[int] = []
    for nomination in withdrawn:
        before = statement.checkpoint
        for requests, row in holdings(view, nomination):
            statement.restore(requests, row)
        rows = [(r, row) for r, row in holdings(view, nomination) if row in touched]
        if not all(view.ahead(requests, row) for requests, row in rows):
            statement.rollback(before)
            displaced.append(nomination.jid)
    return displaced
