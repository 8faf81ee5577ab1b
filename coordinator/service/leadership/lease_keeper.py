"""The thread that renews the leader's lease, whatever holds the event loop up.

It has a connection of its own, shares nothing with requests, and needs no more of the interpreter
than a fraction of a millisecond three times a lease. What it may do is decided by
:class:`shared.ledger.lease.LeaderLease`: above all it stops renewing where the loop has been silent
for too long. A renewal that is refused it only reports; the loop asks once more and judges.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from shared.ledger.errors import LedgerError, LedgerUnavailable
from shared.ledger.lease import LeaderLease
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.renewal import Renewal
from shared.messages.messages import Epoch

JOIN_SECONDS = 5.0
"""Deadline for its end: for an answer under way, whose wait is bounded by the lease."""

log = structlog.get_logger(__name__)


class LeaseKeeper:
    """``report`` is called in the thread, after a renewal or when there is something to judge."""

    def __init__(
        self,
        lease: LeaderLease,
        renewal: Renewal,
        *,
        epoch: Epoch,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refused = False
        """The ledger refused a renewal. Nothing is renewed until :meth:`resume`."""
        self.failed: LedgerError | None = None
        """Why the thread ended by itself."""
        self._lease = lease
        self._renewal = renewal
        self._epoch = epoch
        self._report = report
        self._clock = clock
        self._stop = threading.Event()
        self._resumed = threading.Event()
        self._unsure = False
        self._silent = False
        # A daemon: a process that dies must not wait for it.
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def resume(self) -> None:
        """Go on after the loop has renewed the lease itself."""
        self.refused = False
        self._resumed.set()

    def stop(self) -> None:
        """End the thread. Blocks until the request under way is answered, so that a late one does
        not renew a lease that is released next."""
        self._stop.set()
        self._resumed.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._lease.pause(self._clock())):
                # Looked at before each renewal: after the loop's last tick no renewal goes out
                # beyond five lengths of the lease, so a hanging leader can be replaced (decision
                # 0042).
                if not self._held_up():
                    self._renew()
                if self.refused:
                    self._resumed.wait()
                    self._resumed.clear()
        except LedgerError as error:
            self.failed = error
            self._report()
        finally:
            self._renewal.close()

    def _held_up(self) -> bool:
        """True where the loop is silent: a hanging leader must not keep its lease."""
        silent = self._lease.silent(self._clock())
        if silent != self._silent:
            self._silent = silent
            if silent:
                log.error("The event loop hangs: the lease is not renewed until it goes on")
            else:
                log.warning("The event loop goes on: the lease is renewed, if nobody else leads")
        return silent

    def _renew(self) -> None:
        sent = self._clock()
        try:
            renewed = self._renewal.renew(COORDINATOR, self._epoch, lease=self._lease.seconds)
        except LedgerUnavailable as error:
            now = self._clock()
            self._lease.unanswered(now)
            if not self._unsure and not self._lease.sure(now):
                self._unsure = True
                log.warning("Cannot renew the lease: standing still", why=str(error))
            return
        if renewed:
            # From before the request: the ledger counts from when it got it, so the lease is over
            # here first.
            self._lease.renewed(sent)
            if self._unsure:
                self._unsure = False
                log.info("No other coordinator leads: going on", epoch=str(self._epoch))
        else:
            # Reported, not judged: the loop asks once more by the client that knows whose ledger it
            # is (decision 0042).
            self.refused = True
        self._report()
