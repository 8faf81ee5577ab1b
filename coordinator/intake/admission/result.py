"""The result of admitting a list of objects, or of a deletion."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.intake.admission.step import Notice, PlacedPod
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Key
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import IntakeOp


@dataclass(slots=True)
class Admission(Changes):
    """The changes, the operations that make them durable, and what the response says."""

    ops: list[IntakeOp] = field(default_factory=list)
    jobs_ended: list[Key] = field(default_factory=list)
    """Purged Jobs whose document stays, because a restart or a final phase follows."""
    refused: list[Refusal] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    accepted: int = 0
    """Number of accepted objects, unchanged ones included."""
    unchanged: int = 0
    placed: list[PlacedPod] = field(default_factory=list)
    """Pods that were submitted as already bound (``Intake(observe=True)`` only)."""

    def notice(self, notice: Notice) -> None:
        """Add a notice; those of one kind that say the same are counted as one."""
        for other in self.notices:
            if (other.kind, other.message) == (notice.kind, notice.message):
                other.count += notice.count
                return
        self.notices.append(notice)


def refused(kind: str, name: str, message: str, reason: str) -> Admission:
    return Admission(refused=[Refusal(kind, name, "", "", message, reason)])
