"""Rendering of nodes, queues, shards and namespaces. Hyper nodes and priority classes are shown as
written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator.core.reasons.upper_bound import ceiling_of
from coordinator.dispatch.dispatcher import ShardState
from coordinator.intake.documents.document import Key, make_uid
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import NAMESPACE, SHARD
from coordinator.intake.documents.metadata import SHARD as SHARD_ANNOTATION
from coordinator.intake.documents.metadata import annotate, condition, virtual, written
from coordinator.objects.context import ReadModel, shard_name
from coordinator.objects.gangs import mark_unread
from shard_worker.session_model.queue_totals import used
from shard_worker.session_model.workload import Amounts
from shared.model.model import Node
from shared.records.quarantine import Quarantine
from shared.units.quantity import unit_of
from shared.units.times import rfc3339

Json = dict[str, Any]

QUARANTINED_CONDITION = "SetAside"
"""Condition of a node that is quarantined."""

_HOST_NAME = "kubernetes.io/hostname"


def written_node(read_model: ReadModel, record: Record, version: int) -> Json:
    document = record.document
    value = written(document, version)
    value["spec"] = value.get("spec") or {}
    metadata = value["metadata"]
    metadata["labels"] = {_HOST_NAME: document.key.name} | (metadata.get("labels") or {})
    status_sent = value.get("status") or {}
    row = read_model.core.rows.get(document.key.name, -1)
    node = read_model.core.nodes.get(row)
    annotate(metadata, {SHARD_ANNOTATION: read_model.shard_of(row)})
    offered = status_sent.get("allocatable") or status_sent.get("capacity") or {}
    status: Json = {
        "capacity": status_sent.get("capacity") or offered,
        "allocatable": status_sent.get("allocatable") or offered,
    }
    if node is not None:
        status["allocated"] = quantities(allocated(read_model, node), read_model.names)
    status["conditions"] = [_ready(read_model, row, created=document.created)]
    if (quarantine := read_model.core.quarantines.now.get(row)) is not None:
        status["conditions"].append(_quarantined_condition(quarantine))
    value["status"] = status_sent | status
    return value


def _ready(read_model: ReadModel, row: int, *, created: float) -> Json:
    """Whether the scheduler knows the node, and where it is if not."""
    core, pool = read_model.core, read_model.core.order.session.eligibility.pool
    reason, message = "NodeKnown", "it takes tasks"
    if pool is not None and (outside := core.partition.outside.get(row)) is not None:
        reason, message = "NotInNodePool", f"it is {pool.why_not(outside.labels)}"
    elif row not in core.nodes:
        reason, message = "NodeUnknown", "it is not in the cluster's books"
    return condition("Ready", row in core.nodes, reason=reason, message=message, at=created)


def _quarantined_condition(quarantine: Quarantine) -> Json:
    cause, until = f": {quarantine.reason}" if quarantine.reason else "", rfc3339(quarantine.until)
    return condition(
        QUARANTINED_CONDITION,
        True,
        reason="BindsRefused",
        message=f"it refused bind after bind{cause}; nothing is placed there until {until}",
        at=quarantine.since,
    )


def allocated(read_model: ReadModel, node: Node) -> Amounts:
    """The amounts of a node that tasks hold, by slot."""
    idle = read_model.core.dispatcher.idle_of(node.row)
    return {slot: amount - idle.get(slot, 0) for slot, amount in node.allocatable}


def written_queue(read_model: ReadModel, record: Record, version: int) -> Json:
    value = written(record.document, version)
    value["spec"] = value.get("spec") or {}
    name = record.document.key.name
    counts = read_model.groups_of(name)
    qid = read_model.queue_id(record.document.key.kind, name)
    queue_state = read_model.core.order.lines.queues.get(qid)
    state = (value.get("status") or {}).get("state") or "Open"
    # As Volcano's queue controller has it: a closed queue is Closing while jobs of it are left.
    has_jobs = any(counts.get(phase, 0) for phase in ("Pending", "Inqueue", "Running", "Unknown"))
    closed = "Closing" if has_jobs else "Closed"
    value["status"] = {
        "state": "Open" if state == "Open" else closed,
        "pending": counts.get("Pending", 0),
        "inqueue": counts.get("Inqueue", 0),
        "running": counts.get("Running", 0),
        "unknown": counts.get("Unknown", 0),
        "completed": counts.get("Completed", 0),
        "allocated": {}
        if queue_state is None
        else quantities(used(queue_state.info), read_model.names),
    }
    if queue_state is not None:
        value["status"]["requested"] = quantities(queue_state.info.requested, read_model.names)
    mark_unread(read_model, value["status"], record.document.key.kind)
    return value


def shard(read_model: ReadModel, state: ShardState, version: int, *, started: float) -> Json:
    key = Key(SHARD.kind, "", shard_name(state.shard))
    value = virtual(SHARD, key, version, created=started, uid=make_uid(key, 0.0))
    total = ceiling_of(read_model.core).shards.get(state.shard, {})
    value["spec"] = {}
    value["status"] = {
        "nodes": state.in_use,
        "desired": state.nodes,
        "giving": state.giving,
        "taking": state.taking,
        "up": state.epoch is not None,
        "epoch": str(state.epoch) if state.epoch is not None else None,
        "pid": state.pid,
        "refused": state.refused or None,
        "outstanding": state.outstanding,
        "waiting": len(state.waiting),
        "calls": len(state.calls),
        "turns": state.open_turns,
        "turnLimit": state.concurrency.limit,
        "allocatable": quantities(total, read_model.names),
        "idle": quantities(state.idle, read_model.names),
    }
    return value


def written_namespace(read_model: ReadModel, record: Record, version: int) -> Json:
    """A namespace that somebody created."""
    value = written(record.document, version)
    return value | _of_namespace(value["metadata"])


def namespace(name: str, version: int, *, started: float) -> Json:
    key = Key(NAMESPACE.kind, "", name)
    value = virtual(NAMESPACE, key, version, created=started, uid=make_uid(key, 0.0))
    return value | _of_namespace(value["metadata"])


def _of_namespace(metadata: Json) -> Json:
    labels = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    return {
        "metadata": metadata | {"labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def exact(resource: str, units: int) -> str:
    """A slot's amount as text: ``1500m``, ``8``, ``64Gi``, ``1000``."""
    unit = unit_of(resource)
    if unit > 1:
        return str(units // unit) if units % unit == 0 else f"{units}m"
    if resource != "pods":
        for suffix, bits in _BINARY:
            if units and units % (1 << bits) == 0:
                return f"{units >> bits}{suffix}"
    return str(units)


def quantities(
    amounts: Mapping[int, int] | Iterable[tuple[int, int]], names: Sequence[str]
) -> dict[str, str]:
    """Quantities by resource name; negative amounts become 0."""
    pairs = dict(amounts)
    return {
        names[slot]: exact(names[slot], max(0, pairs[slot]))
        for slot in sorted(pairs)
        if slot < len(names)
    }
