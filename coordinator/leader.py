"""Leadership: the coordinator's lease, kept; and what a leader does while it is not sure of it.

The lease is renewed when a third of it has passed. Its end is counted on our own monotonic clock,
from before the request that began it: it is over here before it is over for the ledger. Then we
stand still: no call goes to the cluster. If nobody claimed the seat meanwhile (the ledger was away,
or we were paused), a renewal goes through and we go on; else we are deposed, and the process ends.
What we write to the ledger needs no such care: there every batch is judged by its epoch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from coordinator.cluster.protocol import (
    BindAnswers,
    BindRequests,
    ClusterDriver,
    Foreign,
    Listed,
    Reports,
)
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.messages import Epoch

AGAIN_SECONDS = 0.1
"""Pause before another renewal where the ledger did not answer."""

log = structlog.get_logger(__name__)


class Leadership:
    def __init__(
        self,
        ledger: Ledger,
        *,
        epoch: Epoch,
        seconds: float,
        asked: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``seconds``: the length of the lease. ``asked``: when it was asked for, by ``clock``."""
        self.epoch = epoch
        self._ledger = ledger
        self._seconds = seconds
        self._clock = clock
        self._until = asked + seconds
        self._again = asyncio.Event()
        self._again.set()

    @property
    def sure(self) -> bool:
        """Whether nobody else can lead now."""
        return self._clock() < self._until

    async def surely(self) -> None:
        """Wait until nobody else can lead."""
        while not self.sure:
            self._again.clear()
            await self._again.wait()

    async def renew(self) -> bool:
        """Begin the lease anew; False where another claimed the seat. Raises LedgerUnavailable."""
        asked = self._clock()
        if not await self._ledger.renew(COORDINATOR, self.epoch, lease=self._seconds):
            return False
        self._until = asked + self._seconds
        self._again.set()
        return True

    async def keep_forever(self) -> None:
        """Raises Deposed where another leads."""
        standing_still = False
        while True:
            try:
                if not await self.renew():
                    raise Deposed(f"epoch {self.epoch} does not lead any more")
            except LedgerUnavailable as error:
                if not standing_still and not self.sure:
                    standing_still = True
                    log.warning("Cannot renew the lease: standing still", why=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if standing_still:
                standing_still = False
                log.info("Nobody took the seat: going on", epoch=str(self.epoch))
            await asyncio.sleep(self._seconds / 3)

    async def release(self) -> None:
        """Give the seat back, so that nobody waits for the end of the lease."""
        try:
            await self._ledger.release(COORDINATOR, self.epoch)
        except LedgerUnavailable as error:
            log.info("The lease runs out by itself: it cannot be given back", why=str(error))


class LedCluster:
    """A cluster that is only told to do something by who is sure to lead."""

    def __init__(self, cluster: ClusterDriver, leadership: Leadership) -> None:
        self._cluster = cluster
        self._leadership = leadership

    async def bind(self, requests: BindRequests) -> BindAnswers:
        await self._leadership.surely()
        return await self._cluster.bind(requests)

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> list[str]:
        await self._leadership.surely()
        return await self._cluster.delete(tasks, uids)

    async def listing(self, token: str) -> Listed:
        return await self._cluster.listing(token)

    async def look(self, tasks: list[str]) -> Listed:
        return await self._cluster.look(tasks)

    async def foreign(self) -> Foreign:
        return await self._cluster.foreign()

    async def reports(self, *, after: int, wait: float) -> Reports:
        return await self._cluster.reports(after=after, wait=wait)

    async def history_position(self) -> str:
        return await self._cluster.history_position()

    async def close(self) -> None:
        await self._cluster.close()
