"""Queues and priority classes."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.amounts import frozen, read_amounts
from shared.manifests.between import BOTH, PREFERRED, REQUIRED
from shared.manifests.fields import INT32, Fields, loose_name
from shared.manifests.metadata import annotations_of, read_metadata
from shared.manifests.objects import QueueManifest
from shared.model import NodeGroupAffinity, PriorityClass

_QUEUE = frozenset(
    (
        "affinity",
        "capability",
        "dequeueStrategy",
        "deserved",
        "guarantee",
        "parent",
        "priority",
        "reclaimable",
        "weight",
    )
)
_QUEUE_LATER = frozenset(("extendClusters", "type"))
_STATES = ("Open", "Closed", "Closing", "Unknown")
_UNLIMITED_AT_0 = ("cpu", "memory")
_PRIORITY_CLASS = frozenset(
    (
        "apiVersion",
        "description",
        "globalDefault",
        "kind",
        "metadata",
        "preemptionPolicy",
        "value",
    )
)
_MAX_WEIGHT = 65535


def read_queue(obj: dict[str, object]) -> QueueManifest:
    """A capability of 0 counts (nothing may be used), but of cpu and memory, where Volcano takes it
    as not said; a resource that is absent is unlimited.

    ``dequeueStrategy`` is known and decides nothing, as in Volcano."""
    meta = read_metadata(obj, namespaced=False, loose=True)
    name = meta.name
    spec = Fields({} if obj.get("spec") is None else obj["spec"], "spec")
    spec.only(_QUEUE, later=_QUEUE_LATER)
    spec.choice("dequeueStrategy", ("", "fifo", "traverse"), "")
    capability, deserved = spec.child("capability"), spec.child("deserved")
    guarantee = spec.child("guarantee")
    if guarantee is not None:
        guarantee.only(frozenset(("resource",)))
        guarantee = guarantee.child("resource")
    parent = spec.text("parent")
    if parent == name:
        raise spec.wrong("parent", "it is the queue itself; write another queue or leave it out")
    status = Fields({} if obj.get("status") is None else obj["status"], "status")
    return QueueManifest(
        name=name,
        weight=spec.integer("weight", 1, high=_MAX_WEIGHT),
        parent=loose_name(parent, "spec.parent") if parent else "",
        priority=spec.integer("priority", 0, low=-INT32 - 1),
        open=not status.data.get("state") or status.choice("state", _STATES, "") == "Open",
        reclaimable=spec.boolean("reclaimable", True),
        capability=None if capability is None else _limits(capability),
        deserved=frozen(read_amounts(deserved), zeros=True),
        guarantee=frozen(read_amounts(guarantee)),
        deserved_set=deserved is not None,
        created=meta.created,
        annotations=annotations_of(meta),
        affinity=_affinity(spec),
    )


def _limits(capability: Fields) -> tuple[tuple[str, int], ...]:
    said = read_amounts(capability).items()
    limits = {name: most for name, most in said if most or name not in _UNLIMITED_AT_0}
    return frozen(limits, zeros=True)


def _affinity(spec: Fields) -> NodeGroupAffinity | None:
    affinity = spec.child("affinity")
    if affinity is None:
        return None
    affinity.only(frozenset(("nodeGroupAffinity", "nodeGroupAntiAffinity")))
    groups: list[tuple[str, ...]] = []
    for side in ("nodeGroupAffinity", "nodeGroupAntiAffinity"):
        wanted = affinity.child(side) or Fields({}, affinity.path(side))
        wanted.only(BOTH)
        groups += [wanted.texts(REQUIRED), wanted.texts(PREFERRED)]
    return NodeGroupAffinity(*groups) if any(groups) else None


def read_priority_class(obj: dict[str, object]) -> PriorityClass:
    meta = read_metadata(obj, namespaced=False)
    fields = Fields(obj, "")
    fields.only(_PRIORITY_CLASS)
    if obj.get("value") is None:
        raise InvalidInput("value", None, "missing; write a whole number")
    policy = fields.choice("preemptionPolicy", ("PreemptLowerPriority", "Never"), "")
    return PriorityClass(
        name=meta.name,
        value=fields.integer("value", 0, low=-INT32 - 1),
        default=fields.boolean("globalDefault", False),
        preempts=policy != "Never",
    )
