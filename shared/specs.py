"""Specifications as bytes: how nodes, task classes, queues and jobs are kept in the ledger.

Each is one msgpack array that begins with :data:`FORMAT`, sealed as a thing of its kind. Decoding
is strict: altered bytes, those of another kind or format, a missing or an extra field, or a value
of another type raise :class:`shared.checked.Malformed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shared.checked import (
    Malformed,
    boolean,
    count,
    integer,
    mapping,
    number,
    pack_sealed,
    text,
    unpack_sealed,
    wrong,
)
from shared.messages import Group
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

FORMAT = 2
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
        ),
    )


def encode_class(cls: TaskClass) -> bytes:
    affinity = cls.affinity
    terms = None if affinity is None else [[_requirement(r) for r in term] for term in affinity]
    tolerations = [(t.key, t.operator, t.value, t.effect) for t in cls.tolerations]
    return pack_sealed(b"class", (FORMAT, cls.requests, cls.selector, terms, tolerations))


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
        ),
    )


def encode_job(job: Job) -> bytes:
    return pack_sealed(
        b"job",
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
        ),
    )


def _row_of(r: Role) -> tuple[object, ...]:
    """The exit code only where there is one: almost no role has it."""
    row = (r.name, r.cid, r.first, r.count, r.group, r.priority, r.names, r.duration)
    return (*row, r.exit_code) if r.exit_code else row


def encode_hyper_node(hyper: HyperNode) -> bytes:
    return pack_sealed(b"hypernode", (FORMAT, hyper.name, hyper.tier, hyper.nodes, hyper.children))


def encode_priority_class(cls: PriorityClass) -> bytes:
    return pack_sealed(b"priorityclass", (FORMAT, cls.name, cls.value, cls.default, cls.preempts))


def encode_slots(slots: Slots) -> bytes:
    return pack_sealed(b"slots", (FORMAT, slots.names))


def encode_numbers(next_jid: int, next_qid: int) -> bytes:
    return pack_sealed(b"numbers", (FORMAT, next_jid, next_qid))


def _requirement(r: Requirement) -> tuple[str, str, tuple[str, ...], bool]:
    return (r.key, r.operator, r.values, r.field)


# --- decode -----------------------------------------------------------------------------------


def decode_node(data: bytes) -> Node:
    row, name, allocatable, labels, taints, unschedulable, spec = _open(data, "node", 7)
    return Node(
        row=count(row, "node.row"),
        name=text(name, "node.name"),
        allocatable=_requests(allocatable, "node.allocatable"),
        labels=_labels(labels, "node.labels"),
        taints=_each(taints, "node.taints", _taint),
        unschedulable=boolean(unschedulable, "node.unschedulable"),
        spec=count(spec, "node.spec"),
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
        qid=count(qid, "queue.qid"),
        name=text(name, "queue.name"),
        weight=integer(weight, "queue.weight"),
        parent=integer(parent, "queue.parent"),
        priority=integer(priority, "queue.priority"),
        open=boolean(is_open, "queue.open"),
        reclaimable=boolean(reclaimable, "queue.reclaimable"),
        capability=None if capability is None else _requests(capability, "queue.capability"),
        deserved=_requests(deserved, "queue.deserved"),
        guarantee=_requests(guarantee, "queue.guarantee"),
        spec=count(spec, "queue.spec"),
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
        jid=count(jid, "job.jid"),
        namespace=text(namespace, "job.namespace"),
        name=text(name, "job.name"),
        kind=text(kind, "job.kind"),
        uid=text(uid, "job.uid"),
        queue=text(queue, "job.queue"),
        created=number(created, "job.created"),
        priority=integer(priority, "job.priority"),
        groups=_each(groups, "job.groups", _group),
        roles=_each(roles, "job.roles", _role),
        spec=count(spec, "job.spec"),
        dangling=boolean(dangling, "job.dangling"),
        role_minima=_each(role_minima, "job.role_minima", _minimum),
        min_resources=None
        if min_resources is None
        else _requests(min_resources, "job.min_resources"),
    )


def decode_hyper_node(data: bytes) -> HyperNode:
    name, tier, nodes, children = _open(data, "hypernode", 4)
    return HyperNode.of(
        name=text(name, "hypernode.name"),
        tier=integer(tier, "hypernode.tier"),
        nodes=_each(nodes, "hypernode.nodes", text),
        children=_each(children, "hypernode.children", text),
    )


def decode_priority_class(data: bytes) -> PriorityClass:
    name, value, default, preempts = _open(data, "priorityclass", 4)
    return PriorityClass(
        name=text(name, "priorityclass.name"),
        value=integer(value, "priorityclass.value"),
        default=boolean(default, "priorityclass.default"),
        preempts=boolean(preempts, "priorityclass.preempts"),
    )


def decode_slots(data: bytes) -> Slots:
    (names,) = _open(data, "slots", 1)
    return Slots(_each(names, "slots.names", text))


def decode_numbers(data: bytes) -> tuple[int, int]:
    """(the next number of a job, of a queue)."""
    next_jid, next_qid = _open(data, "numbers", 2)
    return count(next_jid, "numbers.next_jid"), count(next_qid, "numbers.next_qid")


def _open(data: bytes, what: str, size: int) -> tuple[Any, ...]:
    """The fields after the format number; arrays inside become tuples."""
    value = unpack_sealed(what.encode(), data, lists=False)
    if type(value) is not tuple or not value or value[0] != FORMAT:
        raise Malformed(f"{what}: not of format {FORMAT}")
    if len(value) != size + 1:
        raise Malformed(f"{what}: {len(value) - 1} fields instead of {size}")
    return value[1:]


def _row(value: object, at: str, size: int) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) != size:
        raise Malformed(f"{at}: array of {size} wanted")
    return value


def _each(value: object, at: str, item: Callable[[object, str], T]) -> tuple[T, ...]:
    if type(value) is not tuple:
        raise wrong(value, at, "array")
    return tuple([item(v, at) for v in value])


def _requests(value: object, at: str) -> Requests:
    return _each(value, at, _amount)


def _amount(value: object, at: str) -> tuple[int, int]:
    slot, amount = _row(value, at, 2)
    return count(slot, at), count(amount, at)


def _labels(value: object, at: str) -> dict[str, str]:
    return mapping(value, at, text, text)


def _label(value: object, at: str) -> tuple[str, str]:
    key, given = _row(value, at, 2)
    return text(key, at), text(given, at)


def _taint(value: object, at: str) -> Taint:
    key, given, effect = _row(value, at, 3)
    return Taint(text(key, at), text(given, at), text(effect, at))


def _toleration(value: object, at: str) -> Toleration:
    key, operator, given, effect = _row(value, at, 4)
    return Toleration(text(key, at), text(operator, at), text(given, at), text(effect, at))


def _term(value: object, at: str) -> tuple[Requirement, ...]:
    return _each(value, at, _decode_requirement)


def _decode_requirement(value: object, at: str) -> Requirement:
    key, operator, values, field = _row(value, at, 4)
    return Requirement(
        text(key, at), text(operator, at), _each(values, at, text), boolean(field, at)
    )


def _minimum(value: object, at: str) -> tuple[str, int]:
    role, minimum = _row(value, at, 2)
    return text(role, at), integer(minimum, at)


def _group(value: object, at: str) -> Group:
    parent, minimum, held = _row(value, at, 3)
    return Group(integer(parent, at), integer(minimum, at), integer(held, at))


def _role(value: object, at: str) -> Role:
    ends = type(value) is tuple and len(value) == 9
    row = _row(value, at, 8 + ends)
    name, cid, first, members, group, priority, names, duration = row[:8]
    return Role(
        name=text(name, at),
        cid=count(cid, at),
        first=count(first, at),
        count=count(members, at),
        group=count(group, at),
        priority=integer(priority, at),
        names=_each(names, at, text),
        duration=None if duration is None else number(duration, at),
        exit_code=integer(row[8], at) if ends else 0,
    )
