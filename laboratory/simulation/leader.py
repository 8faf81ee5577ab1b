"""The service's part of one coordinator in a seeded run, from its leadership to its death."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.core.policy_record import policy_op
from coordinator.dispatch.instructions import Instruction
from coordinator.intake.admission.registry import Registry
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from coordinator.ledger_audit.recount import recount
from coordinator.service.bind_loop import CONSUMER
from coordinator.service.leadership.lease import Leadership
from coordinator.service.leadership.lease_keeper import LeaseKeeper
from coordinator.service.leadership.standby import Standby
from coordinator.service.pod_evictor import EVICTOR
from laboratory.simulation.bold_evictor import SIMULATED
from laboratory.simulation.intervals import Intervals
from laboratory.simulation.ledger_audit import SimulatedAudit
from laboratory.simulation.policy_file import PolicyLook, SeededPolicies
from laboratory.simulation.process import Alarm, Process, RepeatedCall, Thread
from laboratory.simulation.remote_cluster import ClusterProcess, RemoteCluster
from laboratory.simulation.remote_ledger import RemoteLedger
from laboratory.simulation.service_edges import INTAKE, ServiceEdges, Wanted
from laboratory.simulation.virtual_loop import virtual_loop
from laboratory.simulation.virtual_time import Event, Place, Timeline
from laboratory.simulation.worker import SeededWorkerConfig
from laboratory.simulation.workers import SimulatedShards
from shared.codec.packed import replace
from shared.ledger.errors import Deposed, LedgerBehind
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch
from shared.policy.model import Policy

LEDGER = "seeded"
"""The id of the ledger."""

IDLE_STEP_SECONDS = 0.05
"""Minimum delay until due work is checked again if nothing else happens."""

LOOK_SECONDS = 0.5
"""Interval of looks whether anything is left to do."""

IDLE_LOOKS = 1
"""After more successive looks than this without work the run is over."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a coordinator, which outlives it."""

    timeline: Timeline
    ledger: MemoryLedger
    cluster: ClusterProcess
    workers: SeededWorkerConfig
    policies: SeededPolicies
    intervals: Intervals
    acknowledged: Callable[[list[int]], None]
    """Users are told that these jobs are stored."""
    binds_volumes: bool = True
    """Whether claims get volumes; a recorded cluster has no controller that does it."""
    evicts: bool = False
    """Whether nodes are drained, or policies of Jobs begin pods anew: leaders claim the writer of
    such evictions, and carry the policies out."""
    audits: bool = True
    """Whether leaders audit the ledger; nothing that they decide depends on it."""


