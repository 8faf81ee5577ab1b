"""The workers of a seeded run, the calls to them, and what befalls them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.core import Coordinator
from coordinator.dispatch import SendTurns
from coordinator.simulation.timeline import Event, Lane, Process
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shard_worker.view import View
from shard_worker.worker import CommitBatchRequest, Instruction, Limits, Outcomes, Worker
from shared.ledger.double import LedgerDouble
from shared.ledger.synchronous import at_once
from shared.messages import CommitBatch, CommitReply, Epoch, Outcome, OutcomeCode

DEADLINE_SECONDS = 0.5
"""A call that is not answered so long after it was sent: its worker is given up."""

ECHO_SECONDS = 0.1
"""How late a batch arrives that comes a second time, in the mean."""

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

    shard: int
    worker: Worker
    view: View
    log_id: str
    alive: bool = True
    awake_at: float = 0.0
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
    ) -> None:
        """``process``: the coordinator, which workers may outlive; ``step``: it has news;
        ``committed``: there may be something to bind."""
        self.workers: dict[int, SimulatedWorker] = {}
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
        asking = Lane(self._process, mean)

        def claimed(epoch: Epoch) -> None:
            asking.push(lambda: at_once(ledger.bless()), lambda run: create(epoch, run))

        def create(epoch: Epoch, run: str) -> None:
            self._process.say(mean, lambda: load(epoch, run))

        def load(epoch: Epoch, run: str) -> None:
            worker = self._load(shard, epoch, run)
            self._process.hear(mean, lambda: serves(worker, epoch))

        def serves(worker: SimulatedWorker, epoch: Epoch) -> None:
            self.workers[shard] = worker
            self._core.worker_up(shard, epoch)
            self._step()

        asking.push(lambda: at_once(ledger.claim(str(shard))), claimed)

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
        return SimulatedWorker(shard, worker, view, snapshot.log_id)

    def kill(self, shard: int) -> None:
        """The process dies: what it was doing is cut off, its calls are never answered."""
        if shard in self.workers:
            self.workers[shard].alive = False

    def pause(self, shard: int, seconds: float) -> None:
        """The process stands still and then goes on as if nothing had happened."""
        if shard in self.workers:
            self.workers[shard].awake_at = self._timeline.now + seconds

    def _lost(self, send: SendTurns) -> None:
        """Void the epoch, then let the coordinator read what became of the open turns."""
        state = self._core.dispatcher.shards[send.shard]
        if state.epoch != send.epoch:
            return  # several calls were under way: the first to fail did this
        state.epoch = None

        def void(_: Epoch) -> None:
            self._core.worker_lost(send.shard)
            self._step()
            self.start(send.shard)

        asking = Lane(self._process, self._timeline.network.ledger)
        asking.push(lambda: at_once(self._ledger.claim(str(send.shard))), void)

    def orphan(self) -> None:
        """Their coordinator died: some workers are ended with it, others go on to what they had."""
        for worker in self.workers.values():
            if self._timeline.strikes(ENDED_WITH_COORDINATOR):
                worker.alive = False

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

        self._process.say(self._timeline.network.call, arrive)
        self._process.after(DEADLINE_SECONDS, overdue)

    def _serve(self, worker: SimulatedWorker) -> None:
        """Begin the next call; what is placed is planned on the log as it was when read."""
        if worker.busy or not worker.alive or not worker.calls:
            return
        worker.busy = True
        send = worker.calls.popleft()
        entries = at_once(self._ledger.read_log(worker.log_id, count=EVERYTHING))

        def place() -> None:
            if entries:
                worker.worker.on_log(entries)
                worker.log_id = entries[-1].id
            now = self._timeline.now
            self._carry(worker, send, worker.worker.on_turns(send.turns, now=now), [])

        self._at_worker(worker, place)

    def _at_worker(self, worker: SimulatedWorker, event: Event) -> None:
        """A message to a worker from the ledger: nobody hears it if the worker is dead by then."""

        def arrive() -> None:
            if worker.awake_at > self._timeline.now:
                self._timeline.after(worker.awake_at - self._timeline.now, arrive)
            elif worker.alive:
                event()

        self._timeline.send(self._timeline.network.ledger, arrive)

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
        timeline, network = self._timeline, self._timeline.network

        def arrive() -> None:
            if not worker.alive and timeline.strikes(network.dies_with_sender):
                return
            reply = at_once(self._ledger.commit(batch))
            self._committed()
            if timeline.strikes(network.echo):
                timeline.send(ECHO_SECONDS, lambda: _ignore(at_once(self._ledger.commit(batch))))
            if timeline.strikes(network.answer_lost):
                self._at_worker(worker, lambda: self._commit(worker, batch, answered))
            else:
                self._at_worker(worker, lambda: answered(reply))

        timeline.send(network.ledger, arrive)

    def _answer(self, worker: SimulatedWorker, send: SendTurns, outcomes: list[Outcome]) -> None:
        def returned() -> None:
            self._core.turns_returned(send.shard, send.call, outcomes)
            if any(outcome.code is OutcomeCode.FENCED for outcome in outcomes):
                self._lost(send)
            self._step()

        worker.busy = False
        self._process.hear(self._timeline.network.call, returned)
        self._serve(worker)


def _ignore(_: CommitReply) -> None:
    """Nobody waits for the answer to a batch that came twice."""
