"""A lease from its holder's side: renewed in time, and expired by the holder's own clock first.

Both leases go by one clock (:class:`LeaseClock`), a state machine without I/O. The leader's is
renewed by a thread in the service, by timers on virtual time in the simulation
(:class:`LeaderLease`). A worker renews its own before it writes (:class:`HeldLease`), and depends
on no loop of the coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.messages.messages import Epoch


class LeaseClock:
    """When to renew a lease, and when it has expired. Times are of one monotonic clock that
    includes suspension of the process.

    Expiry is counted from before the request that started the lease: it comes before the expiry
    that the server has.
    """

    def __init__(self, *, seconds: float, asked: float) -> None:
        """``asked``: the time before the request for the lease went out."""
        self.seconds = seconds
        self.until = asked + seconds
        """Local expiry, which is before the ledger's."""
        self.renew_at = asked + seconds / 3

    def sure(self, now: float) -> bool:
        """True while the lease is valid: nobody else can have it."""
        return now < self.until

    def renewed(self, asked: float) -> None:
        """Note a renewal that the ledger accepted, with the time it was sent."""
        # Never earlier: an answer to an old request may come after that to a newer one.
        self.until = max(self.until, asked + self.seconds)
        self.renew_at = asked + self.seconds / 3


class RenewsLeases(Protocol):
    """The part of :class:`shared.ledger.protocol.Ledger` that a holder uses."""

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool: ...


class HeldLease:
    """A worker's lease. ``seconds`` 0: no expiry, the ledger is never asked."""

    def __init__(
        self,
        ledger: RenewsLeases,
        *,
        writer: str,
        epoch: Epoch,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._clock = clock
        # Over from the start: the first `keep` asks, and so finds out whether the epoch is still
        # ours before anything is read or planned.
        self._lease = LeaseClock(seconds=seconds, asked=clock() - seconds)

    async def keep(self) -> None:
        """Renew the lease once a third of it has passed. Call it before every write.

        Errors: Deposed where another claimed the writer, LedgerUnavailable where the ledger does
        not answer and the lease has expired.
        """
        now, lease = self._clock(), self._lease
        if now < lease.renew_at or not lease.seconds:
            return
        try:
            renewed = await self._ledger.renew(self._writer, self._epoch, lease=lease.seconds)
        except LedgerUnavailable as error:
            # While it is valid, no answer is no reason to fail: the write that follows finds out by
            # itself.
            if not lease.sure(self._clock()):
                text = f"the lease of writer {self._writer} is over, and cannot be renewed: {error}"
                raise LedgerUnavailable(text) from error
            return
        if not renewed:
            raise Deposed(f"writer {self._writer} is not epoch {self._epoch}'s any more")
        lease.renewed(now)


AGAIN_SECONDS = 0.1
"""Pause before another renewal where the ledger did not answer."""

SILENT_LEASES = 5.0
"""A leader whose loop did not tick for this many lengths of the lease stops renewing it. With the
default of 2 s a stuck leader is replaced after 12 s at most. No callback of the loop takes more
than 20 ms of processor time, so that only a defect or a machine that gives the process no time is
silent for so long; there another coordinator is of more use, while a lease lost sooner would cost a
healthy one its books.
"""


class LeaderLease(LeaseClock):
    """The leader's lease.

    Two threads use it at once. The *loop* does the leader's work and reports that it is alive
    (:meth:`tick`). The *keeper* renews and depends on nothing that requests can block; but it
    renews only while the loop ticks: a leader whose loop hangs would otherwise lead for ever, and
    nobody could take over. A field is written by one of the two; where both write it, a lost
    write can only leave it smaller than it could be: the lease then expires sooner than it had
    to, never later.
    """

    def __init__(self, *, seconds: float, asked: float) -> None:
        super().__init__(seconds=seconds, asked=asked)
        self._ticked = asked

    @property
    def tick_seconds(self) -> float:
        """How often the loop should tick: missing one or two ticks does no harm."""
        return self.seconds / 4

    def tick(self, now: float) -> None:
        """Note that the loop is alive."""
        self._ticked = now

    def silent(self, now: float) -> bool:
        """True once the loop has not ticked for too long to go on leading."""
        return now - self._ticked >= SILENT_LEASES * self.seconds

    def pause(self, now: float) -> float:
        """Seconds until the keeper has to act again."""
        return AGAIN_SECONDS if self.silent(now) else max(0.0, self.renew_at - now)

    def unanswered(self, now: float) -> None:
        """Note that the ledger did not answer."""
        self.renew_at = now + AGAIN_SECONDS
