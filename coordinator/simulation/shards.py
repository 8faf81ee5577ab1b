"""The workers of a seeded run, the calls to them, and what befalls them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.core import Coordinator
from coordinator.dispatch import SendTurns
from coordinator.simulation.owning import unless_deposed
from coordinator.simulation.process import Lane, Process
from coordinator.simulation.timeline import ECHO_SECONDS, Event, Place
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shard_worker.view import View
from shard_worker.worker import CommitBatchRequest, Instruction, Limits, Outcomes, Worker
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import LogEntry
from shared.ledger.synchronous import at_once
from shared.messages import CommitBatch, CommitReply, Epoch, Outcome, OutcomeCode

DEADLINE_SECONDS = 0.5
"""A call that is not answered so long after it was sent: its worker is given up."""

ENDED_WITH_COORDINATOR = 0.5
"""Part of the workers that end with their coordinator; the others are deposed by its successor."""

EVERYTHING = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What workers are made of. ``session`` opens a new one for each."""

    session: Callable[[], Session]
    mode: Mode
    seed: int


@dataclass(slots=True)
class SimulatedWorker:
    """A worker and the calls that wait for it; it serves one at a time, as the actor does."""

    process: Process
    worker: Worker
    view: View
    log_id: str
    busy: bool = False
    calls: deque[SendTurns] = field(default_factory=deque)

    def follow(self, ledger: LedgerDouble) -> None:
        """Read the log to its end."""
        entries = at_once(ledger.read_log(self.log_id, count=EVERYTHING))
        if entries:
            self.worker.on_log(entries)
            self.log_id = entries[-1].id


