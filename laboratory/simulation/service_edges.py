"""The service's own coroutines in a seeded run, on an event loop in virtual time: the intake
writer, the recorder of task states, the executor of instructions, and the loops between ledger and
cluster (docs/decisions/0046).

The rest of a simulated leader uses callbacks, and hands them to the methods here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from coordinator.bind.binder import BindPlan
from coordinator.bind.status_writer import Recorder
from coordinator.cluster.protocol import RunsTasks
from coordinator.controllers.job_loop import JobLoop
from coordinator.controllers.task_restarts import TaskRestarts
from coordinator.controllers.volume_controller import ClaimBinding, bind_claims
from coordinator.core.coordinator import Coordinator
from coordinator.core.pod_evictions import Action, EvictionRefusal, Task
from coordinator.dispatch.instructions import Instruction
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from coordinator.ledger_refusals import LedgerRefusals
from coordinator.service.bind_loop import Binding
from coordinator.service.executor import Executor
from coordinator.service.leadership.lease import Leadership, LedCluster
from coordinator.service.metrics.probes import Probes
from coordinator.service.pod_evictor import PodEvictor
from coordinator.service.reconcile_loop import Reconciling
from coordinator.service.worker_lifecycle import Workers, WorkerTimes
from laboratory.simulation.intervals import Intervals
from laboratory.simulation.ledger_audit import SimulatedAudit
from laboratory.simulation.policy_file import LOOK_SECONDS, PolicyLook
from laboratory.simulation.process import Process
from laboratory.simulation.remote_ledger import RemoteLedger
from laboratory.simulation.virtual_loop import VirtualLoop
from laboratory.simulation.virtual_time import Event
from laboratory.simulation.workers import SimulatedShards
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import IntakeOp
from shared.ledger.errors import Deposed, LedgerBehind
from shared.ledger.keys import log_position
from shared.ledger.memory.synchronous import at_once
from shared.ledger.retry import AcceptedRun
from shared.messages.messages import HOLDING, Epoch, StatusItem
from shared.policy.model import Policy

INTAKE = "intake"

SWEEP_SECONDS = 0.5
"""Interval of comparing nominations in the ledger with those that jobs use."""

Wanted = Callable[[], bool]
"""Whether a user still asks for what was submitted."""

TRY_AGAIN_SECONDS = 0.1
"""Pause of users before they ask again for a name that is still in use."""

DRAIN_SECONDS = 3.0
"""A drain gives up after this time, as with ``--timeout``: budgets may hold it up for longer."""

RETRY_SECONDS = 0.05
"""Pause before what was refused is asked for again."""


class ServiceEdges:
    def __init__(
        self,
        *,
        loop: VirtualLoop,
        ledger: RemoteLedger,
        cluster: RunsTasks,
        leadership: Leadership,
        core: Coordinator,
        intake: Intake,
        epoch: Epoch,
        log_id: str,
        step: Event,
        deposed: Event,
        acknowledged: Callable[[list[int]], None],
        process: Process,
        shards: SimulatedShards,
        policy: PolicyLook,
        binds_volumes: bool,
        evictor: Epoch | None,
        happened: Counter[str],
        intervals: Intervals,
    ) -> None:
        """``epoch``: of intake; ``log_id``: as far as the log was read; ``step``: the core has
        news; ``acknowledged``: users are told that these jobs are stored; ``binds_volumes``:
        claims get volumes; ``evictor``: the epoch of the writer of drains and restarts, None where
        there are none; ``happened``: counts what users see, by name."""
        self.refusals = LedgerRefusals()
        self._ledger = ledger
        self._core = core
        self._intake = intake
        self._step = step
        self._deposed = deposed
        self._acknowledged = acknowledged
        self._process = process
        self._policy = policy
        self._loop = loop
        self._compares_books = intervals.compares_books
        self._users: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue()
        self._group = asyncio.TaskGroup()

        self._workers = Workers(
            shards.configure,
            ledger=ledger,
            shards=shards,
            core=core,
            policies=policy,
            probes=Probes(),
            kick=step,
            times=WorkerTimes(
                heartbeat=intervals.heartbeat, policy=LOOK_SECONDS, lease=intervals.worker_lease
            ),
            clock=self._loop.time,
            wall_clock=self._loop.time,
        )

        async def bless() -> str:
            newest = max(log_id, self._workers.newest, key=log_position)
            return await ledger.bless(leadership.epoch, after=newest)

        run = AcceptedRun(bless, at_once(ledger.run_id()))
        self._workers.leads(leadership.epoch, run.accept)

        guard = asyncio.Lock()
        self._recorder = Recorder(
            ledger,
            epoch=leadership.epoch,
            run=run,
            renew=leadership.renew,
            current=core.victims.current,
            applied=self._applied,
            guard=guard,
            refusals=self.refusals,
        )
        self._writer = IntakeWriter(
            intake,
            ledger,
            writer=INTAKE,
            epoch=epoch,
            run=run,
            stored=self._stored,
            published=step,
            refusals=self.refusals,
            clock=self._loop.time,
        )
        led = LedCluster(cluster, leadership)
        self._binding = Binding(
            ledger,
            led,
            self._recorder,
            group=self._group,
            core=core,
            surely=leadership.surely,
            prebind=_Volumes(self._bind_claims, binds=binds_volumes),
            clock=self._loop.time,
        )
        self._executor = Executor(
            self._group,
            ledger=ledger,
            core=core,
            guard=guard,
            recorder=self._recorder,
            writer=self._writer,
            binding=self._binding,
            workers=self._workers,
            kick=step,
            clock=self._loop.time,
        )
        self._reconciling = Reconciling(
            ledger,
            led,
            core=core,
            intake=intake,
            recorder=self._recorder,
            writer=self._writer,
            binding=self._binding,
            guard=guard,
            every=intervals.reconcile,
            kick=step,
        )
        self._draining: Draining | None = None
        self._job_policies: JobLoop | None = None
        if evictor is not None:
            pods = PodEvictor(
                core.order,
                ledger,
                epoch=evictor,
                registry=lambda: intake.registry,
                run=run,
                kick=step,
                guard=guard,
                withdraw=self._binding.withdraw,
            )
            self._draining = Draining(core, pods, happened=happened)
            self._job_policies = JobLoop(core, intake, clock=self._loop.time)
            self._restarts = TaskRestarts(core.order, self._recorder, pods)
        self._loop.start(self._run())

    async def _run(self) -> None:
        try:
            async with self._group as group:
                group.create_task(self._begin())
        except* (Deposed, LedgerBehind):
            self._deposed()

    async def _begin(self) -> None:
        await self._reconciling.begin()
        for loop in (self._recorder.run(), self._writer.run(), self._serve()):
            self._group.create_task(loop)

    def lead(
        self,
        keep: Callable[[Policy], Awaitable[None]],
        audit: SimulatedAudit | None,
    ) -> None:
        """The default queue exists: start the workers, and the loops between ledger and cluster.
        ``keep`` stores a new policy."""
        binding, reconciling = self._binding, self._reconciling
        for loop in (
            binding.bind_forever(),
            binding.report_forever(),
            reconciling.run_forever(),
        ):
            self._group.create_task(loop)
        if self._compares_books:
            self._group.create_task(reconciling.audit_forever())
        if (policies := self._job_policies) is not None:
            policies.restored(self._intake.documents.values())
            self._group.create_task(policies.run(self._writer, self._restarts.begin_anew))
        self._group.create_task(self._workers.start_all(self._group))
        self._start_loop(partial(self._workers.heartbeat_forever, self._group))
        self._start_loop(partial(self._executor.sweep_forever, lambda: None, every=SWEEP_SECONDS))
        if audit is not None:
            self._start_loop(audit.run_forever)
        if self._policy.changing:
            self._start_loop(partial(self._workers.follow_policy_forever, keep))

    def _start_loop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a loop that does not keep a run going."""

        def start() -> None:
            self._loop.call_soon(lambda: self._group.create_task(loop()))

        self._process.round(0.0, start, background=True)

    def entries_added(self) -> None:
        """The bind stream may have new entries."""
        self._ledger.entries_added()

    @property
    def redelivered(self) -> int:
        """Entries of the bind stream that an earlier coordinator left unacknowledged."""
        return self._ledger.redelivered

    async def _serve(self) -> None:
        """Users ask one after the other: each has its answer before the next one asks."""
        while True:
            ask = await self._users.get()
            await ask()

    def _applied(self, items: list[StatusItem], applied: list[list[int]]) -> None:
        self._core.recorded(items, applied)
        if self._job_policies is not None:
            self._job_policies.recorded(items)
        self._step()

    def _stored(self, changes: Changes) -> None:
        self._core.admitted(changes)
        if self._job_policies is not None:
            self._job_policies.published(changes)

    # --- users ----------------------------------------------------------------------------------

    def admit(
        self, items: list[dict[str, Any]], done: Event, *, wanted: Wanted = lambda: True
    ) -> None:
        """Submit objects; one whose name is being deleted waits until it is free, or is wanted no
        more. AssertionError if an object is refused: a seeded run submits only valid ones."""
        self._users.put_nowait(partial(self._admit, items, done, wanted))

    async def _admit(self, items: list[dict[str, Any]], done: Event, wanted: Wanted) -> None:
        if not wanted():
            return
        admission = await self._writer.submit(items, atomic=True)
        if admission.refused:
            assert all(map(_going, admission.refused)), admission.refused
            again = partial(self.admit, items, done, wanted=wanted)
            self._loop.call_later(TRY_AGAIN_SECONDS, again)
            return
        self._acknowledged([job.jid for job in admission.jobs])
        done()

    def remove(self, key: Key, done: Event) -> None:
        """Delete an object. An unknown one was deleted before; one that others depend on is deleted
        after them."""
        self._users.put_nowait(partial(self._remove, key, done))

    async def _remove(self, key: Key, done: Event) -> None:
        admission = (await self._writer.change(key, lambda _: None)).admission
        reasons = {refusal.reason for refusal in admission.refused}
        assert reasons <= {"NotFound", "Conflict"}, admission.refused
        if "Conflict" in reasons:
            self._loop.call_later(TRY_AGAIN_SECONDS, lambda: self.remove(key, done))
        else:
            done()

    def drain(self, node: str, done: Event) -> None:
        """Evict what a Job has on the node. It takes its time, and others ask meanwhile."""
        self._users.put_nowait(partial(self._begin_drain, node, done))

    async def _begin_drain(self, node: str, done: Event) -> None:
        assert self._draining is not None
        self._ask(partial(self._draining.drain, node), done)

    async def _bind_claims(self, bindings: Sequence[ClaimBinding]) -> None:
        """Store that claims have volumes."""
        admission = await self._writer.apply(partial(bind_claims, self._intake, bindings))
        assert not admission.refused, admission.refused

    # --- the leader's callbacks -----------------------------------------------------------------

    def execute(self, instruction: Instruction) -> None:
        self._executor.execute(instruction)

    def store(self, ops: list[IntakeOp], done: Event) -> None:
        self._ask(partial(self._writer.store, ops), done)

    async def stored(self, ops: list[IntakeOp]) -> None:
        await self._writer.store(ops)

    def _ask(self, question: Callable[[], Coroutine[Any, Any, object]], done: Event) -> None:
        async def asking() -> None:
            await question()
            done()

        self._loop.call_soon(lambda: self._group.create_task(asking()))

    def validate(self) -> None:
        """Raise AssertionError if the coordinator's state is inconsistent, or a job waits for an
        outcome that will never come."""
        if self._executor.rereads:  # those jobs wait for the truth that is on its way
            self._core.order.validate()
        else:
            self._core.validate()


