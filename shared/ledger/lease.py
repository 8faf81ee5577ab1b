"""A lease as its holder sees it: renewed in time, and over by the holder's own clock first.

The leader's is a state machine without clock and I/O (:class:`LeaderLease`): a thread drives it in
the service, timers on virtual time in the simulation. A worker renews its own lease before it
writes (:class:`HeldLease`), and depends on no loop of the coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.protocol import Ledger
from shared.messages.messages import Epoch


class HeldLease:
    """A worker's lease. ``seconds`` 0: without end, the ledger is never asked.

    The end is counted from before the request that began it, on a clock that never jumps and that
    runs while this process is suspended: it comes before the end that the server knows.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        writer: str,
        epoch: Epoch,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._seconds = seconds
        self._clock = clock
        self._renewed = clock() - seconds

    async def keep(self) -> None:
        """Renew the lease once a third of it has passed. Call it before every write.

        Errors: Deposed where somebody else claimed the writer, LedgerUnavailable where the ledger
        does not answer and the lease is over.
        """
        now = self._clock()
        if now - self._renewed < self._seconds / 3 or not self._seconds:
            return
        try:
            renewed = await self._ledger.renew(self._writer, self._epoch, lease=self._seconds)
        except LedgerUnavailable as error:
            if self._clock() - self._renewed >= self._seconds:
                text = f"the lease of writer {self._writer} is over, and cannot be renewed: {error}"
                raise LedgerUnavailable(text) from error
            return
        if not renewed:
            raise Deposed(f"writer {self._writer} is not epoch {self._epoch}'s any more")
        self._renewed = now


AGAIN_SECONDS = 0.1
"""Pause before another renewal where the ledger did not answer."""

SILENT_LEASES = 5.0
"""A leader's loop that did not tick for so many lengths of the lease does not lead: its lease is
not renewed any more. With the default of 2 s a stuck leader is followed by another after 12 s at
most. No callback of the loop takes more than 20 ms of processor time, so that only a defect or a
machine that gives the process no time is silent for so long; and there another coordinator is of
more use than this one, while a lease lost sooner would cost a healthy one its books.
"""


class LeaderLease:
    """When to renew the leader's lease, and when it is over. Times are of one clock that never
    jumps and runs while the process is suspended.

    Two threads use it at once. The *loop* does the leader's work and reports that it is alive
    (:meth:`tick`). The *keeper* renews and depends on nothing that requests can block; but it
    renews only while the loop ticks: a leader whose loop hangs would otherwise lead for ever, and
    nobody could take over. Each field is written by one of them, or may only become smaller than it
    could be where both write it: the lease is then over sooner than it had to be, never later.
    """

    def __init__(self, *, seconds: float, asked: float) -> None:
        """``asked``: the time before the request for the lease went out."""
        self.seconds = seconds
        self.until = asked + seconds
        """It is over then here, which is before it is over for the ledger."""
        self._next = asked + seconds / 3
        self._ticked = asked

    @property
    def tick_seconds(self) -> float:
        """How often the loop should tick: missing one or two ticks does no harm."""
        return self.seconds / 4

    def tick(self, now: float) -> None:
        """The loop is at work."""
        self._ticked = now

    def sure(self, now: float) -> bool:
        """True while nobody else can lead."""
        return now < self.until

    def silent(self, now: float) -> bool:
        """True once the loop has not ticked for too long to go on leading."""
        return now - self._ticked >= SILENT_LEASES * self.seconds

    def pause(self, now: float) -> float:
        """Seconds until the keeper has to look again."""
        return AGAIN_SECONDS if self.silent(now) else max(0.0, self._next - now)

    def renewed(self, asked: float) -> None:
        """The ledger accepted a renewal that was sent at this time."""
        self.until = max(self.until, asked + self.seconds)
        self._next = asked + self.seconds / 3

    def unanswered(self, now: float) -> None:
        """The ledger did not answer."""
        self._next = now + AGAIN_SECONDS
