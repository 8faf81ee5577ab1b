"""One seeded run: the parts put together, the loop over virtual time, the history it leaves."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from coordinator.cluster.kubelets import Kubelets
from coordinator.core import Coordinator
from coordinator.objects.document import Key
from coordinator.simulation.binding import SimulatedBinding
from coordinator.simulation.life import Life, World
from coordinator.simulation.notes import Notes
from coordinator.simulation.scenario import Fault, FaultKind
from coordinator.simulation.shards import EVERYTHING, SimulatedShards, WorkerConfig
from coordinator.simulation.timeline import Network, Place, Timeline
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import CommitEntry
from shared.ledger.synchronous import at_once


class Simulation:
    """Say what is submitted and what goes wrong when, then :meth:`run`."""

    def __init__(
        self,
        core: Callable[[], Coordinator],
        *,
        session: Callable[[], Session],
        kubelets: Kubelets,
        mode: Mode,
        seed: int,
        network: Network | None = None,
        notes: Notes | None = None,
    ) -> None:
        """``core`` makes an empty coordinator, ``session`` opens a session per worker; one worker
        for each shard."""
        self.notes = notes
        self.events = 0
        """How many happened so far."""
        self.kubelets = kubelets
        self.timeline = timeline = Timeline(seed, network or Network())
        self.ledger = LedgerDouble(random.Random(seed + 1), clock=lambda: timeline.now)
        self._make_core = core
        self._world = World(
            timeline=timeline,
            ledger=self.ledger,
            kubelets=kubelets,
            workers=WorkerConfig(session=session, mode=mode, seed=seed),
        )
        self._crashes: dict[tuple[str, int], bool] = {}
        self._happened: Counter[str] = Counter()
        self._position = "0"
        self._unanswered: deque[list[dict[str, Any]] | Key] = deque()
        self.lives: list[Life] = []
        self._begin()

    # --- the coordinator in charge ------------------------------------------------------------

    @property
    def life(self) -> Life:
        """The last coordinator; between two, the dead one."""
        return self.lives[-1]

    @property
    def core(self) -> Coordinator:
        return self.life.core

    @property
    def shards(self) -> SimulatedShards:
        return self.life.shards

    @property
    def bindings(self) -> list[SimulatedBinding]:
        """Of every coordinator that came so far."""
        return [life.binding for life in self.lives if life.binding is not None]

    def _begin(self) -> None:
        """A coordinator starts that knows nothing."""
        life = Life(
            self._make_core(),
            self._world,
            ready=self._submit_unanswered,
            deposed=lambda: self._crash(away=0.0),
        )
        self.lives.append(life)
        life.begin()

    def _crash(self, *, away: float) -> None:
        """All that the coordinator knew is gone; another starts after ``away`` seconds."""
        if self.life.process.alive:
            self.timeline.fell("leader")
            self.life.die()
            self.timeline.after(away, self._begin)

    # --- what happens -------------------------------------------------------------------------

    def submit(self, items: list[dict[str, Any]], *, at: float = 0.0) -> None:
        """A user submits objects ``at`` seconds after the start; what no coordinator has said to
        be durable is submitted again to the next one, in the same order."""
        self._ask(items, at)

    def delete(self, key: Key, *, at: float) -> None:
        """A user deletes an object, in order with what is submitted."""
        self._ask(key, at)

    def _ask(self, wish: list[dict[str, Any]] | Key, at: float) -> None:
        def arrive() -> None:
            self._unanswered.append(wish)
            if self.life.process.alive and self.life.open:
                self._hand_over(wish)

        self.timeline.after(at, arrive)

    def _submit_unanswered(self) -> None:
        self.timeline.rose("leader")
        for wish in list(self._unanswered):
            self._hand_over(wish)

    def _hand_over(self, wish: list[dict[str, Any]] | Key) -> None:
        def answered() -> None:
            self._unanswered.remove(wish)

        if isinstance(wish, Key):
            self.life.remove(wish, answered)
        else:
            self.life.admit(wish, answered)

    def strike(self, fault: Fault) -> None:
        """Something goes wrong at its time. Whom it would befall may be dead by then."""

        def happen() -> None:
            self.timeline.struck[fault.kind] += 1
            self._befall(fault)

        self.timeline.after(fault.at, happen)

    def _befall(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.WORKER_KILLED:
                self.shards.kill(fault.shard)
            case FaultKind.WORKER_PAUSED:
                self.shards.pause(fault.shard, fault.seconds)
            case FaultKind.LEADER_KILLED:
                self._crash(away=fault.seconds)
            case FaultKind.LEADER_PAUSED:
                self.life.process.pause(fault.seconds)
            case FaultKind.SERVER_RESTARTED:
                self.timeline.fell("server")
                self.ledger.restart()
            case FaultKind.SERVER_AWAY:
                self.timeline.fell("server")
                self.timeline.leave(Place.LEDGER, fault.seconds)
            case FaultKind.CLUSTER_AWAY:
                self.timeline.leave(Place.CLUSTER, fault.seconds)

    def crash_at(self, what: str, number: int, *, before: bool) -> None:
        """The coordinator dies right before or right after an event of this name, the so many-th of
        the run; its successor starts at once."""
        self._crashes[what, number] = before

    def run(self, *, until: float = float("inf"), inspect: Callable[[], None] | None = None) -> int:
        """Process events until all is done or virtual time reaches ``until``; returns how many.

        ``inspect`` is called after each of them."""
        while (found := self.timeline.next_event(until)) is not None:
            self._happen(*found)
            self._note()
            if inspect is not None:
                inspect()
            if self.life.over:
                break
        return self.events

    def _happen(self, what: str, event: Callable[[], None]) -> None:
        self.events += 1
        self._happened[what] += 1
        before = self._crashes.get((what, self._happened[what])) if self._crashes else None
        if before is True:
            self._crash(away=0.0)
        event()
        if before is False:
            self._crash(away=0.0)

    # --- the history --------------------------------------------------------------------------

    def _note(self) -> None:
        """What the ledger and the cluster did in this moment."""
        if self.notes is None:
            return
        tail = at_once(self.ledger.log_tail())
        if tail != self._position:
            entries = at_once(self.ledger.read_log(self._position, count=EVERYTHING))
            self.notes.ledger_entries(entries)
            self._position = tail
            if any(isinstance(entry, CommitEntry) for entry in entries):
                self.timeline.rose("server")
        self.notes.cluster_events(self.kubelets.drain())
