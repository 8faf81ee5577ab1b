"""The result of admitting a list of objects, or of a deletion."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.intake.admission.step import Notice, PlacedPod
from coordinator.intake.documents.document import Document, Key
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import IntakeOp
from shared.model.model import Job, Node, Queue, TaskClass, WorldObject
from shared.model.topology import HyperNode


@dataclass(slots=True)
class Admission:
    """``ops`` and ``documents`` make it durable; the other fields are for Order and for the
    response."""

    ops: list[IntakeOp] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    """New or changed, at most one per object."""
    documents_gone: list[Key] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    nodes_gone: list[int] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    queues_gone: list[int] = field(default_factory=list)
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    hyper_nodes_gone: list[str] = field(default_factory=list)
    objects: list[WorldObject] = field(default_factory=list)
    """New or changed."""
    objects_gone: list[WorldObject] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    """New or changed."""
    jobs_gone: list[int] = field(default_factory=list)
    """Deleted jobs; they keep their names and documents until they are purged."""
    jobs_purged: list[int] = field(default_factory=list)
    jobs_ended: list[Key] = field(default_factory=list)
    """Purged Jobs whose document stays, because a restart or a final phase follows."""
    tasks_gone: list[tuple[int, int]] = field(default_factory=list)
    """Deleted members (jid, tix) of remaining jobs: to be recorded as FAILED, and stopped. Their
    pods keep their names and documents until they are purged."""
    classes: dict[int, TaskClass] = field(default_factory=dict)
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
