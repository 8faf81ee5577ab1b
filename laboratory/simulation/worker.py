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
        self._ledger = ledger
        self._epoch = str(config.epoch)
        counter = config.epoch.counter
        self._loop = virtual_loop(process, seed=seeded.seed * 1009 + counter)
        make: MakesWorker = partial(CheckedWorker, ask=seeded.ask)
        if seeded.evicting:
            draw = Random(f"{seeded.seed}/{config.shard}/{counter}")
            make = partial(EvictingWorker, truth=self._truth, draw=draw, ask=seeded.ask)
        now = self._loop.time
        self.server = ShardServer(
            config,
            SeededWorkerLedger(process, ledger, committed),
            policy=policy,
            worker=make,
            clocks=Clocks(wall=now, steady=now, precise=now),
        )
        self._serving = asyncio.Lock()

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

    async def _load(self, up: Event, failed: Callable[[str], None]) -> None:
        try:
            await self.server.load()
        except LedgerError as error:
            failed(str(error))
        else:
            up()

    def call(
        self,
        number: int,
        turns: list[Turn],
        answered: Callable[[PlaceReply], None],
        failed: Callable[[str], None],
    ) -> None:
        """Serve a call; a copy of one has no answer. ``failed``: it has to be replaced."""
        self._run(lambda: self._call(number, turns, answered, failed))

    async def _call(
        self,
        number: int,
        turns: list[Turn],
        answered: Callable[[PlaceReply], None],
        failed: Callable[[str], None],
    ) -> None:
        """Serve one call after the other, as they come."""
        async with self._serving:
            try:
                self.server.expect(self._epoch, number)
                answered(await self.server.answer(turns))
            except ServedBefore:
                pass
            except (CallRefused, LedgerError) as error:
                failed(str(error))

    def _run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # A task for each call: whether it keeps the run going depends on who calls.
        self._loop.call_soon(lambda: self._loop.start(call()))
