"""The workers of a seeded run, as the service's own :class:`Workers` starts and calls them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.dispatch.worker_client import OtherVersion, WorkerLost
from laboratory.simulation.process import Process, Reply, halt
from laboratory.simulation.virtual_time import ECHO_SECONDS, Event
from laboratory.simulation.worker import (
    NOMINATION_SECONDS,
    SeededWorkerConfig,
    SimulatedWorker,
)
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.redis.access import Access
from shared.messages.messages import Epoch, Turn
from shared.policy.model import Policy

DEADLINE_SECONDS = 0.5
"""A worker is given up if a call has no answer after this time."""

START_SECONDS = 0.5
"""A worker that is not up after this time is given up, and may come up all the same."""

ENDED_WITH_COORDINATOR = 0.5
"""Fraction of the workers that end with their coordinator; the successor deposes the others."""

ROLLING = 11
"""One of this many seeds has Ray nodes with another version of the package: it is being
upgraded."""
ROLLING_FIRST = 6


class SimulatedShards:
    """Implements :class:`coordinator.service.worker_lifecycle.RunsShards`. ``workers`` are the
    current ones; a replaced one may still be alive and try to commit."""

    def __init__(
        self,
        config: SeededWorkerConfig,
        *,
        policy: Callable[[], Policy],
        process: Process,
        ledger: MemoryLedger,
        committed: Event,
        lease: float,
    ) -> None:
        """``policy``: that of a new worker; ``process``: the coordinator, which workers may
        outlive; ``committed``: there may be something to bind; ``lease``: that of a worker, in
        seconds."""
        self.workers: dict[int, SimulatedWorker] = {}
        self._newest: dict[int, SimulatedWorker] = {}
        """Shard -> the worker that was started last, up or not."""
        self._config = config
        self._policy = policy
        self._process = process
        self._timeline = process.timeline
        self._ledger = ledger
        self._committed = committed
        self._lease = lease

    async def inherit(self, shards: int) -> None:
        """There is nothing to reuse: here every worker is a new process."""

    def configure(
        self,
        policy: dict[str, Any] | None,
        *,
        shard: int,
        epoch: Epoch,
        run_id: str,
        keeps_view: bool,
    ) -> WorkerConfig:
        """The start configuration. A policy has no text here: see :attr:`PolicyLook.content`."""
        return WorkerConfig(
            shard=shard,
            epoch=epoch,
            run_id=run_id,
            mode=self._config.mode.value,
            seed=self._config.seed,
            policy=policy,
            access=Access(""),
            nomination_seconds=NOMINATION_SECONDS,
            lease_seconds=self._lease,
            keeps_view=keeps_view,
        )

    # --- life and death -----------------------------------------------------------------------

    async def start(self, config: WorkerConfig) -> int:
        mean, shard = self._timeline.network.ledger, config.shard
        process, reply = self._process, Reply[SimulatedWorker]()

        def load() -> None:
            if self._other_version(config):
                self._timeline.struck["worker of another version"] += 1
                refused = OtherVersion(f"shard {shard}: of another version")
                process.hear(mean, lambda: reply.fail(refused), "worker refused")
                return
            if config.keeps_view and (left := self.workers[shard]).process.alive:
                self._timeline.struck["worker under another policy"] += 1
                left.begin_again(config, self._policy(), lambda: up(left), failed)
                return
            self._newest[shard] = worker = SimulatedWorker(
                self._config,
                config,
                policy=self._policy(),
                process=Process(self._timeline),
                ledger=self._ledger,
                committed=self._committed,
            )
            worker.load(lambda: up(worker), failed)

        def up(worker: SimulatedWorker) -> None:
            process.hear(mean, lambda: reply.give(worker), "worker up")

        def failed(why: str) -> None:
            error = WorkerLost(f"shard {shard}: {why}")
            process.hear(mean, lambda: reply.fail(error), "worker failed")

        late = WorkerLost(f"shard {shard}: not up within {START_SECONDS} s")
        process.after(START_SECONDS, lambda: reply.fail(late))
        process.say(mean, load, "worker started")
        self.workers[shard] = await reply
        self._timeline.rose(f"worker {shard}")
        return shard

    def _other_version(self, config: WorkerConfig) -> bool:
        """By a generator of its own: the seed's other events stay as they are."""
        seed = self._config.seed
        if seed % ROLLING != ROLLING_FIRST:
            return False
        draw = Random(f"version {seed}/{config.shard}/{config.epoch.counter}")
        return draw.random() < self._timeline.network.other_version

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        """Nothing ends it here, the worst case of a machine that nobody reaches any more: its
        epoch is void."""

    async def check(self) -> None:
        """Ray itself does not fail in a seeded run."""

    def kill(self, shard: int) -> None:
        """Kill the process: its work is cut off, and its calls are never answered."""
        if shard in self._newest:
            self._timeline.fell(f"worker {shard}")
            self._newest[shard].die()

    def pause(self, shard: int, seconds: float) -> None:
        """Pause the process, which then continues as if nothing had happened."""
        if shard in self._newest:
            halt(self._newest[shard].process, seconds)

    def orphan(self) -> None:
        """Their coordinator died: some workers end with it, others continue their work."""
        for worker in self._newest.values():
            if self._timeline.strikes(ENDED_WITH_COORDINATOR):
                worker.die()

    # --- a call -------------------------------------------------------------------------------

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        """Send turns to the current worker; without turns it is a heartbeat."""
        worker, process, network = self.workers[shard], self._process, self._timeline.network
        reply: Reply[PlaceReply] = Reply()
        epoch = worker.epoch

        def answered(answer: PlaceReply) -> None:
            process.hear(network.call, lambda: reply.give(answer), "call answered")

        def failed(why: str) -> None:
            error = WorkerLost(f"shard {shard}: {why}", alive=True)
            process.hear(network.call, lambda: reply.fail(error), "call failed")

        def arrive() -> None:
            worker.call(epoch, call, turns, answered, failed)

        late = WorkerLost(f"shard {shard}: no answer within {DEADLINE_SECONDS} s")
        process.after(DEADLINE_SECONDS, lambda: reply.fail(late))
        if not self._timeline.strikes(network.request_lost, "call lost"):
            if self._timeline.strikes(network.echo, "call twice"):
                process.say(ECHO_SECONDS, arrive, "call again")
            process.say(network.call, arrive, "call")
        return await reply
