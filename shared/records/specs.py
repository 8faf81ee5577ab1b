"""The encoding of specifications: nodes, task classes, queues and jobs as stored in the ledger.

Each is one msgpack array that begins with :data:`FORMAT`, sealed with its kind. Decoding is strict:
altered bytes, another kind or format, a missing or an extra field, or a value of another type raise
:class:`shared.codec.checked.Malformed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from shared.codec.checked import Malformed, boolean, count, integer, mapping, pack_sealed, text
from shared.codec.plain import plain, reader
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
from shared.model.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from shared.model.model import (
    Node,
    NodeGroupAffinity,
    Pairs,
    PriorityClass,
    Queue,
    TaskClass,
    WorldObject,
)
from shared.model.storage import (
    Budget,
    CSINode,
    Numatopology,
    ResourceQuota,
    StorageClass,
    Volume,
    VolumeClaim,
)
from shared.model.topology import HyperNode
from shared.records.specs_base import FORMAT, each, opened, requests, row, unsealed
from shared.units.slots import Slots
from shared.units.things import Things

_constraints = reader(Constraints | None)
_hyper_node = reader(HyperNode)
_node_more = reader(tuple[Pairs, tuple[tuple[str, int], ...]])
_things = reader(Things)
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
"""Key prefixes of the objects that placement reads beside nodes, queues and jobs."""
_OBJECT_KINDS = {key: kind for kind, key in OBJECT_KEYS.items()}
GONE_NODE_KEY = "gonenode/"
"""Key prefix of a deleted node's record, followed by its name. The name keeps its row: tasks may
still be there, and the cluster reports them under that name."""
POLICY_KEY = "policy"
"""Key of the policy in force, as its file has it: for the history, and for people. Decisions use
the file itself (:mod:`coordinator.service.policy_watch`)."""
NUMBERS_KEY = "numbers"
"""Key of the next numbers of jobs, queues and classes: those of removed ones are not reused."""


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
    fields = (FORMAT, cls.requests, cls.selector, terms, tolerations, more)
    return pack_sealed(b"class", (*fields, cls.things) if cls.things else fields)


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
    """The ledger key of an object: its kind and ``namespace/name``, or name."""
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    return OBJECT_KEYS[type(value)] + name


def is_object_key(key: str) -> bool:
    return key[: key.find("/") + 1] in _OBJECT_KINDS


def encode_object(value: WorldObject) -> bytes:
    kind = OBJECT_KEYS[type(value)].rstrip("/")
    return pack_sealed(kind.encode(), (FORMAT, *plain(value)))


def encode_policy(policy: Mapping[str, object]) -> bytes:
    """As JSON, because plugin arguments may nest to any depth."""
    return pack_sealed(b"policy", (FORMAT, json.dumps(policy, sort_keys=True)))


def encode_slots(slots: Slots) -> bytes:
    return pack_sealed(b"slots", (FORMAT, slots.names))


def encode_numbers(next_jid: int, next_qid: int, next_cid: int) -> bytes:
    return pack_sealed(b"numbers", (FORMAT, next_jid, next_qid, next_cid))


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
    """A task class. Few classes name things, so that field exists only where one does."""
    version, fields = unsealed(data, "class")
    sizes = (5, 6) if version == FORMAT else (4,)
    if len(fields) not in sizes:
        raise Malformed(f"class: {len(fields)} fields instead of {sizes[0]}")
    amounts, selector, affinity, tolerations, more, things = fields + (None, ())[len(fields) - 4 :]
    return TaskClass(
        requests=requests(amounts, "class.requests"),
        selector=each(selector, "class.selector", _label),
        affinity=None if affinity is None else each(affinity, "class.affinity", _term),
        tolerations=each(tolerations, "class.tolerations", _toleration),
        constraints=_constraints(more, "class.constraints"),
        things=_things(things, "class.things"),
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
    extra = (False, 0.0, (), None) if more is None else _queue_more(more, "queue.more")
    deserved_set, created, annotations, affinity = extra
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
    """A hyper node. In the previous format, nodes and hyper nodes were two arrays of names."""
    version, fields = unsealed(data, "hypernode")
    if version == FORMAT:
        hyper_node: HyperNode = _hyper_node(fields, "hypernode")
        return hyper_node
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
    """The object stored under a key, which determines its kind."""
    prefix, _, _ = key.partition("/")
    kind = _OBJECT_KINDS[f"{prefix}/"]
    version, fields = unsealed(data, prefix)
    if version != FORMAT:
        raise Malformed(f"{prefix}: not of format {FORMAT}")
    value: WorldObject = reader(kind)(fields, prefix)
    return value


def decode_policy(data: bytes) -> dict[str, object]:
    (written,) = opened(data, "policy", 1)
    policy: dict[str, object] = json.loads(text(written, "policy.text"))
    return policy


def decode_slots(data: bytes) -> Slots:
    (names,) = opened(data, "slots", 1)
    return Slots(each(names, "slots.names", text))


def decode_numbers(data: bytes) -> tuple[int, int, int]:
    """(the next number of a job, of a queue, of a task class)."""
    next_jid, next_qid, next_cid = opened(data, "numbers", 3)
    numbers = count(next_jid, "numbers.next_jid"), count(next_qid, "numbers.next_qid")
    return *numbers, count(next_cid, "numbers.next_cid")


def decode_numbers_4(data: bytes) -> tuple[int, int]:
    """As ledgers of schema 4 have them: (the next number of a job, of a queue)."""
    next_jid, next_qid = opened(data, "numbers", 2)
    return count(next_jid, "numbers.next_jid"), count(next_qid, "numbers.next_qid")


def _labels(value: object, at: str) -> dict[str, str]:
    return mapping(value, at, text, text)


def _label(value: object, at: str) -> tuple[str, str]:
    key, label_value = row(value, at, 2)
    return text(key, at), text(label_value, at)


def _taint(value: object, at: str) -> Taint:
    key, taint_value, effect = row(value, at, 3)
    return Taint(text(key, at), text(taint_value, at), text(effect, at))


def _toleration(value: object, at: str) -> Toleration:
    key, operator, taint_value, effect = row(value, at, 4)
    return Toleration(text(key, at), text(operator, at), text(taint_value, at), text(effect, at))


def _term(value: object, at: str) -> tuple[Requirement, ...]:
    return each(value, at, _decode_requirement)


def _decode_requirement(value: object, at: str) -> Requirement:
    key, operator, values, field = row(value, at, 4)
    return Requirement(
        text(key, at), text(operator, at), each(values, at, text), boolean(field, at)
    )
