"""The encoding of specifications: nodes, task classes, queues and jobs as stored in the ledger.

Each is one msgpack array that begins with :data:`FORMAT`, sealed with its kind. Decoding is strict:
altered bytes, another kind or format, a missing or an extra field, or a value of another type raise
:class:`shared.codec.checked.Malformed`. The models are what is stored: a field that is added to one
of them, or moves in it, is another format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.codec.packed import Codec, Count
from shared.model.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
from shared.model.model import Node, PriorityClass, Queue, TaskClass, WorldObject
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
from shared.records.specs_base import FORMAT, Either, Spec
from shared.units.slots import Slots

SLOTS_KEY = "slots"
HYPER_NODE_KEY = "hypernode/"
PRIORITY_CLASS_KEY = "priorityclass/"
OBJECT_KEYS: dict[type, str] = {
    Budget: "budget/",
    CSINode: "csinode/",
    DeviceClass: "deviceclass/",
    KaiPodGroup: "kaipodgroup/",
    KaiQueue: "kaiqueue/",
    KaiTopology: "kaitopology/",
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
GONE_NODE_KEY = "gonenode/"
"""Key prefix of a deleted node's record, followed by its name. The name keeps its row: tasks may
still be there, and the cluster reports them under that name."""
POLICY_KEY = "policy"
"""Key of the policy in force, as its file has it: for the history, and for people. Decisions use
the file itself (:mod:`coordinator.service.policy_watch`)."""
NUMBERS_KEY = "numbers"
"""Key of the next numbers of jobs, queues and classes: those of removed ones are not reused."""

_NODE = Spec("node", Node, first=7, before=7)
_CLASS = Spec("class", TaskClass, optional=3, before=4)
_QUEUE = Spec("queue", Queue, first=11, before=11)
_HYPER_NODE = Spec("hypernode", HyperNode, before=(str, int, tuple[str, ...], tuple[str, ...]))
_PRIORITY_CLASS = Spec("priorityclass", PriorityClass, before=4)
_LATER: dict[type, int] = {KaiPodGroup: 1}
"""Class -> how many fields it got at its end; records without them are read too."""
_OBJECTS: dict[str, Spec[Any]] = {
    key: Spec(key[:-1], of, optional=_LATER.get(of, 0)) for of, key in OBJECT_KEYS.items()
}
_POLICY = Codec(b"policy", tuple[Either, str])
_SLOTS = Codec(b"slots", tuple[Either, tuple[str, ...]])
_NUMBERS = Codec(b"numbers", tuple[Either, Count, Count, Count])

encode_node, decode_node = _NODE.encode, _NODE.decode
encode_class, decode_class = _CLASS.encode, _CLASS.decode
encode_queue, decode_queue = _QUEUE.encode, _QUEUE.decode
encode_hyper_node = _HYPER_NODE.encode
encode_priority_class, decode_priority_class = _PRIORITY_CLASS.encode, _PRIORITY_CLASS.decode


def decode_hyper_node(data: bytes) -> HyperNode:
    """Before there were members by pattern, a hyper node had the names of nodes and children."""
    name, tier, members, last = _HYPER_NODE.unpack(data)
    if isinstance(last, str):
        return HyperNode(name, tier, members, last)
    return HyperNode.of(name, tier, nodes=members, children=last)


def object_key(value: WorldObject) -> str:
    """The ledger key of an object: its kind and ``namespace/name``, or name."""
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    return OBJECT_KEYS[type(value)] + name


def is_object_key(key: str) -> bool:
    return key[: key.find("/") + 1] in _OBJECTS


def encode_object(value: WorldObject) -> bytes:
    return _OBJECTS[OBJECT_KEYS[type(value)]].encode(value)


def decode_object(key: str, data: bytes) -> WorldObject:
    """The object stored under a key, which determines its kind."""
    value: WorldObject = _OBJECTS[key[: key.find("/") + 1]].decode(data)
    return value


def encode_policy(policy: Mapping[str, object]) -> bytes:
    """As JSON, because plugin arguments may nest to any depth."""
    return _POLICY.encode((FORMAT, json.dumps(policy, sort_keys=True)))


def decode_policy(data: bytes) -> dict[str, object]:
    policy: dict[str, object] = json.loads(_POLICY.decode(data)[1])
    return policy


def encode_slots(slots: Slots) -> bytes:
    return _SLOTS.encode((FORMAT, tuple(slots.names)))


def decode_slots(data: bytes) -> Slots:
    return Slots(_SLOTS.decode(data)[1])


def encode_numbers(next_jid: int, next_qid: int, next_cid: int) -> bytes:
    return _NUMBERS.encode((FORMAT, next_jid, next_qid, next_cid))


def decode_numbers(data: bytes) -> tuple[int, int, int]:
    """(the next number of a job, of a queue, of a task class)."""
    return _NUMBERS.decode(data)[1:]
