"""A worker of a seeded run: a process in which the actor's server runs on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from coordinator.order.cross_node import BUDGET
from laboratory.simulation.bold_evictor import CheckedWorker, EvictingWorker, Truth
from laboratory.simulation.process import Process
from laboratory.simulation.remote_ledger import RemoteLedger
from laboratory.simulation.virtual_loop import virtual_loop
from laboratory.simulation.virtual_time import Event
from shard_worker.turns.extender_http import Ask, ask_over_http
from shard_worker.view.mode import Mode
from shard_worker.worker.server import CallRefused, Clocks, MakesWorker, ServedBefore, ShardServer
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.ledger.errors import LedgerError
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import Turn
from shared.policy.model import Policy

T = TypeVar("T")

NOMINATION_SECONDS = 10.0

EVERYTHING = 1_000_000
"""More entries than the log of a run has: here a reader always catches up in one reading."""


@dataclass(frozen=True, slots=True)
class SeededWorkerConfig:
    """Parameters of workers."""

    mode: Mode
    seed: int
    evicting: bool = False
    """Whether they evict at random."""
    ask: Ask = ask_over_http
    """Sends the questions of the plugin extender."""


class SeededWorkerLedger(RemoteLedger):
    """The ledger as a worker reaches it. What is lost of a write raises LedgerUnavailable: sending
    it again is the server's own part, under the same sequence number."""

    sent_once = frozenset({"renew", "commit"})

    def __init__(self, process: Process, ledger: MemoryLedger, committed: Event) -> None:
        """``committed``: there may be something to bind."""
        super().__init__(process, ledger)
        self._committed = committed

    def entries_added(self) -> None:
        self._committed()


class SimulatedWorker:
    """Serves one call at a time, as the actor does; ``process`` may die or pause."""

    def __init__(
        self,
        seeded: SeededWorkerConfig,
        config: WorkerConfig,
        *,
        policy: Policy,
        process: Process,
        ledger: MemoryLedger,
        committed: Event,
    ) -> None:
        """``committed``: there may be something to bind."""
        self.process = process
        self._seeded = seeded
        self._ledger = ledger
        self._committed = committed
        self._loop = virtual_loop(process, seed=seeded.seed * 1009 + config.epoch.counter)
        self.server = self._make_server(config, policy)
        self._serving = asyncio.Lock()

    def _make_server(
        self, config: WorkerConfig, policy: Policy, before: ShardServer | None = None
    ) -> ShardServer:
        self.epoch = str(config.epoch)
        make: MakesWorker = partial(CheckedWorker, ask=self._seeded.ask)
        if self._seeded.evicting:
            draw = Random(f"{self._seeded.seed}/{config.shard}/{config.epoch.counter}")
            make = partial(EvictingWorker, truth=self._truth, draw=draw, ask=self._seeded.ask)
        now = self._loop.time
        return ShardServer(
            config,
            SeededWorkerLedger(self.process, self._ledger, self._committed),
            policy=policy,
            worker=make,
            clocks=Clocks(wall=now, steady=now, precise=now),
            before=before,
        )

    def _truth(self) -> Truth:
        snapshot = at_once(self._ledger.snapshot())
        budgets = [key for key in snapshot.objects if key.startswith(BUDGET)]
        return Truth(snapshot.jobs, snapshot.tasks, budgets)

    def follow(self) -> None:
        """Read the log to its end, once the run is over."""
        entries = at_once(self._ledger.read_log(self.server.log_id, count=EVERYTHING))
        self.server.worker.on_log(entries, now=self.process.now)

    def die(self) -> None:
        self.process.alive = False
        self._loop.abandon()

    # --- calls: exactly one of the callbacks follows, unless the worker dies --------------------

    def load(self, up: Event, failed: Callable[[str], None]) -> None:
        self._run(lambda: self._load(up, failed))

    def begin_again(
        self, config: WorkerConfig, policy: Policy, up: Event, failed: Callable[[str], None]
    ) -> None:
        """Serve under another policy and epoch from now on, on the same view."""

        async def begin() -> None:
            async with self._serving:
                self.server = self._make_server(config, policy, before=self.server)
                await self._load(up, failed)

        self._run(begin)

    async def _load(self, up: Event, failed: Callable[[str], None]) -> None:
        try:
            await self.server.load()
        except LedgerError as error:
            failed(str(error))
        else:
            up()

    def call(
        self,
        epoch: str,
        number: int,
        turns: list[Turn],
        answered: Callable[[PlaceReply], None],
        failed: Callable[[str], None],
    ) -> None:
        """Serve a call under an epoch; a copy of one has no answer. ``failed``: it has to be
        replaced."""
        self._run(lambda: self._call(epoch, number, turns, answered, failed))

    async def _call(
        self,
        epoch: str,
        number: int,
        turns: list[Turn],
        answered: Callable[[PlaceReply], None],
        failed: Callable[[str], None],
    ) -> None:
        """Serve one call after the other, as they come."""
        async with self._serving:
            try:
                self.server.expect(epoch, number)
                answered(await self.server.answer(turns))
            except ServedBefore:
                pass
            except (CallRefused, LedgerError) as error:
                failed(str(error))

    def _run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # A task for each call: whether it keeps the run going depends on who calls.
        self._loop.call_soon(lambda: self._loop.start(call()))
