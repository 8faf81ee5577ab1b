"""The keeper of a leader's lease in a seeded run: timers in the place of the service's thread."""

from __future__ import annotations

from coordinator.service.leadership.lease_keeper import LeaseKeeper
from laboratory.simulation.process import Process, RepeatedCall, Thread
from laboratory.simulation.virtual_time import Place
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR

LEASE_SECONDS = 0.4
"""Seconds of the leader's lease. All times of a seeded run are a fifth of the defaults."""


class KeeperTimers:
    """Implements :class:`coordinator.service.leadership.lease_keeper.RunsKeeper`."""

    def __init__(self, process: Process, ledger: MemoryLedger, keeper: LeaseKeeper) -> None:
        self._thread = Thread(process)
        self._ledger = ledger
        self._keeper = keeper

    def start(self) -> None:
        self._thread.round(self._keeper.pause(), self._act, background=True)

    def resume(self) -> None:
        self.start()

    def stop(self) -> None:
        """Its timers end with the process, as does a leader that lost the leadership."""

    def _act(self) -> None:
        keeper, sent = self._keeper, self._keeper.clock()

        def ask() -> bool:
            return at_once(self._ledger.renew(COORDINATOR, keeper.epoch, lease=keeper.seconds))

        def answer(renewed: bool) -> None:
            keeper.answered(renewed, sent=sent)
            if renewed:
                self.start()

        if keeper.may_renew():
            RepeatedCall(self._thread, Place.LEDGER, "renew", ask, answer).send()
        else:
            self.start()