class CoordinatorIncarnation:
    """One incarnation of a coordinator. ``core`` starts empty: it knows only what the ledger
    holds."""

    def __init__(
        self,
        core: Coordinator,
        world: Environment,
        *,
        number: int,
        holder: str,
        ready: Event,
        deposed: Event,
    ) -> None:
        """``number``: of all that ever began; ``ready``: objects may be submitted; ``deposed``:
        another one took, or may take, the leadership."""
        self.core = core
        self.process = process = Process(world.timeline)
        self.open = False
        """Whether objects may be submitted."""
        self._ledger = world.ledger
        self._world = world
        self._ready = ready
        self._deposed = deposed
        self._intake = Intake(ours=None, dialect=world.policies.current.dialect)
        self._alarm = Alarm(process, self._step_now)
        self._idle_looks = 0
        self.edges: ServiceEdges | None = None
        self.audit: SimulatedAudit | None = None
        self._policy = PolicyLook(world.policies)
        self.shards = SimulatedShards(
            world.workers,
            policy=lambda: self._policy.in_force,
            process=process,
            ledger=world.ledger,
            committed=self._committed,
            lease=world.intervals.worker_lease,
        )
        self.holder = holder
        self._remote = RemoteLedger(process, world.ledger)
        self._loop = virtual_loop(process, seed=number)
        self.term = 0
        """Number of this leadership; 0 before it leads."""
        self._standby = Standby(
            self._remote,
            self._intake,
            core,
            lease=world.intervals.leader_lease,
            holder=holder,
            recount=partial(recount, world.ledger),
            clock=self._loop.time,
        )

    @property
    def registry(self) -> Registry:
        """Its objects."""
        return self._intake.registry

    # --- birth and death ----------------------------------------------------------------------

    def begin(self) -> None:
        """Stand by until the leadership is free, which does not keep a run going."""
        stand_by = self._stand_by
        self.process.round(0.0, lambda: self._loop.start(stand_by()), background=True)

    async def _stand_by(self) -> None:
        with self._unless_deposed():
            leadership = await self._standby.wait()
            lead = self._lead
            self.process.foreground(lambda: self._loop.start(lead(leadership)))

    @contextmanager
    def _unless_deposed(self) -> Iterator[None]:
        try:
            yield
        except (Deposed, LedgerBehind):
            self._deposed()

    async def _lead(self, leadership: Leadership) -> None:
        """Claim every writer, read the rest of the ledger, accept the server's run."""
        with self._unless_deposed():
            ledger, epoch = self._remote, leadership.epoch
            self.term = epoch.counter
            keep = self._keep_lease
            self.process.round(0.0, lambda: self._loop.start(keep(leadership)), background=True)
            intake = await ledger.claim(INTAKE, leader=epoch)
            evicts = self._world.evicts
            evictor = await ledger.claim(EVICTOR, leader=epoch) if evicts else None
            lease = self._world.intervals.worker_lease
            for shard in self.core.dispatcher.shards:
                await ledger.claim(str(shard), leader=epoch, lease=lease)
            await self._standby.take_up(epoch)
            await self._standby.catch_up()
            await self._standby.finish()
            await ledger.bless(epoch, after=self._standby.log_id)
            self._take_leadership(leadership, intake, evictor)

    async def _keep_lease(self, leadership: Leadership) -> None:
        with self._unless_deposed():
            await leadership.keep_forever(partial(KeeperTimers, self.process, self._ledger))

    def _take_leadership(
        self, leadership: Leadership, intake: Epoch, evictor: Epoch | None
    ) -> None:
        core, process, ledger = self.core, self.process, self._ledger
        core.validate()
        self.edges = ServiceEdges(
            loop=self._loop,
            ledger=self._remote,
            cluster=RemoteCluster(process, self._world.cluster),
            leadership=leadership,
            core=core,
            intake=self._intake,
            epoch=intake,
            log_id=self._standby.log_id,
            step=self._step,
            deposed=self._deposed,
            acknowledged=self._world.acknowledged,
            process=process,
            shards=self.shards,
            policy=self._policy,
            binds_volumes=self._world.binds_volumes,
            evictor=evictor,
            happened=process.timeline.struck,
            intervals=self._world.intervals,
        )
        policy = self._recorded_policy(core.order.session.policy)
        self.edges.store([policy_op(policy)], lambda: None)
        if self._world.audits:
            self.audit = SimulatedAudit(ledger, now=self._loop.time)
        self.edges.admit([], self._open)

    def _recorded_policy(self, policy: Policy) -> Policy:
        """The policy for the history; evicting workers have an additional action."""
        if not self._world.workers.evicting:
            return policy
        return replace(policy, actions=(*policy.actions, SIMULATED))

    def _open(self) -> None:
        """The default queue exists: start everything else."""
        assert self.edges is not None
        self.edges.lead(self._keep, self.audit)
        self._repartition()
        self.process.round(LOOK_SECONDS, self._look)
        self.open = True
        self._ready()
        self._step()

    def die(self) -> None:
        self.process.alive = False
        self._loop.abandon()
        self.shards.orphan()

    def validate(self) -> None:
        """To be called between events; see :meth:`ServiceEdges.validate`."""
        if self.edges is not None and self.process.alive:
            self.edges.validate()

    # --- events -------------------------------------------------------------------------------

    def admit(self, items: list[dict[str, Any]], durable: Event, *, wanted: Wanted) -> None:
        """Submit objects to intake."""
        assert self.edges is not None
        self.edges.admit(items, lambda: self._stored(durable), wanted=wanted)

    def remove(self, key: Key, durable: Event) -> None:
        """Submit a deletion to intake."""
        assert self.edges is not None
        self.edges.remove(key, lambda: self._stored(durable))

    def drain(self, node: str, done: Event) -> None:
        """Evict the pods of a node."""
        assert self.edges is not None
        self.edges.drain(node, done)

    def _stored(self, durable: Event) -> None:
        durable()
        self._repartition()
        self._step()

    def _committed(self) -> None:
        if self.edges is not None:
            self.edges.entries_added()

    def _step(self) -> None:
        """Schedule one step after all events of this moment."""
        self._alarm.set(self.process.now)

    def _step_now(self) -> None:
        for instruction in self.core.step(self.process.now):
            self._execute(instruction)
        if self.core.unfinished:
            self._alarm.set(self.process.now)
            return
        due = self.core.next_due()
        if due is not None:
            self._alarm.set(max(due, self.process.now + IDLE_STEP_SECONDS))

    def _execute(self, instruction: Instruction) -> None:
        assert self.edges is not None
        self.edges.execute(instruction)

    def _repartition(self) -> None:
        instruction = self.core.repartition(self.process.now)
        if instruction is not None:
            self._execute(instruction)

    @property
    def over(self) -> bool:
        """Whether all work is done."""
        return self._idle_looks > IDLE_LOOKS and self.process.timeline.quiet()

    async def _keep(self, policy: Policy) -> None:
        """Store a new policy, and have new workers run it."""
        assert self.edges is not None
        await self.edges.stored([policy_op(self._recorded_policy(policy))])
        self._policy.in_force = policy

    def _look(self) -> None:
        """Count looks that find nothing to do, no nomination that is yet to be swept either."""
        ledger = self._ledger
        bound = not at_once(ledger.read_binds(CONSUMER, own=True))
        swept = not at_once(ledger.read_nominations())
        quiet = self.process.timeline.quiet() and settled(self.core) and bound and swept
        self._idle_looks = self._idle_looks + 1 if quiet else 0
        self.process.round(LOOK_SECONDS, self._look)


def settled(core: Coordinator) -> bool:
    """Whether every job is finished or gone."""
    jobs = core.status()["jobs"]
    going = core.leaving or core.order.departures.members
    return bool(jobs["finished"] == jobs["submitted"] and not going)


class KeeperTimers:
    """Implements :class:`coordinator.service.leadership.lease_keeper.RunsKeeper`."""

    def __init__(self, process: Process, ledger: MemoryLedger, keeper: LeaseKeeper) -> None:
        self._thread = Thread(process)
        self._ledger = ledger
        self._keeper = keeper

    def start(self) -> None:
        self._thread.round(self._keeper.pause(), self._act, background=True)

    def resume(self) -> None:
        self.start()

    def stop(self) -> None:
        """Its timers end with the process, as does a leader that lost the leadership."""

    def _act(self) -> None:
        keeper, sent = self._keeper, self._keeper.clock()

        def ask() -> bool:
            return at_once(self._ledger.renew(COORDINATOR, keeper.epoch, lease=keeper.seconds))

        def answer(renewed: bool) -> None:
            keeper.answered(renewed, sent=sent)
            if renewed:
                self.start()

        if keeper.may_renew():
            RepeatedCall(self._thread, Place.LEDGER, "renew", ask, answer).send()
        else:
            self.start()
