"""One seeded run: the parts put together, the loop over virtual time, the history it leaves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from coordinator.cluster.kubelets import Kubelets
from coordinator.core import Coordinator, Instruction, Lapse, Repartition, Reread
from coordinator.dispatch import SendTurns
from coordinator.history import HistoryFile
from coordinator.simulation.binding import SimulatedBinding
from coordinator.simulation.books import IntakeDesk, Seat
from coordinator.simulation.shards import EVERYTHING, SimulatedShards, WorkerConfig
from coordinator.simulation.timeline import Alarm, Network, Timeline
from shard_worker.session import Session
from shard_worker.task_class import Mode
from shared.ledger.double import LedgerDouble
from shared.ledger.synchronous import at_once

IDLE_STEP_SECONDS = 0.05
"""What is due is looked at again so long after the last step, where nothing else happens."""


class Simulation:
    """Say what is submitted and what goes wrong when, then :meth:`run`."""

    def __init__(
        self,
        core: Coordinator,
        *,
        session: Callable[[], Session],
        kubelets: Kubelets,
        mode: Mode,
        seed: int,
        network: Network | None = None,
        history: HistoryFile | None = None,
    ) -> None:
        """``session`` opens a session per worker; one worker for each shard of ``core``."""
        self.core = core
        self.kubelets = kubelets
        self.history = history
        self.timeline = timeline = Timeline(seed, network or Network())
        self.ledger = LedgerDouble(random.Random(seed + 1), clock=lambda: timeline.now)
        run_id = at_once(self.ledger.bless())
        self._desk = IntakeDesk(timeline=timeline, ledger=self.ledger, core=core, run_id=run_id)
        self._seat = Seat(
            timeline=timeline, ledger=self.ledger, core=core, run_id=run_id, step=self._step
        )
        self.binding = SimulatedBinding(
            timeline=timeline, ledger=self.ledger, core=core, kubelets=kubelets, seat=self._seat
        )
        self.shards = SimulatedShards(
            WorkerConfig(session=session, mode=mode, seed=seed, run_id=run_id),
            timeline=timeline,
            ledger=self.ledger,
            core=core,
            step=self._step,
            committed=self.binding.look,
        )
        self._alarm = Alarm(timeline, self._step_now)
        for shard in core.dispatcher.shards:
            self.shards.start(shard)

    # --- what happens -------------------------------------------------------------------------

    def submit(self, items: list[dict[str, Any]], *, at: float = 0.0) -> None:
        """Objects reach intake ``at`` seconds after the start."""
        self.timeline.after(at, lambda: self._desk.admit(items, self._step))

    def kill_worker(self, shard: int, *, at: float) -> None:
        """The worker of a shard dies; a batch it has under way may arrive all the same."""
        self.timeline.after(at, lambda: self.shards.kill(shard))

    def pause_worker(self, shard: int, *, at: float, seconds: float) -> None:
        """The worker stands still; where that is too long it is given up, and wakes deposed."""
        self.timeline.after(at, lambda: self.shards.pause(shard, seconds))

    def run(self, *, until: float = float("inf"), inspect: Callable[[], None] | None = None) -> int:
        """Process events until none is left or virtual time reaches ``until``; returns how many.

        ``inspect`` is called after each of them."""
        count = 0
        while (event := self.timeline.next_event(until)) is not None:
            event()
            count += 1
            self._note()
            if inspect is not None:
                inspect()
        return count

    # --- the coordinator ----------------------------------------------------------------------

    def _step(self) -> None:
        """Something happened: step once after all events of this moment."""
        self._alarm.set(self.timeline.now)

    def _step_now(self) -> None:
        for instruction in self.core.step(self.timeline.now):
            self._execute(instruction)
        due = self.core.order.next_due()
        if due is not None:
            self._alarm.set(max(due, self.timeline.now + IDLE_STEP_SECONDS))

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendTurns():
                self.shards.call(instruction)
            case Reread():
                self._seat.reread(instruction.jids)
            case Lapse():
                jids = instruction.jids
                self._seat.record([], jids, lambda: self._lapsed(jids))
            case Repartition():
                self._desk.store([instruction.put], self._partition_stored)

    def _lapsed(self, jids: list[int]) -> None:
        self.core.order.lapse_recorded(jids)
        self._step()

    def _partition_stored(self) -> None:
        self.core.partition_stored()
        self._step()

    # --- the history --------------------------------------------------------------------------

    def _note(self) -> None:
        """What the ledger and the cluster did in this moment."""
        if self.history is None:
            return
        self.history.ledger_entries(
            at_once(self.ledger.read_log(self.history.position, count=EVERYTHING))
        )
        self.history.cluster_events(self.kubelets.drain())


def settled(core: Coordinator) -> bool:
    """Whether every job is done."""
    jobs = core.status()["jobs"]
    return bool(jobs["finished"] == jobs["submitted"])
