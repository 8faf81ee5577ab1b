"""Each call of the coordinator is served once, also where it arrives twice."""

from __future__ import annotations

from collections import deque

WITHOUT_TURNS = 0
"""The number of a call that only makes the worker read the log. It may come any number of times."""

REMEMBERED = 256
"""Numbers that are remembered: many times what is in flight, so that a copy that was under way for
long is known too."""


class ServedCalls:
    """The numbers of the calls that a worker has served under its present epoch.

    A duplicate of a call could place a job that found no room the first time. The coordinator has
    processed the first answer and does not learn of that placement, so the next turn's context
    would show the job as unplaced under a version that the ledger accepts (seed 60031: a pod was
    placed beside one whose anti-affinity names it).
    """

    def __init__(self) -> None:
        self._numbers: deque[int] = deque(maxlen=REMEMBERED)

    def is_new(self, number: int) -> bool:
        """Whether this call is to be served; notes it."""
        # By number and not "higher than the last": two calls that are in flight at once may arrive
        # in either order.
        if number == WITHOUT_TURNS:
            return True
        if number in self._numbers:
            return False
        self._numbers.append(number)
        return True
