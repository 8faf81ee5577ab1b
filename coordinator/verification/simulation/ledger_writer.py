"""The coordinator's writes in a seeded run: objects and task states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key, encode_document
from coordinator.intake.intake import Intake
from coordinator.intake.writer import changes_of
from coordinator.verification.simulation.ownership import unless_deposed
from coordinator.verification.simulation.process import AGAIN, Again, Lane, Process
from coordinator.verification.simulation.virtual_time import Event, Place
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeOp, IntakeReply
from shared.ledger.entries.repair import RepairBatch, RepairReply, RepairRequest
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch, StatusBatch, StatusItem, StatusReply, Verdict

INTAKE = "intake"

TRY_AGAIN_SECONDS = 0.1
"""Pause before asking again for a name that is still in use."""

R = TypeVar("R", StatusReply, IntakeReply, RepairReply)


def writing(
    ledger: LedgerDouble, send: Callable[[str], R], leader: Epoch
) -> Callable[[], R | Again]:
    """Repeat a write until the ledger has the batch, one round trip each time, as the service's
    ``write`` does.

    If the server's run is refused, ``leader`` accepts the new one and the same batch is sent again.
    A deposed leader learns of it from the verdict.
    """
    refused = False

    def ask() -> R | Again:
        nonlocal refused
        if refused:
            refused = False
            unless_deposed(lambda: at_once(ledger.bless(leader)))()
            return AGAIN
        reply = send(at_once(ledger.run_id()))
        refused = reply.verdict is Verdict.RUN
        return AGAIN if refused else reply

    return ask


class IntakeDesk:
    """Objects become durable, then known to the coordinator, in the order of arrival."""

    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        core: Coordinator,
        intake: Intake,
        epoch: Epoch,
        leader: Epoch,
        deposed: Event,
        acknowledged: Callable[[list[int]], None],
    ) -> None:
        """``acknowledged``: users are told that these jobs are stored."""
        self._acknowledged = acknowledged
        self._leader = leader
        self._process = process
        self._ledger = ledger
        self._core = core
        self._intake = intake
        self._epoch = epoch
        self._deposed = deposed
        self._sequence = 0
        self._lane = Lane(process, Place.LEDGER)

    def admit(self, items: list[dict[str, Any]], done: Event) -> None:
        """Submit objects; one whose name is being deleted waits until it is free. AssertionError if
        an object is refused: a seeded run submits only valid ones."""
        admission = self._intake.admit(items, self._process.now, atomic=True)
        if admission.refused:
            going = ["being deleted" in refusal.message for refusal in admission.refused]
            assert all(going), admission.refused
            self._process.after(TRY_AGAIN_SECONDS, lambda: self.admit(items, done))
        else:
            self._keep(admission, done)

    def remove(self, key: Key, done: Event) -> None:
        """Delete an object. An unknown one was deleted before; one that others depend on is deleted
        after them."""
        admission = self._intake.remove(key.kind, key.namespace, key.name, self._process.now)
        reasons = {refusal.reason for refusal in admission.refused}
        assert reasons <= {"NotFound", "Conflict"}, admission.refused
        if "Conflict" in reasons:
            self._process.after(TRY_AGAIN_SECONDS, lambda: self.remove(key, done))
        else:
            self._keep(admission, done)

    def purge(self, jids: list[int], pods: list[tuple[int, int]], done: Event) -> None:
        """Purge jobs and pods of which nothing is left."""
        self._keep(self._intake.purge(jids, pods), done)

    def _keep(self, admission: Admission, done: Event) -> None:
        def stored() -> None:
            self._core.admitted(changes_of(admission))
            self._acknowledged([job.jid for job in admission.jobs])
            done()

        kept: list[tuple[str, bytes | None]] = [
            (str(document.key), encode_document(document)) for document in admission.documents
        ]
        kept += [(str(key), None) for key in admission.documents_gone]
        self.store(admission.ops, stored, documents=kept)

    def store(
        self,
        ops: list[IntakeOp],
        stored: Event,
        *,
        documents: list[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Store operations. If nothing changes, they are stored once everything before them is."""
        kept = documents or []
        if not ops and not kept:
            self._lane.push("nothing", lambda: None, lambda _: stored())
            return
        self._sequence += 1
        sequence = self._sequence

        def send(run: str) -> IntakeReply:
            batch = IntakeBatch(INTAKE, self._epoch, sequence, run, ops, kept)
            return at_once(self._ledger.store(batch))

        def answer(reply: IntakeReply) -> None:
            if reply.verdict is Verdict.COMMITTED:
                stored()
            else:
                self._deposed()

        self._lane.push("store", writing(self._ledger, send, self._leader), answer)