class _Volumes:
    """Volumes are bound as the service binds them, or by nobody, as in a record. Devices of claims
    are left to the sessions."""

    def __init__(
        self, bind: Callable[[Sequence[ClaimBinding]], Awaitable[None]], *, binds: bool
    ) -> None:
        self._bind = bind
        self._binds = binds

    def asked(self, claim: str) -> bool:
        return not self._binds

    async def bind_claims(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        await self._bind(chosen)
        return {}

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        return {}

    async def free_forever(self) -> None:
        pass


def _going(refusal: Refusal) -> bool:
    return "being deleted" in refusal.message


class Draining:
    """Drains of nodes, as ``kubectl drain`` requests them of a leader. ``happened``: counts events
    visible to users, by name."""

    def __init__(self, core: Coordinator, evictor: PodEvictor, *, happened: Counter[str]) -> None:
        self._core = core
        self._evictor = evictor
        self._happened = happened

    async def drain(self, node: str) -> None:
        """Evict the pods of Jobs on a node until none is left, or time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_SECONDS
        while tasks := self._on(node):
            if loop.time() > deadline:
                self._happened["drain gave up"] += 1
                return
            for task in tasks:
                came = await self._evictor.evict(task, action=Action.EVICT, requester="drain")
                if isinstance(came, EvictionRefusal):
                    self._happened[f"eviction refused: {came.obstacle.name}"] += 1
                else:
                    self._happened["evicted on request"] += 1
            await asyncio.sleep(RETRY_SECONDS)
        self._happened["drained"] += 1

    def _on(self, node: str) -> list[Task]:
        """The tasks on the node that a Job would make anew."""
        core = self._core
        return [
            (jid, tix)
            for jid, state in core.order.jobs.items()
            if state.job.kind == "Job"
            for tix, task_state in enumerate(state.states)
            if task_state in HOLDING and core.names.get(state.rows[tix]) == node
        ]
