"""All processes with their keeper, and a client that asks whoever leads: where faults take place.

::

    async with Stage(settings, timeline).open() as stage:
        await stage.until(stage.shared_out, 60.0, "the nodes are not shared out")
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import orjson

from coordinator.cluster.protocol import ClusterTimeout
from coordinator.cluster.simulated.client import SocketCluster
from coordinator.supervisor.restarts import (
    DiskFull,
    Keeper,
    ProcessDied,
    ProcessRecovered,
    ProcessReport,
)
from coordinator.supervisor.supervisor import CLUSTER, Supervisor
from laboratory.chaos.report import RunFailed
from laboratory.chaos.response_times import ResponseTimes
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.workloads.bulk_client import BulkClient, BulkError, describe
from laboratory.workloads.generators import Item, lists
from shared.ledger.errors import LedgerError
from shared.ledger.keys import log_position
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import Settings

ATTEMPT_SECONDS = 4.0
"""Timeout of one attempt: a paused coordinator accepts connections without answering, so the next
one is tried."""
PATIENCE_SECONDS = 60.0
"""The run fails after this time without an answer from any coordinator."""
READY_SECONDS = 60.0
FOLLOW_SECONDS = 60.0
"""Maximum time for the history to contain the whole log at the end."""
POLL = 0.1
LONGEST_POLL = 2.0

Status = dict[str, Any]


@dataclass(slots=True)
class Stage:
    settings: Settings
    timeline: ChaosTimeline
    attempt: float = ATTEMPT_SECONDS
    """Seconds for one attempt of a request."""
    status: Status = field(default_factory=dict)
    """The latest status from the leader."""
    status_at: float = 0.0
    """When it was received, on the monotonic clock."""
    token: str = ""
    """An admin's token; "" without authentication."""
    returns: list[ProcessRecovered] = field(default_factory=list)
    """Processes that were restarted."""
    deaths: list[tuple[float, str]] = field(default_factory=list)
    """(time seen dead, since 1970; role)"""
    answers: ResponseTimes = field(default_factory=ResponseTimes)
    """Response times of :meth:`submit`."""
    parts: Supervisor = field(init=False)
    api: BulkClient = field(init=False)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Stage]:
        """Run everything inside the context, and stop it afterwards, when the history is complete.
        Raises RunFailed; ApiError; ChildDied (in a group) for a process that keeps dying.
        """
        self.parts = Supervisor(self.settings, on_phase=self._phase)
        async with self.parts:
            self.settings = self.parts.settings
            self.api = BulkClient(
                *self.parts.urls,
                timeout=self.attempt,
                patience=PATIENCE_SECONDS,
                token=self.token,
            )
            keeper = Keeper(self.parts, report=self._kept)
            async with self.api, beside(keeper.run(), self._watch()):
                yield self
                await self.complete_history()
            self.timeline.note("stopping all processes")
        self.check_history()

    def _phase(self, text: str) -> None:
        self.timeline.note(text)

    def _kept(self, event: ProcessReport) -> None:
        at = self.timeline.note(str(event))
        match event:
            case ProcessRecovered():
                self.returns.append(event)
            case ProcessDied(role):
                self.deaths.append((at, role))
            case DiskFull():
                pass  # no fault injected here fills a disk

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            self.status = await self.api.status()
            self.status_at = time.monotonic()
            took = self.status_at - began
            # At most a tenth of the coordinator's time; where nobody led, that took longer.
            await asyncio.sleep(max(POLL, min(9 * took, LONGEST_POLL)))

    async def submit(self, items: list[Item]) -> None:
        """Submit objects. Raises ApiError if one is refused."""
        for body in lists(items):
            sent = time.time()
            reply = await self.api.submit(orjson.dumps(body))
            self.answers.times.append((sent, time.time()))
            if reply.refused:
                raise BulkError(f"the load is refused: {describe(reply.refused[0])}")

    def shared_out(self) -> bool:
        """Whether every shard has a live worker and every node belongs to a shard."""
        shards = self.status.get("shards", [])
        owned = sum(int(shard["nodes"]) for shard in shards)
        return owned > 0 and all(shard["up"] for shard in shards)

    async def until(self, condition: Callable[[], bool], seconds: float, description: str) -> None:
        """Wait for a condition. Raises RunFailed with ``description`` after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                status = {key: self.status.get(key) for key in ("jobs", "tasks", "pending_reasons")}
                raise RunFailed(f"{description} within {seconds:g} s: {status}")
            await asyncio.sleep(POLL)

    async def complete_history(self) -> None:
        """Wait until the history contains the current log. Raises RunFailed."""
        ledger = RedisLedger(self.settings.access())
        cluster = SocketCluster(self.settings.cluster_socket or "")
        try:
            async with asyncio.timeout(FOLLOW_SECONDS):
                tail = log_position(await ledger.log_tail())
                # The history is another process's: there is no event to wait for.
                while log_position(await cluster.history_position()) < tail:  # noqa: ASYNC110
                    await asyncio.sleep(POLL)
        except (TimeoutError, LedgerError, ClusterTimeout) as error:
            raise RunFailed(f"the history does not follow the ledger's log: {error!r}") from None
        finally:
            await cluster.close()
            await ledger.close()

    def check_history(self) -> None:
        """After the end of all processes. Raises RunFailed: without a complete history there is
        nothing that could be judged, whatever the run looked like."""
        if self.parts.exit_codes.get(CLUSTER) != 0:
            raise RunFailed("the cluster process could not complete the history; see its log")


@contextlib.asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run this beside the body, and cancel it afterwards; if it fails, so does the body."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in work]
        yield
        for task in tasks:
            task.cancel()
