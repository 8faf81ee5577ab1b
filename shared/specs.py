"""Specifications as bytes: how nodes, task classes, queues and jobs are kept in the ledger.

Each is one msgpack array that begins with :data:`FORMAT`. Decoding is strict: another format, a
missing or an extra field, or a value of another type raises :class:`MalformedSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgpack

from shared.messages import Group, encode
from shared.model import (
    HyperNode,
    Job,
    Node,
    PriorityClass,
    Queue,
    Requests,
    Requirement,
    Role,
    Taint,
    TaskClass,
    Toleration,
)
from shared.slots import Slots

T = TypeVar("T")

FORMAT = 1
"""Moves when a field is added, removed or changes its meaning."""


SLOTS_KEY = "slots"
HYPER_NODE_KEY = "hypernode/"
PRIORITY_CLASS_KEY = "priorityclass/"
GONE_NODE_KEY = "gonenode/"
"""With the name after it: a node that is gone. Its row stays that of its name: tasks may be on it
still, and the cluster speaks of them by that name."""
NUMBERS_KEY = "numbers"
"""Where the ledger keeps what it does not read: the slots' names, objects by name, and the next
numbers of jobs and queues (those of forgotten ones are not given again)."""


class MalformedSpec(ValueError):
    """The bytes are not a specification of this format."""


# --- encode -----------------------------------------------------------------------------------


def encode_node(node: Node) -> bytes:
    return encode(
        (
            FORMAT,
            node.row,
            node.name,
            node.allocatable,
            node.labels,
            [(t.key, t.value, t.effect) for t in node.taints],
            node.unschedulable,
            node.spec,
        )
    )


def encode_class(cls: TaskClass) -> bytes:
    affinity = cls.affinity
    terms = None if affinity is None else [[_requirement(r) for r in term] for term in affinity]
    tolerations = [(t.key, t.operator, t.value, t.effect) for t in cls.tolerations]
    return encode((FORMAT, cls.requests, cls.selector, terms, tolerations))


def encode_queue(queue: Queue) -> bytes:
    return encode(
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
        )
    )


def encode_job(job: Job) -> bytes:
    return encode(
        (
            FORMAT,
            job.jid,
            job.namespace,
            job.name,
            job.kind,
            job.uid,
            job.queue,
            job.created,
            job.priority,
            [(g.parent, g.minimum, g.held) for g in job.groups],
            [_row_of(role) for role in job.roles],
            job.spec,
            job.dangling,
            job.role_minima,
            job.min_resources,
        )
    )


def _row_of(r: Role) -> tuple[object, ...]:
    """The exit code only where there is one: almost no role has it."""
    row = (r.name, r.cid, r.first, r.count, r.group, r.priority, r.names, r.duration)
    return (*row, r.exit_code) if r.exit_code else row


def encode_hyper_node(hyper: HyperNode) -> bytes:
    return encode((FORMAT, hyper.name, hyper.tier, hyper.nodes, hyper.children))


def encode_priority_class(cls: PriorityClass) -> bytes:
    return encode((FORMAT, cls.name, cls.value, cls.default, cls.preempts))


def encode_slots(slots: Slots) -> bytes:
    return encode((FORMAT, slots.names))


def encode_numbers(next_jid: int, next_qid: int) -> bytes:
    return encode((FORMAT, next_jid, next_qid))


def _requirement(r: Requirement) -> tuple[str, str, tuple[str, ...], bool]:
    return (r.key, r.operator, r.values, r.field)


# --- decode -----------------------------------------------------------------------------------


def decode_node(data: bytes) -> Node:
    row, name, allocatable, labels, taints, unschedulable, spec = _open(data, "node", 7)
    return Node(
        row=_int(row, "node.row"),
        name=_text(name, "node.name"),
        allocatable=_requests(allocatable, "node.allocatable"),
        labels=_labels(labels, "node.labels"),
        taints=_each(taints, "node.taints", _taint),
        unschedulable=_bool(unschedulable, "node.unschedulable"),
        spec=_int(spec, "node.spec"),
    )


def decode_class(data: bytes) -> TaskClass:
    requests, selector, affinity, tolerations = _open(data, "class", 4)
    return TaskClass(
        requests=_requests(requests, "class.requests"),
        selector=_each(selector, "class.selector", _label),
        affinity=None if affinity is None else _each(affinity, "class.affinity", _term),
        tolerations=_each(tolerations, "class.tolerations", _toleration),
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
    ) = _open(data, "queue", 11)
    return Queue(
        qid=_int(qid, "queue.qid"),
        name=_text(name, "queue.name"),
        weight=_int(weight, "queue.weight"),
        parent=_int(parent, "queue.parent"),
        priority=_int(priority, "queue.priority"),
        open=_bool(is_open, "queue.open"),
        reclaimable=_bool(reclaimable, "queue.reclaimable"),
        capability=None if capability is None else _requests(capability, "queue.capability"),
        deserved=_requests(deserved, "queue.deserved"),
        guarantee=_requests(guarantee, "queue.guarantee"),
        spec=_int(spec, "queue.spec"),
    )


def decode_job(data: bytes) -> Job:
    (
        jid,
        namespace,
        name,
        kind,
        uid,
        queue,
        created,
        priority,
        groups,
        roles,
        spec,
        dangling,
        role_minima,
        min_resources,
    ) = _open(data, "job", 14)
    return Job(
        jid=_int(jid, "job.jid"),
        namespace=_text(namespace, "job.namespace"),
        name=_text(name, "job.name"),
        kind=_text(kind, "job.kind"),
        uid=_text(uid, "job.uid"),
        queue=_text(queue, "job.queue"),
        created=_number(created, "job.created"),
        priority=_int(priority, "job.priority"),
        groups=_each(groups, "job.groups", _group),
        roles=_each(roles, "job.roles", _role),
        spec=_int(spec, "job.spec"),
        dangling=_bool(dangling, "job.dangling"),
        role_minima=_each(role_minima, "job.role_minima", _minimum),
        min_resources=None
        if min_resources is None
        else _requests(min_resources, "job.min_resources"),
    )


def decode_hyper_node(data: bytes) -> HyperNode:
    name, tier, nodes, children = _open(data, "hypernode", 4)
    return HyperNode(
        name=_text(name, "hypernode.name"),
        tier=_int(tier, "hypernode.tier"),
        nodes=_each(nodes, "hypernode.nodes", _text),
        children=_each(children, "hypernode.children", _text),
    )


def decode_priority_class(data: bytes) -> PriorityClass:
    name, value, default, preempts = _open(data, "priorityclass", 4)
    return PriorityClass(
        name=_text(name, "priorityclass.name"),
        value=_int(value, "priorityclass.value"),
        default=_bool(default, "priorityclass.default"),
        preempts=_bool(preempts, "priorityclass.preempts"),
    )


def decode_slots(data: bytes) -> Slots:
    (names,) = _open(data, "slots", 1)
    return Slots(_each(names, "slots.names", _text))


def decode_numbers(data: bytes) -> tuple[int, int]:
    """(the next number of a job, of a queue)."""
    next_jid, next_qid = _open(data, "numbers", 2)
    return _int(next_jid, "numbers.next_jid"), _int(next_qid, "numbers.next_qid")


def _open(data: bytes, what: str, count: int) -> tuple[Any, ...]:
    """The fields after the format number; arrays inside become tuples."""
    try:
        value = msgpack.unpackb(data, raw=False, use_list=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MalformedSpec(f"{what}: not msgpack: {error}") from error
    if not isinstance(value, tuple) or not value or value[0] != FORMAT:
        raise MalformedSpec(f"{what}: not of format {FORMAT}")
    if len(value) != count + 1:
        raise MalformedSpec(f"{what}: {len(value) - 1} fields instead of {count}")
    return value[1:]


def _wrong(value: object, at: str, wanted: str) -> MalformedSpec:
    return MalformedSpec(f"{at}: {wanted} wanted, got {type(value).__name__}")


def _int(value: object, at: str) -> int:
    if type(value) is not int:
        raise _wrong(value, at, "integer")
    return value


def _number(value: object, at: str) -> float:
    if type(value) is not float and type(value) is not int:
        raise _wrong(value, at, "number")
    return value


def _bool(value: object, at: str) -> bool:
    if type(value) is not bool:
        raise _wrong(value, at, "boolean")
    return value


def _text(value: object, at: str) -> str:
    if type(value) is not str:
        raise _wrong(value, at, "text")
    return value


def _row(value: object, at: str, count: int) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) != count:
        raise MalformedSpec(f"{at}: array of {count} wanted")
    return value


def _each(value: object, at: str, item: Callable[[object, str], T]) -> tuple[T, ...]:
    if type(value) is not tuple:
        raise _wrong(value, at, "array")
    return tuple([item(v, at) for v in value])


def _requests(value: object, at: str) -> Requests:
    return _each(value, at, _amount)


def _amount(value: object, at: str) -> tuple[int, int]:
    slot, amount = _row(value, at, 2)
    return _int(slot, at), _int(amount, at)


def _labels(value: object, at: str) -> dict[str, str]:
    if type(value) is not dict:
        raise _wrong(value, at, "map")
    return {_text(k, at): _text(v, at) for k, v in value.items()}


def _label(value: object, at: str) -> tuple[str, str]:
    key, text = _row(value, at, 2)
    return _text(key, at), _text(text, at)


def _taint(value: object, at: str) -> Taint:
    key, text, effect = _row(value, at, 3)
    return Taint(_text(key, at), _text(text, at), _text(effect, at))


def _toleration(value: object, at: str) -> Toleration:
    key, operator, text, effect = _row(value, at, 4)
    return Toleration(_text(key, at), _text(operator, at), _text(text, at), _text(effect, at))


def _term(value: object, at: str) -> tuple[Requirement, ...]:
    return _each(value, at, _decode_requirement)


def _decode_requirement(value: object, at: str) -> Requirement:
    key, operator, values, field = _row(value, at, 4)
    return Requirement(
        _text(key, at), _text(operator, at), _each(values, at, _text), _bool(field, at)
    )


def _minimum(value: object, at: str) -> tuple[str, int]:
    role, minimum = _row(value, at, 2)
    return _text(role, at), _int(minimum, at)


def _group(value: object, at: str) -> Group:
    parent, minimum, held = _row(value, at, 3)
    return Group(_int(parent, at), _int(minimum, at), _int(held, at))


def _role(value: object, at: str) -> Role:
    ends = type(value) is tuple and len(value) == 9
    row = _row(value, at, 8 + ends)
    name, cid, first, count, group, priority, names, duration = row[:8]
    return Role(
        name=_text(name, at),
        cid=_int(cid, at),
        first=_int(first, at),
        count=_int(count, at),
        group=_int(group, at),
        priority=_int(priority, at),
        names=_each(names, at, _text),
        duration=None if duration is None else _number(duration, at),
        exit_code=_int(row[8], at) if ends else 0,
    )
