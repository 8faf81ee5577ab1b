"""Parsing of queues and priority classes."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import frozen, is_of_nodes, read_totals
from shared.manifests.fields.metadata import annotations_of, read_metadata
from shared.manifests.fields.reader import INT32, Fields, loose_name, part_of
from shared.manifests.kubernetes.pod_affinity import PREFERRED, REQUIRED
from shared.manifests.volcano.objects import QueueManifest
from shared.model.model import NodeGroupAffinity, PriorityClass

_STATES = ("Open", "Closed", "Closing", "Unknown")
_UNLIMITED_AT_0 = ("cpu", "memory")
"""For these two Volcano takes a capability of 0 as not set, for any other resource as a limit."""
_MAX_WEIGHT = 65535


def read_queue(obj: dict[str, object]) -> QueueManifest:
    """Read a queue.

    A capability of 0 forbids any use; for cpu and memory, as in Volcano, it means not set. An
    absent resource is unlimited. ``dequeueStrategy`` is accepted without effect, as in Volcano.
    """
    meta = read_metadata(obj, namespaced=False, loose=True)
    name = meta.name
    spec = part_of(obj, "spec", "QueueSpec")
    spec.choice("dequeueStrategy", ("", "fifo", "traverse"), "")
    capability, deserved = spec.child("capability"), spec.child("deserved")
    guarantee = spec.child("guarantee")
    if guarantee is not None:
        guarantee.check("Guarantee")
        guarantee = guarantee.child("resource")
    parent = spec.text("parent")
    if parent == name:
        raise spec.wrong("parent", "it is the queue itself; write another queue or leave it out")
    status = part_of(obj, "status")
    return QueueManifest(
        name=name,
        weight=spec.integer("weight", 1, high=_MAX_WEIGHT),
        parent=loose_name(parent, "spec.parent") if parent else "",
        priority=spec.integer("priority", 0, low=-INT32 - 1),
        open=not status.data.get("state") or status.choice("state", _STATES, "") == "Open",
        reclaimable=spec.boolean("reclaimable", True),
        capability=None if capability is None else _limits(capability),
        deserved=frozen(_amounts(deserved), zeros=True),
        guarantee=frozen(_amounts(guarantee)),
        deserved_set=deserved is not None,
        created=meta.created,
        annotations=annotations_of(meta),
        affinity=_affinity(spec),
    )


def _amounts(fields: Fields | None) -> dict[str, int]:
    """The amounts of what nodes offer; Volcano ignores the others."""
    return {name: n for name, n in read_totals(fields).items() if is_of_nodes(name)}


def _limits(capability: Fields) -> tuple[tuple[str, int], ...]:
    written = _amounts(capability).items()
    limits = {name: most for name, most in written if most or name not in _UNLIMITED_AT_0}
    return frozen(limits, zeros=True)


def _affinity(spec: Fields) -> NodeGroupAffinity | None:
    affinity = spec.child("affinity")
    if affinity is None:
        return None
    affinity.check("QueueAffinity")
    groups: list[tuple[str, ...]] = []
    for side in ("nodeGroupAffinity", "nodeGroupAntiAffinity"):
        rules = affinity.child(side) or Fields({}, affinity.path(side))
        rules.check("NodeGroups")
        groups += [rules.texts(REQUIRED), rules.texts(PREFERRED)]
    return NodeGroupAffinity(*groups) if any(groups) else None


def read_priority_class(obj: dict[str, object]) -> PriorityClass:
    meta = read_metadata(obj, namespaced=False)
    fields = Fields(obj, "")
    fields.check("PriorityClass")
    if obj.get("value") is None:
        raise InvalidInput("value", None, "missing; write a whole number")
    policy = fields.choice("preemptionPolicy", ("PreemptLowerPriority", "Never"), "")
    return PriorityClass(
        name=meta.name,
        value=fields.integer("value", 0, low=-INT32 - 1),
        default=fields.boolean("globalDefault", False),
        preempts=policy != "Never",
    )
