"""The workers of a seeded run, calls to them, and their faults."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import SendTurns
from coordinator.verification.simulation.ownership import unless_deposed
from coordinator.verification.simulation.process import Lane, Process, halt
from coordinator.verification.simulation.virtual_time import ECHO_SECONDS, Event, Place
from coordinator.verification.simulation.worker import (
    SHARD_LEASE_SECONDS,
    SimulatedWorker,
    WorkerConfig,
)
from shard_worker.framework.session import Session
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import Epoch, Outcome, OutcomeCode

HEARTBEAT_SECONDS = 0.2
"""Interval of calls to idle workers, by which they follow the log, keep their lease, and their
death is noticed."""

DEADLINE_SECONDS = 0.5
"""A worker is given up if a call has no answer after this time."""

ENDED_WITH_COORDINATOR = 0.5
"""Fraction of the workers that end with their coordinator; the successor deposes the others."""


class SimulatedShards:
    """``workers`` are the current ones; a replaced one may still be alive and try to commit."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        session: Callable[[], Session],
        process: Process,
        ledger: LedgerDouble,
        core: Coordinator,
        step: Event,
        committed: Event,
        deposed: Event,
    ) -> None:
        """``session``: makes the session of each new worker; ``process``: the coordinator, which
        workers may outlive; ``step``: it has news; ``committed``: there may be something to bind;
        ``deposed``: another one leads."""
        self._deposed = deposed
        self.workers: dict[int, SimulatedWorker] = {}
        self.leader: Epoch | None = None
        """The epoch of the coordinator that uses these workers, once it leads."""
        self._beaten: dict[int, float] = {}
        """Shard -> time of the last call to an idle worker."""
        self._config = config
        self._session = session
        self._process = process
        self._timeline = process.timeline
        self._ledger = ledger
        self._core = core
        self._step = step
        self._committed = committed

    # --- life and death -----------------------------------------------------------------------

    def start(self, shard: int) -> None:
        """Claim an epoch, accept the server's run, and start a worker that loads its view."""
        ledger, mean = self._ledger, self._timeline.network.ledger
        asking = Lane(self._process, Place.LEDGER)

        def claimed(epoch: Epoch | None) -> None:
            if epoch is None:
                self._deposed()
            else:
                bless = unless_deposed(lambda: at_once(ledger.bless(self._leading)))
                asking.push("bless", bless, lambda run: blessed(epoch, run))

        def blessed(epoch: Epoch, run: str | None) -> None:
            if run is None:
                self._deposed()
            else:
                create(epoch, run)

        def create(epoch: Epoch, run: str) -> None:
            self._process.say(mean, lambda: load(epoch, run), "worker started")

        def load(epoch: Epoch, run: str) -> None:
            worker = SimulatedWorker(
                self._config,
                session=self._session(),
                shard=shard,
                epoch=epoch,
                run_id=run,
                process=Process(self._timeline),
                ledger=ledger,
                committed=self._committed,
            )
            self._process.hear(mean, lambda: serves(worker, epoch), "worker up")

        def serves(worker: SimulatedWorker, epoch: Epoch) -> None:
            self.workers[shard] = worker
            self._timeline.rose(f"worker {shard}")
            self._core.worker_up(shard, epoch)
            self._step()

        asking.push("claim", self._claim(shard), claimed)

    @property
    def _leading(self) -> Epoch:
        assert self.leader is not None
        return self.leader

    def _claim(self, shard: int) -> Callable[[], Epoch | None]:
        ledger = self._ledger

        def ask() -> Epoch:
            lease = SHARD_LEASE_SECONDS
            return at_once(ledger.claim(str(shard), leader=self._leading, lease=lease))

        return unless_deposed(ask)

    def kill(self, shard: int) -> None:
        """Kill the process: its work is cut off, and its calls are never answered."""
        if shard in self.workers:
            self._timeline.fell(f"worker {shard}")
            self.workers[shard].process.alive = False

    def pause(self, shard: int, seconds: float) -> None:
        """Pause the process, which then continues as if nothing had happened."""
        if shard in self.workers:
            halt(self.workers[shard].process, seconds)

    def replace(self, shard: int) -> None:
        """Replace a worker for a new policy; the old one may still have open turns."""
        epoch = self._core.dispatcher.shards[shard].epoch
        if epoch is not None:
            self._lost(SendTurns(shard=shard, epoch=epoch, call=0, turns=[]))

    def _lost(self, send: SendTurns) -> None:
        """Void the epoch, let the coordinator read the results of the open turns, and start another
        worker."""
        state = self._core.dispatcher.shards[send.shard]
        if state.epoch != send.epoch:
            return  # several calls were under way: the first to fail did this
        # Before the claim, as in the service: nothing more is sent to it meanwhile.
        state.epoch = None

        def void(epoch: Epoch | None) -> None:
            if epoch is None:
                self._deposed()
                return
            self._core.worker_lost(send.shard)
            self._step()
            self.start(send.shard)

        asking = Lane(self._process, Place.LEDGER)
        asking.push("claim", self._claim(send.shard), void)

    def orphan(self) -> None:
        """Their coordinator died: some workers end with it, others continue their work."""
        for worker in self.workers.values():
            if self._timeline.strikes(ENDED_WITH_COORDINATOR):
                worker.process.alive = False

    # --- a call -------------------------------------------------------------------------------

    def call(self, send: SendTurns) -> None:
        """Send turns to the current worker; without turns it is a heartbeat."""
        worker = self.workers[send.shard]
        process, network = self._process, self._timeline.network
        open_calls = {send.call}

        def answered(outcomes: list[Outcome], log_id: str) -> None:
            process.hear(network.call, lambda: returned(outcomes, log_id), "call answered")

        def returned(outcomes: list[Outcome], log_id: str) -> None:
            open_calls.clear()
            self._returned(send, outcomes, log_id)

        def failed() -> None:
            process.hear(network.call, lambda: self._lost(send), "call failed")

        def overdue() -> None:
            if open_calls:
                self._lost(send)

        def arrive() -> None:
            worker.call(send.call, send.turns, answered, failed)

        process.after(DEADLINE_SECONDS, overdue)
        if self._timeline.strikes(network.request_lost, "call lost"):
            return
        if self._timeline.strikes(network.echo, "call twice"):
            process.say(ECHO_SECONDS, arrive, "call again")
        process.say(network.call, arrive, "call")

    def _returned(self, send: SendTurns, outcomes: list[Outcome], log_id: str) -> None:
        self._core.followed(send.shard, send.epoch, log_id)
        self._core.turns_returned(send.shard, send.call, outcomes)
        if any(outcome.code is OutcomeCode.FENCED for outcome in outcomes):
            self._lost(send)
        self._step()

    def beat(self) -> None:
        """Call the idle workers."""
        for state in self._core.dispatcher.shards.values():
            quiet = self._beaten.get(state.shard, 0.0) + HEARTBEAT_SECONDS <= self._process.now
            if state.epoch is not None and not state.calls and quiet:
                self._beaten[state.shard] = self._process.now
                self.call(SendTurns(shard=state.shard, epoch=state.epoch, call=0, turns=[]))
        self._process.round(HEARTBEAT_SECONDS, self.beat, background=True)
