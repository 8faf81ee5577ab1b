"""One seeded run: the parts put together, the loop over virtual time, the history it leaves."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from coordinator.cluster.kubelets import Kubelets
from coordinator.core import Coordinator
from coordinator.history import HistoryFile
from coordinator.objects.document import Key
from coordinator.simulation.binding import SimulatedBinding
from coordinator.simulation.life import Life, World
from coordinator.simulation.shards import EVERYTHING, SimulatedShards, WorkerConfig
from coordinator.simulation.timeline import Network, Timeline
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shared.ledger.double import LedgerDouble
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
        history: HistoryFile | None = None,
    ) -> None:
        """``core`` makes an empty coordinator, ``session`` opens a session per worker; one worker
        for each shard."""
        self.history = history
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
        self._crashes: dict[int, float] = {}
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
        for wish in list(self._unanswered):
            self._hand_over(wish)

    def _hand_over(self, wish: list[dict[str, Any]] | Key) -> None:
        def answered() -> None:
            self._unanswered.remove(wish)

        if isinstance(wish, Key):
            self.life.remove(wish, answered)
        else:
            self.life.admit(wish, answered)

    def kill_worker(self, shard: int, *, at: float) -> None:
        """The worker of a shard dies; a batch it has under way may arrive all the same."""
        self.timeline.after(at, lambda: self.shards.kill(shard))

    def pause_worker(self, shard: int, *, at: float, seconds: float) -> None:
        """The worker stands still; where that is too long it is given up, and wakes deposed."""
        self.timeline.after(at, lambda: self.shards.pause(shard, seconds))

    def crash_coordinator(self, *, event: int, away: float) -> None:
        """It dies after so many events of the run; its successor comes ``away`` seconds later."""
        self._crashes[event] = away

    def restart_server(self, *, at: float) -> None:
        """The ledger's server dies and comes back with all that it had confirmed: it takes nothing
        more until somebody accepts its new run."""
        self.timeline.after(at, self.ledger.restart)

    def run(self, *, until: float = float("inf"), inspect: Callable[[], None] | None = None) -> int:
        """Process events until all is done or virtual time reaches ``until``; returns how many.

        ``inspect`` is called after each of them."""
        count = 0
        while (event := self.timeline.next_event(until)) is not None:
            event()
            count += 1
            if count in self._crashes:
                self._crash(away=self._crashes[count])
            self._note()
            if inspect is not None:
                inspect()
            if self.life.over:
                break
        return count

    # --- the history --------------------------------------------------------------------------

    def _note(self) -> None:
        """What the ledger and the cluster did in this moment."""
        if self.history is None:
            return
        entries = at_once(self.ledger.read_log(self.history.position, count=EVERYTHING))
        self.history.ledger_entries(entries)
        self.history.cluster_events(self.kubelets.drain())
