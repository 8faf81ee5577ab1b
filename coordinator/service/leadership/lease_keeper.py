"""Renewal of the leader's lease, even while the event loop is held up: its rules, and the thread.

The thread has a connection of its own, shares nothing with requests, and needs no more of the
interpreter than a fraction of a millisecond three times a lease. When it may renew is decided by
:class:`shared.ledger.lease.LeaderLease`: above all not where the loop has been silent for too long.
A renewal that is refused it only reports; the loop asks once more and judges. A seeded run has
timers in the place of the thread (:mod:`laboratory.simulation.leader`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from shared.ledger.errors import LedgerError, LedgerUnavailable
from shared.ledger.lease import LeaderLease
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.renewal import Renewal
from shared.messages.messages import Epoch

JOIN_SECONDS = 5.0
"""Deadline for its end: for an answer under way, whose wait is bounded by the lease."""

log = structlog.get_logger(__name__)


class RunsKeeper(Protocol):
    """Runs the rules of a keeper beside the event loop."""

    def start(self) -> None: ...

    def resume(self) -> None:
        """Go on after the loop has renewed the lease itself."""
        ...

    def stop(self) -> None:
        """Returns when no renewal is under way any more."""
        ...


class LeaseKeeper:
    """The rules, without a thread. ``report`` is called after a renewal, or when there is something
    to judge."""

    def __init__(
        self,
        lease: LeaderLease,
        *,
        epoch: Epoch,
        report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = epoch
        self.seconds = lease.seconds
        self.clock = clock
        self.refused = False
        """The ledger refused a renewal. Nothing is renewed until the loop has judged."""
        self.failed: LedgerError | None = None
        """Why no renewal is possible any more."""
        self._lease = lease
        self._report = report
        self._unsure = False
        self._silent = False

    def pause(self) -> float:
        """Seconds until there is something to do again."""
        return self._lease.pause(self.clock())

    def may_renew(self) -> bool:
        """False where the loop is silent: a hanging leader must not keep its lease."""
        # Asked before each renewal: after the loop's last tick no renewal goes out beyond five
        # lengths of the lease, so a hanging leader can be replaced (decision 0042).
        silent = self._lease.silent(self.clock())
        if silent != self._silent:
            self._silent = silent
            if silent:
                log.error("The event loop hangs: the lease is not renewed until it goes on")
            else:
                log.warning("The event loop goes on: the lease is renewed, if nobody else leads")
        return not silent

    def answered(self, renewed: bool, *, sent: float) -> None:
        """Take the ledger's answer to a renewal that was sent then."""
        if renewed:
            # From before the request: the ledger counts from when it got it, so the lease is over
            # here first.
            self._lease.renewed(sent)
            if self._unsure:
                self._unsure = False
                log.info("No other coordinator leads: going on", epoch=str(self.epoch))
        else:
            # Reported, not judged: the loop asks once more by the client that knows whose ledger it
            # is (decision 0042).
            self.refused = True
        self._report()

    def unanswered(self, error: LedgerUnavailable) -> None:
        """The ledger did not answer a renewal."""
        now = self.clock()
        self._lease.unanswered(now)
        if not self._unsure and not self._lease.sure(now):
            self._unsure = True
            log.warning("Cannot renew the lease: standing still", why=str(error))

    def end(self, error: LedgerError) -> None:
        """Nothing can be renewed any more."""
        self.failed = error
        self._report()


class KeeperThread:
    """A keeper's thread."""

    def __init__(self, renewal: Renewal, keeper: LeaseKeeper) -> None:
        self._renewal = renewal
        self._keeper = keeper
        self._stop = threading.Event()
        self._resumed = threading.Event()
        # A daemon: a process that dies must not wait for it.
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def resume(self) -> None:
        self._resumed.set()

    def stop(self) -> None:
        """End the thread. Blocks until the request under way is answered, so that a late one does
        not renew a lease that is released next."""
        self._stop.set()
        self._resumed.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        keeper = self._keeper
        try:
            while not self._stop.wait(keeper.pause()):
                if keeper.may_renew():
                    self._renew()
                if keeper.refused:
                    self._resumed.wait()
                    self._resumed.clear()
        except LedgerError as error:
            keeper.end(error)
        finally:
            self._renewal.close()

    def _renew(self) -> None:
        keeper, sent = self._keeper, self._keeper.clock()
        try:
            renewed = self._renewal.renew(COORDINATOR, keeper.epoch, lease=keeper.seconds)
        except LedgerUnavailable as error:
            keeper.unanswered(error)
        else:
            keeper.answered(renewed, sent=sent)
