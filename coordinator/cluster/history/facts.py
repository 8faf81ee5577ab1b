"""Facts about objects that the checker reads, as JSON: requirements of task classes, facts of
nodes.

Fields with default values are left out, so that a plain task class or node costs nothing.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from shared.codec.packed import Packed
from shared.model.model import Job, Node, Role, TaskClass
from shared.records.specs import (
    HYPER_NODE_KEY,
    SLOTS_KEY,
    decode_hyper_node,
    decode_object,
    decode_slots,
    is_object_key,
)

Facts = dict[str, Any]

_NOT_CHECKED = ("resourcequota/", "quota/")
"""Prefixes of objects that no promise concerns: only admission and scores read them."""

_WISHES = ("preferred_nodes", "images", "preempts")
"""Fields of constraints that no node has to meet."""

_PREEMPTABLE = "volcano.sh/preemptable"
_REVOCABLE = "volcano.sh/revocable-zone"
_NUMA = "volcano.sh/numa-topology-policy"
_NUMA_GUARANTEES = ("best-effort", "restricted", "single-numa-node")

DIGEST_BYTES = 8
"""64 bits: two of 10 million different requirements share a digest with a chance below 1e-5."""


def facts(value: Any) -> Any:
    """An object as a mapping of the fields that differ from their defaults, tuples as lists."""
    if isinstance(value, tuple | list):
        return [facts(item) for item in value]
    if not isinstance(value, Packed):
        return value
    names = value.__struct_fields__
    defaults = dict(zip(reversed(names), reversed(value.__struct_defaults__), strict=False))
    items = ((name, getattr(value, name)) for name in names)
    return {k: facts(item) for k, item in items if k not in defaults or item != defaults[k]}


def requirements(cls: TaskClass) -> Facts:
    """A class's constraints on nodes and other pods, without amounts; {} if it has none."""
    rules: Facts = facts(cls)
    rules.pop("requests", None)
    constraints = {k: v for k, v in rules.pop("constraints", {}).items() if k not in _WISHES}
    terms = [term for term in constraints.pop("pod_terms", ()) if not term.get("weight")]
    spreads = [spread for spread in constraints.pop("spreads", ()) if spread.get("hard", True)]
    if terms:
        constraints["pod_terms"] = terms
    if spreads:
        constraints["spreads"] = spreads
    return rules | constraints


def node_facts(node: Node) -> Facts:
    """Facts of a node that predicates read, without its amounts."""
    node_rules: Facts = {"labels": node.labels} if node.labels else {}
    if node.taints:
        node_rules["taints"] = facts(node.taints)
    if node.unschedulable:
        node_rules["unschedulable"] = True
    return node_rules


def role_facts(job: Job, role: Role) -> Facts:
    """Facts of a role's members that rules between pods, and rules about victims, read."""
    role_rules: Facts = {"labels": dict(role.labels)} if role.labels else {}
    if role.priority != 1:
        role_rules["priority"] = role.priority
    if role.priority_class:
        role_rules["class"] = role.priority_class
    if (numa := dict(role.annotations).get(_NUMA)) in _NUMA_GUARANTEES:
        role_rules["numa"] = numa
    if role.gated and not role.own_gate:
        role_rules["gated"] = True
    for marks in (role.annotations, role.labels, job.annotations, job.labels):
        if (mark := dict(marks).get(_PREEMPTABLE)) is not None:
            role_rules["preemptable"] = mark.lower() == "true"
            break
    for marks in (role.annotations, job.annotations):
        if (zone := dict(marks).get(_REVOCABLE)) is not None:
            role_rules["revocable"] = zone == "*"
            break
    return role_rules


def topology_facts(job: Job) -> Facts | None:
    """The hard network topology of a job; None if it has none."""
    if job.topology_key:
        return {"label": job.topology_key}
    topology = job.topology
    if topology is None or not topology.hard:
        return None
    if topology.highest_tier_name:
        return {"tier_name": topology.highest_tier_name}
    return {} if topology.highest_tier is None else {"tier": topology.highest_tier}


def object_facts(key: str, spec: bytes) -> Facts | None:
    """The facts of an object that placement reads; None if no promise concerns its kind."""
    if key.startswith(HYPER_NODE_KEY):
        hyper_node: Facts = facts(decode_hyper_node(spec))
        return hyper_node
    if key == SLOTS_KEY:
        return {"names": list(decode_slots(spec).names)}
    if not is_object_key(key) or key.startswith(_NOT_CHECKED):
        return None
    value: Facts = facts(decode_object(key, spec))
    return value


def digest(value: Facts) -> str:
    """A digest that does not depend on the order of keys."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()
