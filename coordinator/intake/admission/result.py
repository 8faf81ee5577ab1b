"""The result of admitting a list of objects, or of a deletion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from coordinator.intake.admission.step import Notice, PlacedPod
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Document, Key
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import IntakeOp
from shared.model.model import Job
from shared.model.storage import Amounts


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
    changed_pods: dict[str, Amounts] = field(default_factory=dict)
    """``namespace/name`` of pods that changed where they run -> the requests that they count
    with."""
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


def merged(parts: Iterable[Admission]) -> Admission:
    """Several admissions as one: of a job or a document that several of them change, the last
    form."""
    out = Admission()
    jobs: dict[int, Job] = {}
    documents: dict[Key, Document] = {}
    for part in parts:
        jobs.update((job.jid, job) for job in part.jobs)
        documents.update((document.key, document) for document in part.documents)
        for name in _LISTS:
            getattr(out, name).extend(getattr(part, name))
        for notice in part.notices:
            out.notice(notice)
        out.classes.update(part.classes)
        out.accepted += part.accepted
        out.unchanged += part.unchanged
    removed = {*out.jobs_gone, *out.jobs_purged}
    out.jobs = [job for jid, job in jobs.items() if jid not in removed]
    out.documents = list(documents.values())
    return out


_LISTS = tuple(
    column.name
    for column in fields(Admission)
    if column.default_factory is list and column.name not in ("jobs", "documents", "notices")
)
