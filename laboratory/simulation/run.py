"""A seeded run: the parts, the loop over virtual time, and the history."""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.core.coordinator import Coordinator
from coordinator.intake.documents.document import Key
from coordinator.ledger_audit.findings import Finding
from laboratory.simulation.history import Notes
from laboratory.simulation.intervals import Intervals
from laboratory.simulation.leader import CoordinatorIncarnation, Environment
from laboratory.simulation.policy_file import SeededPolicies
from laboratory.simulation.process import halt
from laboratory.simulation.remote_cluster import ClusterProcess
from laboratory.simulation.scenario import Fault, FaultKind, story_of, story_of_key
from laboratory.simulation.seen_log import SeenLedger
from laboratory.simulation.virtual_time import START, Event, Network, Place, Timeline
from laboratory.simulation.worker import EVERYTHING, SeededWorkerConfig
from laboratory.simulation.workers import SimulatedShards
from shard_worker.turns.extender_http import Ask, ask_over_http
from shard_worker.view.mode import Mode
from shared.ledger.entries.log import CommitEntry
from shared.ledger.memory.server import ServerCopy
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import Epoch
from shared.policy.model import Policy

RESTART_SECONDS = 0.05
"""Delay until a deposed coordinator starts again."""


Crash = tuple[str, int, bool]
"""The coordinator dies at the Nth event with this name: (name, N, True for right before the
event)."""


@dataclass(frozen=True, slots=True)
class _Drain:
    node: str


_Asked = list[dict[str, Any]] | Key | _Drain
"""Objects to create or change, the key of one to delete, or a node to drain."""


@dataclass(slots=True, eq=False)
class _Unanswered:
    what: _Asked


def _is_pod_of(group: str, item: dict[str, Any]) -> bool:
    return item["kind"] == "Pod" and story_of(item) == group