_Request = tuple[list[StatusItem], list[int], Event]


class SimulatedRecorder:
    """Records task states and rereads jobs, one request at a time so that neither overtakes the
    other, as the service's recorder and its guard do."""

    def __init__(
        self,
        *,
        process: Process,
        ledger: LedgerDouble,
        core: Coordinator,
        epoch: Epoch,
        step: Event,
        deposed: Event,
    ) -> None:
        self._ledger = ledger
        self._core = core
        self._epoch = epoch
        self._step = step
        self._deposed = deposed
        self._sequence = 0
        self._waiting: list[_Request] = []
        self._rereads = 0
        self._lane = Lane(process, Place.LEDGER)

    def record(
        self, items: list[StatusItem], lapsed: list[int], done: Event = lambda: None
    ) -> None:
        """Record states; waiting ones go in one batch. ``done``: they are durable and known."""
        self._waiting.append((items, lapsed, done))
        if len(self._waiting) == 1:
            self._push()

    def _push(self) -> None:
        made: list[tuple[list[_Request], StatusBatch]] = []

        def send(run: str) -> StatusReply:
            if not made:  # the first time; asked again, it must be the same batch
                taken = list(self._waiting)
                self._waiting.clear()
                self._sequence += 1
                lapsed = [jid for _, lapsed, _ in taken for jid in lapsed]
                items = [item for items, _, _ in taken for item in items]
                items = self._core.victims.current(items)
                batch = StatusBatch(COORDINATOR, self._epoch, self._sequence, run, items, lapsed)
                made.append((taken, batch))
            return at_once(self._ledger.record(replace(made[0][1], run_id=run)))

        def answer(reply: StatusReply) -> None:
            taken, batch = made[0]
            if reply.verdict is not Verdict.COMMITTED:
                self._deposed()
                return
            self._core.recorded(batch.items, reply.applied)
            for _, _, done in taken:
                done()
            self._step()

        self._lane.push("record", writing(self._ledger, send, self._epoch), answer)

    def repair(self, request: RepairRequest) -> None:
        """Have the ledger recompute these records."""
        self._sequence += 1
        sequence = self._sequence

        def send(run: str) -> RepairReply:
            batch = RepairBatch(COORDINATOR, self._epoch, sequence, run, request)
            return at_once(self._ledger.repair(batch))

        def answer(reply: RepairReply) -> None:
            if reply.verdict is not Verdict.COMMITTED:
                self._deposed()

        self._lane.push("repair", writing(self._ledger, send, self._epoch), answer)

    def reread(self, jids: list[int]) -> None:
        """Read the ledger's state of jobs whose turns were lost."""

        ledger = self._ledger

        def read() -> Any:
            return at_once(ledger.read_tasks(jids)), at_once(ledger.read_domains())

        def answer(found: Any) -> None:
            truth, versions = found
            self._rereads -= 1
            self._core.order.know(jids, versions)
            self._core.reread(truth)
            self._step()

        self._rereads += 1
        self._lane.push("reread", read, answer)

    def validate(self) -> None:
        """Raise AssertionError if the coordinator's state is inconsistent, or a job waits for an
        outcome that will never come."""
        if self._rereads:  # those jobs wait for the truth that is on its way
            self._core.order.validate()
        else:
            self._core.validate()
