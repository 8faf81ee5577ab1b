"""A standby coordinator of a seeded run: it follows the ledger until the leadership is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.intake.intake import Intake
from coordinator.service.leadership.follower import Following
from coordinator.verification.simulation.process import Lane, Process, Thread
from coordinator.verification.simulation.virtual_time import Event, Place
from shared.ledger.entries.changes import Moved, part_of
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.errors import LeaseHeld
from shared.ledger.lease import LeaderLease
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR, Leader
from shared.messages.messages import Epoch

LEASE_SECONDS = 0.4
"""Seconds of the leader's lease. All times of a seeded run are a fifth of the defaults."""

LOOK_SECONDS = LEASE_SECONDS / 4
"""Interval at which a standby checks for a free leadership and for changes."""

EVERYTHING = 1_000_000


class Candidate:
    """``intake`` and ``core`` start empty; after :meth:`finish` they have the ledger's state."""

    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        intake: Intake,
        core: Coordinator,
        holder: str,
        elected: Callable[[Epoch], None],
    ) -> None:
        self._process = process
        self._ledger = ledger
        self._holder = holder
        self._elected = elected
        self._following = Following(intake, core)
        self._log_id = "0"
        self._asking = Lane(process, Place.LEDGER)

    @property
    def log_id(self) -> str:
        """Position up to which it has followed the log."""
        return self._log_id

    def begin(self) -> None:
        def took(snapshot: Snapshot) -> None:
            self._following.take(snapshot)
            self._log_id = snapshot.log_id
            self._look()

        self._asking.push("snapshot", lambda: at_once(self._ledger.snapshot()), took)

    # --- standing by ----------------------------------------------------------------------------

    def _look(self) -> None:
        self._asking.push("leader", lambda: at_once(self._ledger.leader()), self._heard)

    def _heard(self, leader: Leader | None) -> None:
        if leader is None or leader.seconds_left <= 0:
            self._asking.push("claim", self._claim, self._claimed)
        else:
            self.follow(self._wait)

    def _wait(self) -> None:
        self._process.round(LOOK_SECONDS, self._look, background=True)

    def _claim(self) -> Epoch | None:
        """None if another one was faster, or the answer to an earlier claim was lost."""
        try:
            return at_once(
                self._ledger.claim(COORDINATOR, lease=LEASE_SECONDS, holder=self._holder)
            )
        except LeaseHeld:
            return None

    def _claimed(self, epoch: Epoch | None) -> None:
        if epoch is None:
            self._wait()
        else:
            self._elected(epoch)

    # --- following --------------------------------------------------------------------------------

    def follow(self, done: Event) -> None:
        """Read what changed until now. Records may be newer than the log that was read."""
        ledger, log_id = self._ledger, self._log_id

        def read(entries: list[LogEntry]) -> None:
            if not entries:
                done()
                return
            self._log_id = entries[-1].id
            moved = Moved()
            moved.note(entries)
            self._take(moved, done)

        self._asking.push(
            "read log", lambda: at_once(ledger.read_log(log_id, count=EVERYTHING)), read
        )

    def _take(self, moved: Moved, done: Event) -> None:
        def taken(part: Snapshot) -> None:
            unknown = self._following.follow(moved, part)
            if unknown:
                self._take(Moved(jobs=unknown), done)
            else:
                done()

        self._asking.push(
            "read moved", lambda: part_of(at_once(self._ledger.snapshot()), moved), taken
        )

    def finish(self, done: Event) -> None:
        """Nobody else may write any more: read the rest."""

        ledger = self._ledger

        def held(found: Any) -> None:
            self._following.finish(*found)
            done()

        def read() -> Any:
            return at_once(ledger.read_nominations()), at_once(ledger.read_domains())

        def followed() -> None:
            self._asking.push("read nominations", read, held)

        self.follow(followed)


class Tenure:
    """The leader's lease, renewed by a thread as long as the event loop ticks. It expires by the
    leader's own clock before the server's. A leader whose renewal is refused, or whose lease has
    expired, steps down."""

    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        epoch: Epoch,
        since: float,
        ended: Event,
    ) -> None:
        """``since``: when the lease was requested; ``ended``: it no longer leads."""
        self._process = process
        self._thread = Thread(process)
        self._ledger = ledger
        self._epoch = epoch
        self._ended = ended
        self._lease = LeaderLease(seconds=LEASE_SECONDS, asked=since)
        self._asking = Lane(self._thread, Place.LEDGER)
        self._renewed = asyncio.Event()
        self._tick()
        self._keep()
        self._watch()

    async def surely(self) -> None:
        """Wait until this coordinator is certain to lead; one that no longer is steps down."""
        while not self._lease.sure(self._process.now):
            self._renewed.clear()
            await self._renewed.wait()

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
                self._renewed.set()
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