class Simulation:
    """Schedule submissions and faults, then :meth:`run`."""

    def __init__(
        self,
        core: Callable[[], Coordinator],
        *,
        policies: SeededPolicies,
        kubelets: Kubelets,
        mode: Mode,
        seed: int,
        network: Network | None = None,
        lose: Callable[[], None] = lambda: None,
        standby: bool = False,
        evicting: bool = False,
        notes: Notes | None = None,
        binds_volumes: bool = True,
        evicts: bool = False,
        audits: bool = True,
        intervals: Intervals | None = None,
        ask: Ask = ask_over_http,
        start: float = START,
    ) -> None:
        """``core`` makes an empty coordinator, with a session of ``policies``; one worker per
        shard. ``lose``: makes some tasks vanish from their nodes. ``binds_volumes``, ``evicts``
        and ``audits``: see :class:`Environment`. ``ask`` sends workers' questions to an extender.
        ``start``: when time begins, seconds since 1970."""
        self.notes = notes
        self.events = 0
        """Number of events so far."""
        self.kubelets = kubelets
        self._clock_ahead = 0.0
        """Seconds that the server's clock is ahead of the others."""
        self.timeline = timeline = Timeline(seed, network or Network(), start=start)
        self.ledger = SeenLedger(
            random.Random(seed + 1),
            clock=lambda: timeline.now + self._clock_ahead,
            gives_up=self._give_up,
        )
        self._make_core = core
        self._lose = lose
        self._world = Environment(
            timeline=timeline,
            ledger=self.ledger,
            cluster=ClusterProcess(timeline, kubelets),
            policies=policies,
            workers=SeededWorkerConfig(mode=mode, seed=seed, evicting=evicting, ask=ask),
            acknowledged=self._acknowledged,
            binds_volumes=binds_volumes,
            evicts=evicts,
            audits=audits,
            intervals=intervals or Intervals(),
        )
        self.crash: Crash | None = None
        self.happened: Counter[str] = Counter()
        """Number of events by name."""
        self._position, self._length = "0", 0
        self._unanswered: list[_Unanswered] = []
        self._groups: dict[str, float] = {}
        """Group, by its story -> when it is submitted for the last time, seconds after start."""
        self._holders: dict[str, CoordinatorIncarnation] = {}
        self.incarnations: list[CoordinatorIncarnation] = []
        self._led = self._begin("a")
        if standby:
            self._begin("b")

    # --- the coordinators ---------------------------------------------------------------------

    @property
    def incarnation(self) -> CoordinatorIncarnation:
        """The coordinator that led last, dead or alive; before that the first one."""
        return self._led

    @property
    def core(self) -> Coordinator:
        return self.incarnation.core

    @property
    def shards(self) -> SimulatedShards:
        return self.incarnation.shards

    @property
    def redelivered(self) -> int:
        """Entries of the bind stream that a leader found unacknowledged by an earlier one."""
        return sum(
            incarnation.edges.redelivered
            for incarnation in self.incarnations
            if incarnation.edges is not None
        )

    @property
    def audited(self) -> list[Finding]:
        """Findings of the ledger audits of all leaders so far."""
        audits = (
            incarnation.audit for incarnation in self.incarnations if incarnation.audit is not None
        )
        return [finding for audit in audits for finding in audit.found]

    @property
    def refused_writes(self) -> int:
        """Writes of all leaders so far that the ledger refused as wrong."""
        every = (
            incarnation.edges for incarnation in self.incarnations if incarnation.edges is not None
        )
        return sum(edges.refusals.count.total() for edges in every)

    @property
    def over(self) -> bool:
        """Whether all wishes are done, and nothing more will happen."""
        return self.incarnation.over and not self._unanswered

    def _begin(self, holder: str) -> CoordinatorIncarnation:
        """Start an empty coordinator, which stands by until the leadership is free."""
        incarnation = CoordinatorIncarnation(
            self._make_core(),
            self._world,
            number=len(self.incarnations),
            holder=holder,
            ready=lambda: self._ready(incarnation),
            deposed=lambda: self._end(incarnation, away=RESTART_SECONDS),
        )
        self.incarnations.append(incarnation)
        self._holders[holder] = incarnation
        incarnation.begin()
        return incarnation

    def _end(self, incarnation: CoordinatorIncarnation, *, away: float) -> None:
        """End this coordinator with all its state; it restarts after ``away`` seconds."""
        if not incarnation.process.alive:
            return
        if incarnation is self._led:
            self.timeline.fell("leader")
        incarnation.die()

        def start_again() -> None:
            self._begin(incarnation.holder)

        self.timeline.after(away, start_again)

    def _give_up(self, epoch: Epoch) -> None:
        """The ledger lacks entries that were seen: the coordinator that noticed ends, and is
        restarted."""
        for incarnation in list(self._holders.values()):
            if incarnation.term == epoch.counter:
                self._end(incarnation, away=RESTART_SECONDS)

    def _ready(self, incarnation: CoordinatorIncarnation) -> None:
        """It leads now: unanswered requests are submitted to it."""
        if incarnation.term < self._led.term:
            return  # it stood still when it had taken the leadership, and another one has it by now
        self.timeline.rose("leader")
        self._led = incarnation
        if self.notes is not None and (usage := incarnation.core.order.contexts.usage()):
            self._note()  # the epoch that it took comes before what its turns are told
            self.notes.measured(self.timeline.now, usage)
        for wish in list(self._unanswered):
            self._hand_over(wish)

    @property
    def _standby(self) -> CoordinatorIncarnation | None:
        """A living coordinator that does not lead."""
        others = (
            incarnation for incarnation in self._holders.values() if incarnation is not self._led
        )
        return next((incarnation for incarnation in others if incarnation.process.alive), None)

    # --- what happens -------------------------------------------------------------------------

    def submit(self, items: list[dict[str, Any]], *, at: float = 0.0) -> None:
        """A user submits objects ``at`` seconds after the start. If no coordinator acknowledges
        them, they are submitted again to the next leader, in the same order."""
        for group in (story_of(item) for item in items if item["kind"] == "PodGroup"):
            self._groups[group] = max(at, self._groups.get(group, at))
        self._ask(items, at)

    def delete(self, key: Key, *, at: float) -> None:
        """A user deletes an object, in order with submissions. With a group that is deleted for
        good its pods are given up that wait until their names are free: they would wait for the
        group for ever (seed 142117)."""
        self._ask(key, at)
        if key.kind in ("PodGroup", "KaiPodGroup"):
            self.timeline.after(at, lambda: self._give_up_pods(story_of_key(key), at))

    def drain(self, node: str, *, at: float) -> None:
        """A user drains a node, which was cordoned before. Sent again to the next leader if this
        one dies meanwhile."""
        self._ask(_Drain(node), at)

    def _ask(self, what: _Asked, at: float) -> None:
        def arrive() -> None:
            wish = _Unanswered(what)
            self._unanswered.append(wish)
            if self.incarnation.process.alive and self.incarnation.open:
                self._hand_over(wish)

        self.timeline.after(at, arrive)

    def _give_up_pods(self, group: str, at: float) -> None:
        if self._groups.get(group, 0.0) > at:
            return  # it comes back
        for wish in list(self._unanswered):
            if isinstance(wish.what, list) and any(_is_pod_of(group, item) for item in wish.what):
                self._unanswered.remove(wish)

    def _hand_over(self, wish: _Unanswered) -> None:
        def answered() -> None:
            if wish in self._unanswered:  # else another coordinator was quicker
                self._unanswered.remove(wish)

        match wish.what:
            case Key() as key:
                self.incarnation.remove(key, answered)
            case _Drain(node):
                self.incarnation.drain(node, answered)
            case items:
                self.incarnation.admit(items, answered, wanted=lambda: wish in self._unanswered)

    def strike(self, fault: Fault) -> None:
        """Inject a fault at its time. Its target may be dead by then."""

        def happen() -> None:
            self.timeline.struck[fault.kind.value] += 1
            self._befall(fault)

        self.timeline.after(fault.at, happen)

    def bring_back_old_copy(self, *, at: float, age: float) -> None:
        """Kill the server ``at`` seconds after the start, and restart it with a copy of its data
        that is ``age`` seconds old. Users of objects missing in it had been told that they are
        stored."""
        copies: list[ServerCopy] = []

        def happen() -> None:
            self.timeline.struck["old copy"] += 1
            self.ledger.bring_back(copies[0])

        self.timeline.after(at - age, lambda: copies.append(self.ledger.copy()))
        self.timeline.after(at, happen)

    def change_policy(self, policy: Policy, *, at: float) -> None:
        """Change the policy file at this time."""
        policies = self._world.policies
        policies.changing = True

        def happen() -> None:
            self.timeline.struck["policy changed"] += 1
            policies.change(policy)

        self.timeline.after(at, happen)

    def _befall(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.WORKER_KILLED:
                self.shards.kill(fault.shard)
            case FaultKind.WORKER_PAUSED:
                self.shards.pause(fault.shard, fault.seconds)
            case FaultKind.LEADER_KILLED:
                self._end(self.incarnation, away=fault.seconds)
            case FaultKind.LEADER_PAUSED:
                halt(self.incarnation.process, fault.seconds)
            case FaultKind.LEADER_STUCK:
                self.incarnation.process.stick(fault.seconds)
            case FaultKind.STANDBY_KILLED:
                if self._standby is not None:
                    self._end(self._standby, away=fault.seconds)
            case FaultKind.STANDBY_PAUSED:
                if self._standby is not None:
                    halt(self._standby.process, fault.seconds)
            case FaultKind.CLOCK_JUMPED:
                self._clock_ahead += fault.seconds
            case FaultKind.SERVER_RESTARTED:
                self.timeline.fell("server")
                self.ledger.restart()
            case FaultKind.SERVER_AWAY:
                self.timeline.fell("server")
                self.timeline.leave(Place.LEDGER, fault.seconds)
            case FaultKind.TASKS_LOST:
                self._lose()
            case FaultKind.CLUSTER_AWAY:
                self.timeline.leave(Place.CLUSTER, fault.seconds)

    def run(self, *, until: float = float("inf"), inspect: Callable[[], None] | None = None) -> int:
        """Process events until all is done or virtual time reaches ``until``; returns their number.
        ``inspect`` is called after each of them."""
        with silent_log():
            next_event = self.timeline.next_event
            while (due := next_event(until)) is not None:
                self._happen(*due)
                self._note()
                if inspect is not None:
                    inspect()
                if self.over:
                    break
        return self.events

    def _happen(self, what: str, event: Event, background: bool) -> None:
        self.events += 1
        if what:
            self.happened[what] += 1
        dies_before = dies_after = False
        if self.crash is not None and self.crash[:2] == (what, self.happened[what]):
            dies_before, dies_after = self.crash[2], not self.crash[2]
        if dies_before:
            self._end(self.incarnation, away=0.0)
        self.timeline.in_background = background
        event()
        self.timeline.in_background = False
        if dies_after:
            self._end(self.incarnation, away=0.0)

    # --- the history --------------------------------------------------------------------------

    def _acknowledged(self, jids: list[int]) -> None:
        if self.notes is not None and jids:
            self.notes.acknowledged(self.timeline.now, jids)

    def _note(self) -> None:
        """Record what the ledger and the cluster did in this moment."""
        if self.notes is None:
            return
        if self.notes.reads_ledger and (length := self.ledger.length) != self._length:
            self._length = length
            entries = at_once(self.ledger.read_log(self._position, count=EVERYTHING))
            self.notes.ledger_entries(entries, self.timeline.now)
            self._position = entries[-1].id
            if any(isinstance(entry, CommitEntry) for entry in entries):
                self.timeline.rose("server")
        if events := self.kubelets.drain():
            self.notes.cluster_events(events)


@contextlib.contextmanager
def silent_log() -> Iterator[None]:
    """Drop log lines of this process within the block, but for critical ones: a run of a thousand
    seeds must not write them."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
