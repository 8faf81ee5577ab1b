"""Nominations and rank: a job's own are released for it, lower ones may be displaced.

A nomination of equal or higher priority held by another job is respected like an allocation. One of
lower priority can be displaced by naming its job in the statement; the ledger then drops all
nominations of that job.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_worker.placement.statement import ViewStatement
from shard_worker.view.view import View
from shared.ledger.entries.snapshot import Nomination
from shared.messages.messages import Turn
from shared.model.model import TaskClass


def holdings(view: View, nomination: Nomination) -> Iterator[tuple[TaskClass, int]]:
    """(class with devices, row) of every nominated task, but for classes that the view does not
    know."""
    for run in nomination.runs:
        cls = view.classes.get(run.cid)
        # A class that is not here yet holds room that the view cannot take off; the row then looks
        # fuller than it is for this turn, and the ledger knows.
        if cls is not None:
            taking = cls.with_devices(run.devices)
            for row in run.rows:
                if row < view.size:
                    yield taking, row


def withdraw(statement: ViewStatement, view: View, nomination: Nomination) -> None:
    """Take all nominations of a job off the view."""
    for cls, row in holdings(view, nomination):
        statement.withdraw(cls, row)


def give_back_own(statement: ViewStatement, view: View, turn: Turn) -> None:
    """Withdraw the job's own nominations: they hold room for this job, and its statement replaces
    them."""
    nomination = view.nominations.get(turn.jid)
    if nomination is not None:
        withdraw(statement, view, nomination)


def rivals(view: View, turn: Turn) -> list[Nomination]:
    """Nominations that this turn may displace, sorted by rank, lowest last (rank: higher priority,
    then earlier)."""
    lower = [
        n for n in view.nominations.values() if n.priority < turn.priority and n.jid != turn.jid
    ]
    return sorted(lower, key=lambda n: (-n.priority, n.since, n.jid))


def withdraw_all(statement: ViewStatement, view: View, lower: list[Nomination]) -> list[Nomination]:
    """Take all these nominations off the view; returns them."""
    for nomination in lower:
        withdraw(statement, view, nomination)
    return lower


def settle(statement: ViewStatement, view: View, withdrawn: list[Nomination]) -> list[int]:
    """Restore, best rank first, the nominations that still fit beside the placements; displace the
    rest."""
    # Whoever was in the way of nothing gets its promise back. Only rows of the new placements are
    # asked: elsewhere everything is as it was, even where it was promised beyond what there is.
    touched = {place.row for place in statement.placed()}
    displaced: list[int] = []
    for nomination in withdrawn:
        # All of a job's nominations or none: the ledger drops them as a whole.
        before = statement.checkpoint
        for cls, row in holdings(view, nomination):
            statement.restore(cls, row)
        rows = [(cls, row) for cls, row in holdings(view, nomination) if row in touched]
        if not all(view.ahead(cls, row) for cls, row in rows):
            statement.rollback(before)
            displaced.append(nomination.jid)
    return displaced