class SimulatedShards:
    """``workers`` are those in charge; one that was given up may still live and try to commit."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        process: Process,
        ledger: LedgerDouble,
        core: Coordinator,
        step: Event,
        committed: Event,
        deposed: Event,
    ) -> None:
        """``process``: the coordinator, which workers may outlive; ``step``: it has news;
        ``committed``: there may be something to bind; ``deposed``: another one leads."""
        self._deposed = deposed
        self.workers: dict[int, SimulatedWorker] = {}
        self.leader: Epoch | None = None
        """The epoch of the coordinator whose workers these are, once it has taken its seat."""
        self._config = config
        self._process = process
        self._timeline = process.timeline
        self._ledger = ledger
        self._core = core
        self._step = step
        self._committed = committed

    # --- life and death -----------------------------------------------------------------------

    def start(self, shard: int) -> None:
        """Claim an epoch, accept the server's run, and let a worker load its view and serve."""
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
            worker = self._load(shard, epoch, run)
            self._process.hear(mean, lambda: serves(worker, epoch), "worker up")

        def serves(worker: SimulatedWorker, epoch: Epoch) -> None:
            self.workers[shard] = worker
            self._core.worker_up(shard, epoch)
            self._step()

        asking.push("claim", self._claim(shard), claimed)

    @property
    def _leading(self) -> Epoch:
        assert self.leader is not None
        return self.leader

    def _claim(self, shard: int) -> Callable[[], Epoch | None]:
        ledger = self._ledger
        return unless_deposed(lambda: at_once(ledger.claim(str(shard), leader=self._leading)))

    def _load(self, shard: int, epoch: Epoch, run_id: str) -> SimulatedWorker:
        config = self._config
        snapshot = at_once(self._ledger.snapshot(workload=False))
        view = View(shard=shard)
        view.load(snapshot)
        worker = Worker(
            session=config.session(),
            view=view,
            mode=config.mode,
            shard=shard,
            seed=config.seed * 1009 + shard,
            limits=Limits(nomination_seconds=10.0),
        )
        worker.begin(epoch, run_id)
        return SimulatedWorker(Process(self._timeline), worker, view, snapshot.log_id)

    def kill(self, shard: int) -> None:
        """The process dies: what it was doing is cut off, its calls are never answered."""
        if shard in self.workers:
            self.workers[shard].process.alive = False

    def pause(self, shard: int, seconds: float) -> None:
        """The process stands still and then goes on as if nothing had happened."""
        if shard in self.workers:
            self.workers[shard].process.pause(seconds)

    def _lost(self, send: SendTurns) -> None:
        """Void the epoch, then let the coordinator read what became of the open turns."""
        state = self._core.dispatcher.shards[send.shard]
        if state.epoch != send.epoch:
            return  # several calls were under way: the first to fail did this
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
        """Their coordinator died: some workers are ended with it, others go on to what they had."""
        for worker in self.workers.values():
            if self._timeline.strikes(ENDED_WITH_COORDINATOR):
                worker.process.alive = False

    # --- a call -------------------------------------------------------------------------------

    def call(self, send: SendTurns) -> None:
        """Give turns to the worker in charge."""
        worker = self.workers[send.shard]
        calls = self._core.dispatcher.shards[send.shard].calls

        def arrive() -> None:
            worker.calls.append(send)
            self._serve(worker)

        def overdue() -> None:
            if send.call in calls:
                self._lost(send)

        timeline, network = self._timeline, self._timeline.network
        if timeline.strikes(network.request_lost, "call lost"):
            return self._process.after(DEADLINE_SECONDS, overdue)
        if timeline.strikes(network.echo, "call twice"):
            self._process.say(ECHO_SECONDS, arrive, "call again")
        self._process.say(network.call, arrive, "call")
        self._process.after(DEADLINE_SECONDS, overdue)

    def _serve(self, worker: SimulatedWorker) -> None:
        """Begin the next call; what is placed is planned on the log as it was when read."""
        if worker.busy or not worker.process.alive or not worker.calls:
            return
        worker.busy = True
        send = worker.calls.popleft()
        lane = Lane(worker.process, Place.LEDGER)
        ledger, worker_log = self._ledger, worker.log_id

        def place(entries: list[LogEntry]) -> None:
            if entries:
                worker.worker.on_log(entries)
                worker.log_id = entries[-1].id
            now = self._timeline.now
            self._carry(worker, send, worker.worker.on_turns(send.turns, now=now), [])

        lane.push("read log", lambda: at_once(ledger.read_log(worker_log, count=EVERYTHING)), place)

    def _carry(
        self,
        worker: SimulatedWorker,
        send: SendTurns,
        instructions: list[Instruction],
        outcomes: list[Outcome],
    ) -> None:
        """Carry a worker's batch to the ledger and back, or its outcomes to the coordinator."""
        worker.worker.validate()
        batch: CommitBatch | None = None
        for instruction in instructions:
            match instruction:
                case Outcomes():
                    outcomes = outcomes + instruction.outcomes
                case CommitBatchRequest():
                    batch = instruction.batch
        if batch is None:
            self._answer(worker, send, outcomes)
            return

        def answered(reply: CommitReply) -> None:
            self._carry(worker, send, worker.worker.on_reply(reply), outcomes)

        self._commit(worker, batch, answered)

    def _commit(
        self, worker: SimulatedWorker, batch: CommitBatch, answered: Callable[[CommitReply], None]
    ) -> None:
        process = worker.process
        lane = Lane(process, Place.LEDGER)

        def ask() -> CommitReply:
            reply = at_once(self._ledger.commit(batch))
            self._committed()
            return reply

        lane.push("commit", ask, answered)

    def _answer(self, worker: SimulatedWorker, send: SendTurns, outcomes: list[Outcome]) -> None:
        log_id = worker.log_id

        def returned() -> None:
            self._core.followed(send.shard, send.epoch, log_id)
            self._core.turns_returned(send.shard, send.call, outcomes)
            if any(outcome.code is OutcomeCode.FENCED for outcome in outcomes):
                self._lost(send)
            self._step()

        worker.busy = False
        self._process.hear(self._timeline.network.call, returned, "call answered")
        self._serve(worker)
