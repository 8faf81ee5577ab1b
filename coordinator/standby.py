"""Standby: follow the ledger while another leads, and take the seat when it is free.

Every coordinator begins here; where nobody leads, it has the seat at once::

    claim --- held ---> follow for a moment --- claim ...
      |
      +------ ours ---> (the other writers are claimed) ---> catch_up ---> finish
"""

from __future__ import annotations

import asyncio
import time

import structlog

from coordinator.core import Coordinator
from coordinator.following import Following
from coordinator.intake import Intake
from coordinator.leader import Leadership
from coordinator.recorder import insist
from shared.ledger.errors import LeaseHeld
from shared.ledger.moved import Moved
from shared.ledger.protocol import COORDINATOR, Ledger

LOOKS = 6
"""So often within a lease the log is followed and the seat asked for."""

ENTRIES = 1024
"""Entries of the log read at once."""

FEW = 200
"""So many records are taken up in passing; more of them in a thread, so that probes are answered
meanwhile, and the lease is kept."""

log = structlog.get_logger(__name__)


class Standby:
    """``intake`` and ``core`` know nothing yet; they know everything after :meth:`finish`."""

    def __init__(
        self, ledger: Ledger, intake: Intake, core: Coordinator, *, lease: float, holder: str
    ) -> None:
        """``lease``: seconds of leading without renewing. ``holder``: who we are, for people."""
        self.leader = ""
        """Who leads, "" where that is not known or we do."""
        self._ledger = ledger
        self._following = Following(intake, core)
        self._lease = lease
        self._holder = holder
        self._log_id: str | None = None

    @property
    def log_id(self) -> str:
        """Up to where the log was followed, "0" where it was not."""
        return self._log_id or "0"

    async def wait(self) -> Leadership:
        """Returns once the seat is ours."""
        while True:
            asked = time.monotonic()
            try:
                epoch = await insist(
                    lambda: self._ledger.claim(COORDINATOR, lease=self._lease, holder=self._holder),
                    what="claim the seat",
                )
            except LeaseHeld as held:
                await self._stand_by(held)
                continue
            self.leader = ""
            return Leadership(self._ledger, epoch=epoch, seconds=self._lease, asked=asked)

    async def _stand_by(self, held: LeaseHeld) -> None:
        leader = held.holder or f"epoch {held.epoch}"
        if leader != self.leader:
            log.info("Standing by", leader=leader, seconds_left=round(held.seconds_left, 3))
            self.leader = leader
        looked = time.monotonic()
        while await self._follow() == ENTRIES:
            pass
        await self._tell(self._log_id)
        pause = min(self._lease / LOOKS, held.seconds_left) - (time.monotonic() - looked)
        await asyncio.sleep(max(pause, 0.001))

    async def catch_up(self) -> None:
        """Know all that the ledger holds. Nobody else may write to it any more."""
        while await self._follow():
            pass

    async def finish(self) -> None:
        """The books are the leader's from now on."""
        await self._tell(None)
        nominations = await insist(self._ledger.read_nominations, what="read nominations")
        versions = await insist(self._ledger.read_domains, what="read domains")
        self._following.finish(nominations, versions)

    # --- following ----------------------------------------------------------------------------

    async def _follow(self) -> int:
        """Take up a portion of what moved, at first everything. Returns how many entries of the log
        it was, at most :data:`ENTRIES`.

        Raises LedgerTrimmed where we were away for minutes, and the log is gone: the process has to
        begin anew."""
        if self._log_id is None:
            await self._tell(await insist(self._ledger.log_tail, what="log tail"))
            snapshot = await insist(self._ledger.snapshot, what="snapshot")
            await asyncio.to_thread(self._following.take, snapshot)
            self._log_id = snapshot.log_id
            return ENTRIES
        after = self._log_id
        entries = await insist(
            lambda: self._ledger.read_log(after, count=ENTRIES), what="read the log"
        )
        if not entries:
            return 0
        moved = Moved()
        moved.note(entries)
        unread = await self._take_up(moved)
        if unread:
            await self._take_up(Moved(jobs=unread))
        self._log_id = entries[-1].id
        return len(entries)

    async def _tell(self, log_id: str | None) -> None:
        """So that the log is not cut before we have read it."""
        await insist(lambda: self._ledger.tell_reader(self._holder, log_id), what="tell reader")

    async def _take_up(self, moved: Moved) -> set[int]:
        """Returns jobs that have to be read as a whole."""
        part = await insist(lambda: self._ledger.read_moved(moved), what="read what moved")
        if len(moved) <= FEW:
            return self._following.follow(moved, part)
        return await asyncio.to_thread(self._following.follow, moved, part)
