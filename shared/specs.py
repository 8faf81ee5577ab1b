"""Specifications as bytes: how nodes, task classes, queues and jobs are kept in the ledger.

Each is one msgpack array that begins with :data:`FORMAT`, sealed as a thing of its kind. Decoding
is strict: altered bytes, those of another kind or format, a missing or an extra field, or a value
of another type raise :class:`shared.checked.Malformed`.
"""

from __future__ import annotations

from shared.checked import (
    Malformed,
    boolean,
    count,
    integer,
    mapping,
    pack_sealed,
    text,
)
from shared.model import (
    Budget,
    Constraints,
    CSINode,
    DeviceClass,
    HyperNode,
    Node,
    NodeGroupAffinity,
    Numatopology,
    Pairs,
    PriorityClass,
    Queue,
    Requirement,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
    ResourceSlice,
    StorageClass,
    Taint,
    TaskClass,
    Toleration,
    Volume,
    VolumeClaim,
    WorldObject,
)
from shared.plain import plain, reader
from shared.slots import Slots
from shared.specs_base import FORMAT, each, opened, requests, row, unsealed
from shared.specs_jobs import decode_job, encode_job

__all__ = [
    "FORMAT",
    "GONE_NODE_KEY",
    "HYPER_NODE_KEY",
    "NUMBERS_KEY",
    "OBJECT_KEYS",
    "PRIORITY_CLASS_KEY",
    "SLOTS_KEY",
    "decode_class",
    "decode_hyper_node",
    "decode_job",
    "decode_node",
    "decode_numbers",
    "decode_object",
    "decode_priority_class",
    "decode_queue",
    "decode_slots",
    "encode_class",
    "encode_hyper_node",
    "encode_job",
    "encode_node",
    "encode_numbers",
    "encode_object",
    "encode_priority_class",
    "encode_queue",
    "encode_slots",
    "is_object_key",
    "object_key",
]

_constraints = reader(Constraints | None)
_hyper_node = reader(HyperNode)
_node_more = reader(tuple[Pairs, tuple[tuple[str, int], ...]])
_queue_more = reader(tuple[bool, float, Pairs, NodeGroupAffinity | None])

SLOTS_KEY = "slots"
HYPER_NODE_KEY = "hypernode/"
PRIORITY_CLASS_KEY = "priorityclass/"
OBJECT_KEYS: dict[type, str] = {
    Budget: "budget/",
    CSINode: "csinode/",
    DeviceClass: "deviceclass/",
    Numatopology: "numatopology/",
    ResourceClaim: "resourceclaim/",
    ResourceClaimTemplate: "claimtemplate/",
    ResourceQuota: "quota/",
    ResourceSlice: "resourceslice/",
    StorageClass: "storageclass/",
    Volume: "volume/",
    VolumeClaim: "volumeclaim/",
}
"""Beginnings of the keys of what placement may look at beside nodes, queues and jobs."""
_OBJECT_KINDS = {key: kind for kind, key in OBJECT_KEYS.items()}
GONE_NODE_KEY = "gonenode/"
"""With the name after it: a node that is gone. Its row stays that of its name: tasks may be on it
still, and the cluster speaks of them by that name."""
NUMBERS_KEY = "numbers"
"""Where the ledger keeps what it does not read: the slots' names, objects by name, and the next
numbers of jobs and queues (those of forgotten ones are not given again)."""


# --- encode -----------------------------------------------------------------------------------


def encode_node(node: Node) -> bytes:
    return pack_sealed(
        b"node",
        (
            FORMAT,
            node.row,
            node.name,
            node.allocatable,
            node.labels,
            [(t.key, t.value, t.effect) for t in node.taints],
            node.unschedulable,
            node.spec,
            (node.annotations, node.images) if node.annotations or node.images else None,
        ),
    )


def encode_class(cls: TaskClass) -> bytes:
    affinity = cls.affinity
    terms = None if affinity is None else [[_requirement(r) for r in term] for term in affinity]
    tolerations = [(t.key, t.operator, t.value, t.effect) for t in cls.tolerations]
    more = None if cls.constraints is None else plain(cls.constraints)
    return pack_sealed(b"class", (FORMAT, cls.requests, cls.selector, terms, tolerations, more))


def encode_queue(queue: Queue) -> bytes:
    return pack_sealed(
        b"queue",
        (
            FORMAT,
            queue.qid,
            queue.name,
            queue.weight,
            queue.parent,
            queue.priority,
            queue.open,
            queue.reclaimable,
            queue.capability,
            queue.deserved,
            queue.guarantee,
            queue.spec,
            (queue.deserved_set, queue.created, queue.annotations, plain(queue.affinity)),
        ),
    )


def encode_hyper_node(hyper: HyperNode) -> bytes:
    return pack_sealed(b"hypernode", (FORMAT, *plain(hyper)))


def encode_priority_class(cls: PriorityClass) -> bytes:
    return pack_sealed(b"priorityclass", (FORMAT, cls.name, cls.value, cls.default, cls.preempts))


def object_key(value: WorldObject) -> str:
    """Where an object is kept: by its kind and ``namespace/name``, or name."""
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    return OBJECT_KEYS[type(value)] + name


def is_object_key(key: str) -> bool:
    return key[: key.find("/") + 1] in _OBJECT_KINDS


def encode_object(value: WorldObject) -> bytes:
    kind = OBJECT_KEYS[type(value)].rstrip("/")
    return pack_sealed(kind.encode(), (FORMAT, *plain(value)))


