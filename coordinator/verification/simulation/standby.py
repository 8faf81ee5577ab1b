"""The lease of a leader in a seeded run: what a thread of the service does is done by timers."""

from __future__ import annotations

from coordinator.service.leadership.lease import Leadership
from coordinator.verification.simulation.process import Lane, Process, Thread
from coordinator.verification.simulation.virtual_time import Event, Place
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR

LEASE_SECONDS = 0.4
"""Seconds of the leader's lease. All times of a seeded run are a fifth of the defaults."""


class Tenure:
    """The leader's lease, renewed by a thread as long as the event loop ticks. It expires by the
    leader's own clock before the server's. A leader whose renewal is refused, or whose lease has
    expired, steps down."""

    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        leadership: Leadership,
        ended: Event,
    ) -> None:
        """``ended``: it no longer leads."""
        self._process = process
        self._thread = Thread(process)
        self._ledger = ledger
        self._epoch = leadership.epoch
        self._ended = ended
        self._lease = leadership.lease
        self._asking = Lane(self._thread, Place.LEDGER)
        self._tick()
        self._keep()
        self._watch()

    def _tick(self) -> None:
        self._lease.tick(self._process.now)
        self._process.round(self._lease.tick_seconds, self._tick, background=True)

    def _keep(self) -> None:
        """The renewing thread."""
        # As in the service: from before the request, so that the lease is over here first.
        asked = self._process.now
        if self._lease.silent(asked):
            self._later()
            return

        def ask() -> bool:
            return at_once(self._ledger.renew(COORDINATOR, self._epoch, lease=LEASE_SECONDS))

        def answer(renewed: bool) -> None:
            if renewed:
                self._lease.renewed(asked)
                self._later()
            else:
                self._process.after(0.0, self._ended)  # the loop hears of it when it runs

        self._asking.push("renew", ask, answer)

    def _later(self) -> None:
        pause = self._lease.pause(self._process.now)
        self._thread.round(pause, self._keep, background=True)

    def _watch(self) -> None:
        """Check the lease at its expected end, after a pause of any length."""
        if not self._lease.sure(self._process.now):
            self._ended()
        else:
            left = self._lease.until - self._process.now
            self._process.round(left, self._watch, background=True)
