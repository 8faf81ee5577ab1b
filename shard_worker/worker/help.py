"""Help with the search of another worker: it is done on this one's view and taken off again, and
what came out is kept until a turn asks for it."""

from __future__ import annotations

from shard_worker.placement.nominations import rivals
from shard_worker.placement.statement import Operation
from shard_worker.turns.session_turn import SessionPlaced, SessionTurns
from shard_worker.view.view import View
from shared.codec.packed import Codec, Count, Packed
from shared.messages.messages import Epoch, Turn
from shared.messages.search_part import SearchPart


class HelpRequest(Packed, frozen=True):
    """Try some generators for a turn that another worker has."""

    number: Count
    """Rises with each request of one coordinator."""
    epoch: Epoch
    """Epoch of the helping worker."""
    turn: Turn


class HelpAnswer(Packed, frozen=True):
    part: SearchPart | None
    """None where it did not search to the end."""


HELP = Codec(b"help", HelpRequest)
HELP_ANSWER = Codec(b"helped", HelpAnswer)


class HelpStopped(Exception):
    """Nobody waits for the search any more."""


def is_one_search(turn: Turn, view: View) -> bool:
    """Whether the turn searches once. Where nominations of lower rank may be displaced, it searches
    a second time as if those were gone, after all generators."""
    return not rivals(view, turn)


class PreparedSearch:
    """The last search for another worker, and its statement if it has one."""

    def __init__(self, view: View, turns: SessionTurns) -> None:
        self._view = view
        self._turns = turns
        self._number = 0
        self._placed: SessionPlaced | None = None
        self._operations: list[Operation] = []

    def search(self, request: HelpRequest, *, now: float) -> SearchPart | None:
        """Do the part of the turn as its own worker would: who searches makes no difference. The
        view is as before. What was prepared before is forgotten."""
        # No copy of a request, nor one that was overtaken: its answer would tell of another
        # position than what is committed.
        if request.number <= self._number:
            return None
        self._number, self._placed = request.number, None
        if not is_one_search(request.turn, self._view):
            return None
        with self._view.undone_if_raised():
            placed = self._turns.place(request.turn, now=now)
        if placed.part is not None and placed.part.solved and not placed.empty:
            self._placed, self._operations = placed, list(placed.statement.operations)
            placed.statement.rollback()
        return placed.part

    def take(self, number: int) -> SessionPlaced | None:
        """The statement of that request, in effect again; None where there is none any more. It
        names the versions of rows that it was planned on: what moved since, the ledger judges, as
        after a search that took as long."""
        placed, self._placed = self._placed, None
        if placed is None or number != self._number:
            return None
        placed.statement.redo(self._operations)
        return placed
