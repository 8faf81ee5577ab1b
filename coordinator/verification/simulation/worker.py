"""A worker of a seeded run: the actor around the production state machine, on virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from coordinator.verification.simulation.bold_evictor import EvictingWorker, Truth
from coordinator.verification.simulation.process import Lane, Process
from coordinator.verification.simulation.virtual_time import Event, Place
from shard_worker.framework.session import Session
from shard_worker.turns.extender_http import Ask, ask_over_http
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.limits import Limits
from shard_worker.worker.served_calls import ServedCalls
from shard_worker.worker.worker import CommitBatchRequest, Instruction, Outcomes, Worker
from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.lease import HeldLease
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import CommitBatch, CommitReply, Epoch, Outcome, Turn

SHARD_LEASE_SECONDS = 0.6
"""A fifth of the default, as all times of a seeded run are."""

EVERYTHING = 1_000_000
"""More entries than the log of a run has: here a reader always catches up in one reading."""

Answered = Callable[[list[Outcome], str], None]
"""Called with the outcomes of a call, and the position up to which the worker has read the log."""


@dataclass(frozen=True, slots=True)
class SeededWorkerConfig:
    """Parameters of workers."""

    mode: Mode
    seed: int
    evicting: bool = False
    """Whether they evict at random."""
    ask: Ask = ask_over_http
    """Sends the questions of the plugin extender."""


class _Link(LedgerDouble):
    """The worker's access to the ledger for its lease, while the ledger is reachable."""

    def __init__(self, ledger: LedgerDouble, process: Process) -> None:
        self.ownership = ledger.ownership
        self._process = process

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        timeline = self._process.timeline
        lost = timeline.strikes(timeline.network.request_lost, "request lost")
        if lost or not timeline.reaches(Place.LEDGER):
            raise LedgerUnavailable("the request was lost")
        return self.ownership.renew(writer, epoch, lease=lease)


@dataclass(frozen=True, slots=True)
class _Call:
    number: int
    turns: list[Turn]
    answered: Answered
    failed: Event


class SimulatedWorker:
    """Serves one call at a time, as the actor does; ``process`` may die or pause."""

    def __init__(
        self,
        config: SeededWorkerConfig,
        *,
        session: Session,
        shard: int,
        epoch: Epoch,
        run_id: str,
        process: Process,
        ledger: LedgerDouble,
        committed: Event,
    ) -> None:
        """``committed``: there may be something to bind."""
        self.process = process
        self.view = View(shard=shard, residents=session.reads_residents)
        self.log_id = at_once(self.view.begin(ledger))
        self.worker = (EvictingWorker if config.evicting else Worker)(
            session=session,
            view=self.view,
            mode=config.mode,
            shard=shard,
            seed=config.seed * 1009 + shard,
            limits=Limits(nomination_seconds=10.0),
            ask=config.ask,
        )
        if isinstance(self.worker, EvictingWorker):
            self.worker.draw = Random(f"{config.seed}/{shard}/{epoch.counter}")
            self.worker.truth = self._truth
        self.worker.begin(epoch, run_id)
        self._ledger = ledger
        self._committed = committed
        self._lease = HeldLease(
            _Link(ledger, process),
            writer=str(shard),
            epoch=epoch,
            seconds=SHARD_LEASE_SECONDS,
            clock=lambda: process.now,
        )
        self._asking = Lane(process, Place.LEDGER)
        self._waiting: deque[_Call] = deque()
        self._served = ServedCalls()
        self._busy = False

    def _truth(self) -> Truth:
        snapshot = at_once(self._ledger.snapshot())
        return snapshot.jobs, snapshot.tasks

    def follow(self) -> None:
        """Read the log to its end."""
        self._take(at_once(self._ledger.read_log(self.log_id, count=EVERYTHING)))

    def _take(self, entries: list[LogEntry]) -> None:
        if entries:
            self.worker.on_log(entries, now=self.process.now)
            self.log_id = entries[-1].id

    # --- a call ---------------------------------------------------------------------------------

    def call(self, number: int, turns: list[Turn], answered: Answered, failed: Event) -> None:
        """Serve a call. Exactly one of the callbacks follows, unless the worker dies or has served
        this number before; ``failed``: it has to be replaced."""
        self._waiting.append(_Call(number, turns, answered, failed))
        self._serve()

    def _serve(self) -> None:
        if self._busy or not self.process.alive or not self._waiting:
            return
        call = self._waiting.popleft()
        if not self._served.is_new(call.number):
            self._serve()  # nobody waits for the answer of a copy
            return
        self._busy = True
        if self.worker.pending_batch() is not None or not self._keeps():
            self._end(call.failed)
            return
        ledger, log_id = self._ledger, self.log_id

        def place(entries: list[LogEntry]) -> None:
            self._take(entries)
            self._carry(call, self.worker.on_turns(call.turns, now=self.process.now), [])

        self._asking.push(
            "read log", lambda: at_once(ledger.read_log(log_id, count=EVERYTHING)), place
        )

    def _carry(self, call: _Call, instructions: list[Instruction], said: list[Outcome]) -> None:
        """Send a batch to the ledger and process its answer, or the outcomes to the coordinator."""
        self.worker.validate()
        batch: CommitBatch | None = None
        for instruction in instructions:
            match instruction:
                case Outcomes():
                    said = said + instruction.outcomes
                case CommitBatchRequest():
                    batch = instruction.batch
        if batch is None:
            outcomes, log_id = said, self.log_id
            self._end(lambda: call.answered(outcomes, log_id))
        elif self._keeps():
            self._commit(batch, lambda reply: self._carry(call, self.worker.on_reply(reply), said))
        else:
            self._end(call.failed)

    def _commit(self, batch: CommitBatch, answer: Callable[[CommitReply], None]) -> None:
        def ask() -> CommitReply:
            reply = at_once(self._ledger.commit(batch))
            self._committed()
            return reply

        self._asking.push("commit", ask, answer)

    def _keeps(self) -> bool:
        """Whether it still has its lease, as far as it knows."""
        try:
            at_once(self._lease.keep())
        except (Deposed, LedgerUnavailable):
            return False
        return True

    def _end(self, word: Event) -> None:
        self._busy = False
        word()
        self._serve()
