"""Kinds that the double serves, and how the API server treats the objects of each."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.intake.documents import kinds as ours
from coordinator.intake.documents.kinds import Kind

LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", (), True)

WRITING = frozenset({"create", "delete", "patch", "update"})
READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class ServedKind:
    kind: Kind
    verbs: frozenset[str] = READING | WRITING
    status: bool = False
    """Whether it has the sub resource ``status``, by which alone its status is written."""
    generation: bool = False
    """Whether objects count the changes of what is asked of them."""
    native: bool = True
    """Whether the server defines it itself, rather than a CustomResourceDefinition."""
    unconditional: bool = True
    """Whether it is replaced without naming a version."""
    created_by_put: bool = False
    """Whether a PUT of an object that does not exist makes it."""
    posted_status: bool = False
    """Whether a new object keeps the status that it comes with."""

    @property
    def plural(self) -> str:
        return self.kind.plural

    @property
    def group(self) -> str:
        return self.kind.group

    @property
    def resource(self) -> str:
        """``plural.group``: unique over all kinds."""
        return self.kind.resource

    @property
    def sub_resources(self) -> tuple[str, ...]:
        of_pods = ("binding", "eviction") if self.kind is ours.POD else ()
        return (*of_pods, "status") if self.status else of_pods


NAMESPACE = ServedKind(ours.NAMESPACE, verbs=READING)
NODE = ServedKind(ours.NODE, status=True, posted_status=True)
POD = ServedKind(ours.POD, status=True, generation=True)
BUDGET = ServedKind(ours.DISRUPTION_BUDGET, status=True, generation=True, unconditional=False)
PRIORITY_CLASS = ServedKind(ours.PRIORITY_CLASS, generation=True)
POD_GROUP = ServedKind(ours.POD_GROUP, generation=True, native=False, unconditional=False)
QUEUE = ServedKind(ours.QUEUE, status=True, generation=True, native=False, unconditional=False)

SERVED = (
    NAMESPACE,
    NODE,
    POD,
    ServedKind(ours.EVENT, created_by_put=True),
    ServedKind(LEASE, unconditional=False, created_by_put=True),
    BUDGET,
    PRIORITY_CLASS,
    POD_GROUP,
    QUEUE,
    # Of these there are no objects: they are followed by whoever asks, and nobody makes any.
    ServedKind(ours.HYPER_NODE, verbs=READING, native=False),
    *(
        ServedKind(kind, verbs=READING)
        for kind in (
            ours.QUOTA,
            ours.VOLUME,
            ours.VOLUME_CLAIM,
            ours.STORAGE_CLASS,
            ours.CSI_NODE,
            ours.RESOURCE_CLAIM,
            ours.CLAIM_TEMPLATE,
            ours.RESOURCE_SLICE,
            ours.DEVICE_CLASS,
        )
    ),
)
BY_PATH = {(served.kind.api_version, served.plural): served for served in SERVED}
