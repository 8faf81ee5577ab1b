"""Leadership: the coordinator's lease, kept; and what a leader does while it is not sure of it.

The lease is renewed when a third of it has passed, by a thread
(:mod:`coordinator.service.leadership.lease_keeper`): nothing that requests make the event loop do
delays it. Its end is counted on our own monotonic clock, from before the request that began it: it
is over here before it is over for the ledger. Then we stand still: no call goes to the cluster. If
nobody claimed the leadership meanwhile (the ledger was away, or we were paused), a renewal goes
through and we go on; else we are deposed, and the process ends. What we write to the ledger needs
no such care: there every batch is judged by its epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from coordinator.cluster.protocol import (
    BindAnswers,
    BindRequests,
    Foreign,
    Listed,
    Reports,
    RunsTasks,
    StopAnswers,
)
from coordinator.service.leadership.lease_keeper import LeaseKeeper, RunsKeeper
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.lease import LeaderLease
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch

log = structlog.get_logger(__name__)


class KeepsLease(Protocol):
    """The ledger's methods that a leadership uses."""

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool: ...

    async def release(self, writer: str, epoch: Epoch) -> None: ...


class Leadership:
    def __init__(
        self,
        ledger: KeepsLease,
        *,
        epoch: Epoch,
        seconds: float,
        asked: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``seconds``: the length of the lease. ``asked``: the time of the request for it, by
        ``clock``."""
        self.epoch = epoch
        self.lease = LeaderLease(seconds=seconds, asked=asked)
        self._ledger = ledger
        self._clock = clock
        self._again = asyncio.Event()
        self._again.set()

    @property
    def sure(self) -> bool:
        """Whether this coordinator is certain to lead."""
        return self.lease.sure(self._clock())

    def remaining(self) -> float:
        """Seconds for which it is certain; negative where it is not."""
        return self.lease.until - self._clock()

    async def surely(self) -> None:
        """Wait until this coordinator is certain to lead."""
        while not self.sure:
            self._again.clear()
            await self._again.wait()

    async def renew(self) -> bool:
        """Restart the lease; False where another claimed the leadership. Raises
        LedgerUnavailable."""
        # Before the request, not after the answer: an answer may be late, and the ledger's lease
        # began earlier.
        sent = self._clock()
        if not await self._ledger.renew(COORDINATOR, self.epoch, lease=self.lease.seconds):
            return False
        self.lease.renewed(sent)
        self._again.set()
        return True

    async def keep_forever(self, running: Callable[[LeaseKeeper], RunsKeeper]) -> None:
        """Run a keeper beside the loop, and signal it that the loop is alive. Raises Deposed where
        another leads, and LedgerError where the ledger is not ours any more."""
        loop = asyncio.get_running_loop()

        def report() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(self._again.set)

        keeper = LeaseKeeper(self.lease, epoch=self.epoch, report=report, clock=self._clock)
        runner = running(keeper)
        self.lease.tick(self._clock())
        runner.start()
        try:
            while True:
                self.lease.tick(self._clock())
                if keeper.failed is not None:
                    raise keeper.failed
                if keeper.refused:
                    await self._judge(keeper, runner)
                await asyncio.sleep(self.lease.tick_seconds)
        finally:
            # Before the lease is released: a late renewal would begin it anew, and a successor
            # would wait for it (decision 0042).
            runner.stop()

    async def _judge(self, keeper: LeaseKeeper, runner: RunsKeeper) -> None:
        """After a refusal to the keeper: ask once more by the client, which checks the ledger's
        identity."""
        with contextlib.suppress(LedgerUnavailable):  # then it is asked again with the next tick
            if not await self.renew():
                raise Deposed(f"epoch {self.epoch} does not lead any more")
            keeper.refused = False
            runner.resume()

    async def release(self) -> None:
        """Release the leadership, so that nobody waits for the end of the lease."""
        try:
            await self._ledger.release(COORDINATOR, self.epoch)
        except LedgerUnavailable as error:
            log.info("The lease runs out by itself: it cannot be given back", why=str(error))


class CertainToLead(Protocol):
    """Port that confirms that this coordinator leads."""

    async def surely(self) -> None:
        """Wait until this coordinator is certain to lead."""
        ...


class LedCluster:
    """A cluster that binds and deletes only while this coordinator is certain to lead; all
    other calls pass at any time."""

    def __init__(self, cluster: RunsTasks, leadership: CertainToLead) -> None:
        self._cluster = cluster
        self._leadership = leadership

    async def bind(self, requests: BindRequests) -> BindAnswers:
        await self._leadership.surely()
        return await self._cluster.bind(requests)

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
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
