"""The workers of a seeded run, as the service's own :class:`Workers` starts and calls them."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.dispatch.worker_client import WorkerLost
from coordinator.verification.simulation.process import Process, Reply, halt
from coordinator.verification.simulation.virtual_time import ECHO_SECONDS, Event
from coordinator.verification.simulation.worker import SeededWorkerConfig, SimulatedWorker
from shard_worker.framework.session import Session
from shard_worker.worker import transport
from shard_worker.worker.transport import PlaceReply
from shared.ledger.memory.ledger import LedgerDouble
from shared.messages.messages import Outcome, Turn

DEADLINE_SECONDS = 0.5
"""A worker is given up if a call has no answer after this time."""

ENDED_WITH_COORDINATOR = 0.5
"""Fraction of the workers that end with their coordinator; the successor deposes the others."""


class SimulatedShards:
    """Implements :class:`coordinator.service.worker_lifecycle.RunsShards`. ``workers`` are the
    current ones; a replaced one may still be alive and try to commit."""

    def __init__(
        self,
        config: SeededWorkerConfig,
        *,
        session: Callable[[], Session],
        process: Process,
        ledger: LedgerDouble,
        committed: Event,
    ) -> None:
        """``session``: makes the session of each new worker; ``process``: the coordinator, which
        workers may outlive; ``committed``: there may be something to bind."""
        self.workers: dict[int, SimulatedWorker] = {}
        self._config = config
        self._session = session
        self._process = process
        self._timeline = process.timeline
        self._ledger = ledger
        self._committed = committed

    # --- life and death -----------------------------------------------------------------------

    async def start(self, config: transport.WorkerConfig) -> int:
        mean, shard = self._timeline.network.ledger, config.shard
        up: Reply[SimulatedWorker] = Reply()

        def load() -> None:
            worker = SimulatedWorker(
                self._config,
                session=self._session(),
                shard=shard,
                epoch=config.epoch,
                run_id=config.run_id,
                process=Process(self._timeline),
                ledger=self._ledger,
                committed=self._committed,
            )
            self._process.hear(mean, lambda: up.give(worker), "worker up")

        self._process.say(mean, load, "worker started")
        self.workers[shard] = await up
        self._timeline.rose(f"worker {shard}")
        return shard

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        """Nothing ends it here, the worst case of a machine that nobody reaches any more: its
        epoch is void."""

    async def check(self) -> None:
        """Ray itself does not fail in a seeded run."""

    def kill(self, shard: int) -> None:
        """Kill the process: its work is cut off, and its calls are never answered."""
        if shard in self.workers:
            self._timeline.fell(f"worker {shard}")
            self.workers[shard].process.alive = False

    def pause(self, shard: int, seconds: float) -> None:
        """Pause the process, which then continues as if nothing had happened."""
        if shard in self.workers:
            halt(self.workers[shard].process, seconds)

    def orphan(self) -> None:
        """Their coordinator died: some workers end with it, others continue their work."""
        for worker in self.workers.values():
            if self._timeline.strikes(ENDED_WITH_COORDINATOR):
                worker.process.alive = False

    # --- a call -------------------------------------------------------------------------------

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        """Send turns to the current worker; without turns it is a heartbeat."""
        worker, process, network = self.workers[shard], self._process, self._timeline.network
        reply: Reply[PlaceReply] = Reply()

        def answered(outcomes: list[Outcome], log_id: str) -> None:
            told = PlaceReply(outcomes, log_id)
            process.hear(network.call, lambda: reply.give(told), "call answered")

        def failed() -> None:
            error = WorkerLost(f"shard {shard}: its call failed", alive=True)
            process.hear(network.call, lambda: reply.fail(error), "call failed")

        def arrive() -> None:
            worker.call(call, turns, answered, failed)

        late = WorkerLost(f"shard {shard}: no answer within {DEADLINE_SECONDS} s")
        process.after(DEADLINE_SECONDS, lambda: reply.fail(late))
        if not self._timeline.strikes(network.request_lost, "call lost"):
            if self._timeline.strikes(network.echo, "call twice"):
                process.say(ECHO_SECONDS, arrive, "call again")
            process.say(network.call, arrive, "call")
        return await reply