def encode_slots(slots: Slots) -> bytes:
    return pack_sealed(b"slots", (FORMAT, slots.names))


def encode_numbers(next_jid: int, next_qid: int) -> bytes:
    return pack_sealed(b"numbers", (FORMAT, next_jid, next_qid))


def _requirement(r: Requirement) -> tuple[str, str, tuple[str, ...], bool]:
    return (r.key, r.operator, r.values, r.field)


# --- decode -----------------------------------------------------------------------------------


def decode_node(data: bytes) -> Node:
    row, name, allocatable, labels, taints, unschedulable, spec, more = opened(
        data, "node", 8, before=7
    )
    annotations, images = ((), ()) if more is None else _node_more(more, "node.more")
    return Node(
        row=count(row, "node.row"),
        name=text(name, "node.name"),
        allocatable=requests(allocatable, "node.allocatable"),
        labels=_labels(labels, "node.labels"),
        taints=each(taints, "node.taints", _taint),
        unschedulable=boolean(unschedulable, "node.unschedulable"),
        spec=count(spec, "node.spec"),
        annotations=annotations,
        images=images,
    )


def decode_class(data: bytes) -> TaskClass:
    amounts, selector, affinity, tolerations, more = opened(data, "class", 5, before=4)
    return TaskClass(
        requests=requests(amounts, "class.requests"),
        selector=each(selector, "class.selector", _label),
        affinity=None if affinity is None else each(affinity, "class.affinity", _term),
        tolerations=each(tolerations, "class.tolerations", _toleration),
        constraints=_constraints(more, "class.constraints"),
    )


def decode_queue(data: bytes) -> Queue:
    (
        qid,
        name,
        weight,
        parent,
        priority,
        is_open,
        reclaimable,
        capability,
        deserved,
        guarantee,
        spec,
        more,
    ) = opened(data, "queue", 12, before=11)
    said = (False, 0.0, (), None) if more is None else _queue_more(more, "queue.more")
    deserved_set, created, annotations, affinity = said
    return Queue(
        qid=count(qid, "queue.qid"),
        name=text(name, "queue.name"),
        weight=integer(weight, "queue.weight"),
        parent=integer(parent, "queue.parent"),
        priority=integer(priority, "queue.priority"),
        open=boolean(is_open, "queue.open"),
        reclaimable=boolean(reclaimable, "queue.reclaimable"),
        capability=None if capability is None else requests(capability, "queue.capability"),
        deserved=requests(deserved, "queue.deserved"),
        guarantee=requests(guarantee, "queue.guarantee"),
        spec=count(spec, "queue.spec"),
        deserved_set=deserved_set,
        created=created,
        annotations=annotations,
        affinity=affinity,
    )


def decode_hyper_node(data: bytes) -> HyperNode:
    """In the format before, nodes and hyper nodes were two arrays of names."""
    version, fields = unsealed(data, "hypernode")
    if version == FORMAT:
        made: HyperNode = _hyper_node(fields, "hypernode")
        return made
    name, tier, nodes, children = row(fields, "hypernode", 4)
    return HyperNode.of(
        name=text(name, "hypernode.name"),
        tier=integer(tier, "hypernode.tier"),
        nodes=each(nodes, "hypernode.nodes", text),
        children=each(children, "hypernode.children", text),
    )


def decode_priority_class(data: bytes) -> PriorityClass:
    name, value, default, preempts = opened(data, "priorityclass", 4)
    return PriorityClass(
        name=text(name, "priorityclass.name"),
        value=integer(value, "priorityclass.value"),
        default=boolean(default, "priorityclass.default"),
        preempts=boolean(preempts, "priorityclass.preempts"),
    )


def decode_object(key: str, data: bytes) -> WorldObject:
    """An object under its key, whose kind the key tells."""
    what, _, _ = key.partition("/")
    kind = _OBJECT_KINDS[f"{what}/"]
    version, fields = unsealed(data, what)
    if version != FORMAT:
        raise Malformed(f"{what}: not of format {FORMAT}")
    value: WorldObject = reader(kind)(fields, what)
    return value


def decode_slots(data: bytes) -> Slots:
    (names,) = opened(data, "slots", 1)
    return Slots(each(names, "slots.names", text))


def decode_numbers(data: bytes) -> tuple[int, int]:
    """(the next number of a job, of a queue)."""
    next_jid, next_qid = opened(data, "numbers", 2)
    return count(next_jid, "numbers.next_jid"), count(next_qid, "numbers.next_qid")


def _labels(value: object, at: str) -> dict[str, str]:
    return mapping(value, at, text, text)


def _label(value: object, at: str) -> tuple[str, str]:
    key, given = row(value, at, 2)
    return text(key, at), text(given, at)


def _taint(value: object, at: str) -> Taint:
    key, given, effect = row(value, at, 3)
    return Taint(text(key, at), text(given, at), text(effect, at))


def _toleration(value: object, at: str) -> Toleration:
    key, operator, given, effect = row(value, at, 4)
    return Toleration(text(key, at), text(operator, at), text(given, at), text(effect, at))


def _term(value: object, at: str) -> tuple[Requirement, ...]:
    return each(value, at, _decode_requirement)


def _decode_requirement(value: object, at: str) -> Requirement:
    key, operator, values, field = row(value, at, 4)
    return Requirement(
        text(key, at), text(operator, at), each(values, at, text), boolean(field, at)
    )
