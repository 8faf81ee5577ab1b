"""The coordinator's own writing in a seeded run: objects, and what became of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.core import Coordinator
from coordinator.intake import Admission, Intake
from coordinator.intake_writer import changes_of
from coordinator.simulation.timeline import Event, Lane, Timeline
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import COORDINATOR, IntakeBatch, IntakeOp
from shared.ledger.synchronous import at_once
from shared.messages import StatusBatch, StatusItem, StatusReply, Verdict

INTAKE = "intake"


class IntakeDesk:
    """Objects become durable, then known to the coordinator, in the order of their arrival."""

    def __init__(
        self, *, timeline: Timeline, ledger: LedgerDouble, core: Coordinator, run_id: str
    ) -> None:
        self._intake = Intake()
        self._timeline = timeline
        self._ledger = ledger
        self._core = core
        self._run_id = run_id
        self._epoch = at_once(ledger.claim(INTAKE))
        self._sequence = 0
        self._lane = Lane(timeline, timeline.network.ledger)

    def admit(self, items: list[dict[str, Any]], step: Event) -> None:
        """AssertionError where an object is refused: a seeded run submits good ones only."""
        admission = self._intake.admit(items, self._timeline.now)
        assert not admission.refused, admission.refused
        self.store(admission.ops, lambda: self._stored(admission, step))

    def _stored(self, admission: Admission, step: Event) -> None:
        self._core.admitted(changes_of(admission))
        repartition = self._core.repartition()
        if repartition is not None:
            self.store([repartition.put], step)
        step()

    def store(self, ops: list[IntakeOp], stored: Event) -> None:
        if not ops:
            return
        self._sequence += 1
        batch = IntakeBatch(
            writer=INTAKE,
            epoch=self._epoch,
            sequence=self._sequence,
            run_id=self._run_id,
            ops=ops,
        )

        def ask() -> None:
            assert at_once(self._ledger.store(batch)).verdict is Verdict.COMMITTED

        self._lane.push(ask, lambda _: stored())


class Seat:
    """Task states are recorded and read anew one request at a time, so that neither overtakes the
    other: what the service's recorder and its guard do."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        ledger: LedgerDouble,
        core: Coordinator,
        run_id: str,
        step: Event,
    ) -> None:
        self._ledger = ledger
        self._core = core
        self._run_id = run_id
        self._step = step
        self._epoch = at_once(ledger.claim(COORDINATOR))
        self._sequence = 0
        self._waiting: list[tuple[list[StatusItem], list[int], Callable[[], Any]]] = []
        self._lane = Lane(timeline, timeline.network.ledger)

    def record(
        self, items: list[StatusItem], lapsed: list[int], done: Callable[[], Any] = lambda: None
    ) -> None:
        """What waits together goes in one batch. ``done``: it is durable and known."""
        self._waiting.append((items, lapsed, done))
        if len(self._waiting) == 1:
            self._push()

    def _push(self) -> None:
        taken: list[tuple[list[StatusItem], list[int], Callable[[], Any]]] = []
        batches: list[StatusBatch] = []

        def ask() -> StatusReply:
            if not batches:  # the first time; asked again, it must be the same batch
                taken.extend(self._waiting)
                self._waiting.clear()
                batches.append(self._batch(taken))
            reply = at_once(self._ledger.record(batches[0]))
            assert reply.verdict is Verdict.COMMITTED
            return reply

        def answer(reply: StatusReply) -> None:
            self._core.recorded(batches[0].items, reply.applied)
            for _, _, done in taken:
                done()
            self._step()

        self._lane.push(ask, answer)

    def _batch(
        self, taken: list[tuple[list[StatusItem], list[int], Callable[[], Any]]]
    ) -> StatusBatch:
        self._sequence += 1
        return StatusBatch(
            writer=COORDINATOR,
            epoch=self._epoch,
            sequence=self._sequence,
            run_id=self._run_id,
            items=[item for items, _, _ in taken for item in items],
            lapsed=[jid for _, lapsed, _ in taken for jid in lapsed],
        )

    def reread(self, jids: list[int]) -> None:
        """The ledger's truth about jobs whose turns were lost."""

        def answer(truth: Any) -> None:
            self._core.reread(truth)
            self._step()

        self._lane.push(lambda: at_once(self._ledger.read_tasks(jids)), answer)
