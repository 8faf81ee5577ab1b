"""The seeded run: coordinator, workers, ledger and cluster in one process, on virtual time.

Everything that decides is the production code: the coordinator's state machine, the workers', the
ledger's rules (its double), the simulated kubelets, intake. Only what carries messages is replaced:
each message takes a delay drawn from the seed, so that messages overtake each other, workers plan
on old views, outcomes arrive after the tasks they speak of have ended. The same seed repeats the
run to the last event."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.ledger.double import LedgerDouble

from coordinator.binder import BindPlan, judge_answers, part_of, plan_binds, read_reports
from coordinator.cluster.kubelets import Kubelets
from coordinator.core import Coordinator, Instruction, Lapse, Repartition, Reread
from coordinator.dispatch import SendTurns
from coordinator.intake import Intake
from coordinator.intake_writer import changes_of
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shard_worker.view import View
from shard_worker.worker import CommitBatchRequest, Limits, Outcomes, Worker
from shared.ledger.protocol import COORDINATOR, IntakeBatch, IntakeOp
from shared.ledger.synchronous import at_once
from shared.messages import CommitBatch, Epoch, Outcome, StatusBatch, StatusItem, Turn, Verdict

INTAKE = "intake"


@dataclass(slots=True)
class SimulatedWorker:
    """A worker and the calls that wait for it; it serves one at a time, as the actor does."""

    shard: int
    epoch: Epoch
    worker: Worker
    log_id: str
    alive: bool = True
    busy: bool = False
    calls: deque[tuple[int, list[Turn]]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Delays:
    """Mean seconds a message takes; the delay itself is exponential, so order is not kept."""

    call: float = 0.002
    commit: float = 0.003
    record: float = 0.003
    bind: float = 0.004


class Simulation:
    """Drive with :meth:`submit` and :meth:`run`; faults by :meth:`kill_worker`."""

    def __init__(
        self,
        core: Coordinator,
        *,
        session: Callable[[], Session],
        kubelets: Kubelets,
        mode: Mode,
        seed: int,
        delays: Delays | None = None,
        deadline: float = 0.5,
    ) -> None:
        """``session`` opens a session per worker; ``deadline``: when a dead worker is noticed."""
        self.core = core
        self.kubelets = kubelets
        self.now = 1_000.0
        self.intake = Intake()
        self.random = random.Random(seed)
        self.ledger = LedgerDouble(random.Random(seed + 1), clock=lambda: self.now)
        self._session = session
        self._mode = mode
        self._seed = seed
        self._delays = delays or Delays()
        self._deadline = deadline
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._stepping = False
        self._sequence = {COORDINATOR: 0, INTAKE: 0}
        self._items: deque[tuple[list[StatusItem], list[int], Callable[[], None]]] = deque()
        self._recording = False
        self._reports_after = 0
        self._advance_at: float | None = None
        self.run_id = at_once(self.ledger.bless())
        self._epochs = {name: at_once(self.ledger.claim(name)) for name in (COORDINATOR, INTAKE)}
        self.workers: dict[int, SimulatedWorker] = {}
        for shard in core.dispatcher.shards:
            self._start_worker(shard)

    # --- driving ------------------------------------------------------------------------------

    def submit(self, items: list[dict[str, Any]], *, at: float = 0.0) -> None:
        """Objects reach intake ``at`` seconds from now."""
        self._at(at, lambda: self._admit(items))

    def run(self, *, until: float = 1e9, events: int = 10_000_000) -> None:
        """Process events until none is left, or virtual time or their number is used up."""
        while self._events and self._events[0][0] <= until and events > 0:
            self.now, _, event = heapq.heappop(self._events)
            event()
            events -= 1

    def kill_worker(self, shard: int, *, at: float) -> None:
        """The worker's process dies: what it was doing is cut off, its calls are never answered."""

        def die() -> None:
            self.workers[shard].alive = False

        self._at(at, die)

    def _at(self, delay: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def _send(self, mean: float, event: Callable[[], None]) -> None:
        self._at(self.random.expovariate(1 / mean), event)

    # --- intake -------------------------------------------------------------------------------

    def _admit(self, items: list[dict[str, Any]]) -> None:
        admission = self.intake.admit(items, self.now)
        assert not admission.refused, admission.refused
        self._store(admission.ops)
        self.core.admitted(changes_of(admission))
        repartition = self.core.repartition()
        if repartition is not None:
            self._store([repartition.put])
        self._step()

    def _store(self, ops: list[IntakeOp]) -> None:
        if not ops:
            return
        self._sequence[INTAKE] += 1
        batch = IntakeBatch(
            writer=INTAKE,
            epoch=self._epochs[INTAKE],
            sequence=self._sequence[INTAKE],
            run_id=self.run_id,
            ops=ops,
        )
        assert at_once(self.ledger.store(batch)).verdict is Verdict.COMMITTED

    # --- coordinator --------------------------------------------------------------------------

    def _step(self) -> None:
        """Step once after all events of this moment."""
        if not self._stepping:
            self._stepping = True
            self._at(0.0, self._step_now)

    def _step_now(self) -> None:
        self._stepping = False
        for instruction in self.core.step(self.now):
            self._execute(instruction)
        due = self.core.order.next_due()
        if due is not None:
            self._at(max(0.001, due - self.now), self._step)

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendTurns():
                self._call(instruction)
            case Reread():
                self._send(self._delays.record, lambda: self._reread(instruction.jids))
            case Lapse():
                self._record([], instruction.jids)
            case Repartition():
                self._store([instruction.put])

    def _reread(self, jids: list[int]) -> None:
        self.core.reread(at_once(self.ledger.read_tasks(jids)))
        self._step()

    # --- workers ------------------------------------------------------------------------------

    def _start_worker(self, shard: int) -> None:
        epoch = at_once(self.ledger.claim(str(shard)))
        view = View(shard=shard)
        snapshot = at_once(self.ledger.snapshot(workload=False))
        view.load(snapshot)
        worker = Worker(
            session=self._session(),
            view=view,
            mode=self._mode,
            shard=shard,
            seed=self._seed * 1009 + shard,
            limits=Limits(nomination_seconds=10.0),
        )
        worker.begin(epoch, self.run_id)
        self.workers[shard] = SimulatedWorker(shard, epoch, worker, snapshot.log_id)
        self.core.worker_up(shard, epoch)
        self._step()

    def _call(self, send: SendTurns) -> None:
        worker = self.workers[send.shard]

        def arrive() -> None:
            worker.calls.append((send.call, send.turns))
            self._serve(worker)

        def deadline() -> None:
            if send.call in self.core.dispatcher.shards[send.shard].calls and not worker.alive:
                at_once(self.ledger.claim(str(send.shard)))
                self.core.worker_lost(send.shard)
                self._start_worker(send.shard)

        self._send(self._delays.call, arrive)
        self._at(self._deadline, deadline)

    def _serve(self, worker: SimulatedWorker) -> None:
        if worker.busy or not worker.alive or not worker.calls:
            return
        worker.busy = True
        call, turns = worker.calls.popleft()
        entries = at_once(self.ledger.read_log(worker.log_id, count=1_000_000))
        if entries:
            worker.worker.on_log(entries)
            worker.log_id = entries[-1].id
        instructions = worker.worker.on_turns(turns, now=self.now)
        self._carry(worker, call, instructions, [])

    def _carry(
        self, worker: SimulatedWorker, call: int, instructions: list[Any], outcomes: list[Outcome]
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
            self._answer(worker, call, outcomes)
            return
        asked = batch

        def commit() -> None:
            # The batch is on its way whether or not its sender still lives.
            reply = at_once(self.ledger.commit(asked))
            self._read_binds()
            self._send(self._delays.commit, lambda: answer(reply))

        def answer(reply: Any) -> None:
            if worker.alive:
                self._carry(worker, call, worker.worker.on_reply(reply), outcomes)

        self._send(self._delays.commit, commit)

    def _answer(self, worker: SimulatedWorker, call: int, outcomes: list[Outcome]) -> None:
        def returned() -> None:
            self.core.turns_returned(worker.shard, call, outcomes)
            self._step()

        worker.busy = False
        self._send(self._delays.call, returned)
        self._serve(worker)

    # --- binds --------------------------------------------------------------------------------

    def _read_binds(self) -> None:
        def read() -> None:
            entries = at_once(self.ledger.read_binds("coordinator", count=64))
            if not entries:
                return
            plan = plan_binds(entries, jobs=self._job, node=lambda row: self.core.nodes[row].name)
            self._drive(plan)

        self._send(self._delays.bind, read)

    def _job(self, jid: int) -> Any:
        state = self.core.order.jobs.get(jid)
        return None if state is None else state.job

    def _drive(self, plan: BindPlan) -> None:
        self.kubelets.advance(self.now)
        answers = self.kubelets.bind(plan.requests, self.now)
        result = judge_answers(plan, answers)
        if result.again:
            again = part_of(plan, result.again)
            self._at(0.2, lambda: self._drive(again))
        if result.items or plan.ids:
            self._record(result.items, [], lambda: at_once(self.ledger.ack_binds(plan.ids)))
        self._await_cluster()

    def _await_cluster(self) -> None:
        due = self.kubelets.next_due()
        if due is None or (self._advance_at is not None and self._advance_at <= due):
            return
        self._advance_at = due
        self._at(max(0.0, due - self.now), self._advance)

    def _advance(self) -> None:
        self._advance_at = None
        self.kubelets.advance(self.now)
        self._send(self._delays.bind, self._report)
        self._await_cluster()

    def _report(self) -> None:
        reports = self.kubelets.reports(self._reports_after)
        if reports.last <= self._reports_after:
            return
        self._reports_after = reports.last
        items = read_reports(reports, row=lambda name: self.core.rows.get(name, -1))
        self._record(items, [])

    # --- recording ----------------------------------------------------------------------------

    def _record(
        self, items: list[StatusItem], lapsed: list[int], done: Callable[[], Any] = lambda: None
    ) -> None:
        self._items.append((items, lapsed, done))
        self._record_next()

    def _record_next(self) -> None:
        """Single flight, as the recorder: what waits goes in one batch."""
        if self._recording or not self._items:
            return
        self._recording = True
        taken = list(self._items)
        self._items.clear()
        self._sequence[COORDINATOR] += 1
        batch = StatusBatch(
            writer=COORDINATOR,
            epoch=self._epochs[COORDINATOR],
            sequence=self._sequence[COORDINATOR],
            run_id=self.run_id,
            items=[item for items, _, _ in taken for item in items],
            lapsed=[jid for _, lapsed, _ in taken for jid in lapsed],
        )

        def record() -> None:
            reply = at_once(self.ledger.record(batch))
            assert reply.verdict is Verdict.COMMITTED
            self._recording = False
            self.core.recorded(batch.items, reply.applied)
            for _, _, done in taken:
                done()
            self._step()
            self._record_next()

        self._send(self._delays.record, record)


def settled(core: Coordinator) -> bool:
    """Whether every job is done."""
    status = core.status()
    return bool(status["jobs"]["finished"] == status["jobs"]["submitted"])


