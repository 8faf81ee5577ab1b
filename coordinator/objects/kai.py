"""Rendering of KAI's queues, PodGroups and topologies, in KAI's words.

What a queue shows covers all queues below it. Reasons are those of every job (a PodGroup's
``explanations`` and conditions are as Volcano's); beside them stand the conditions that KAI's own
clients read, with KAI's reasons and the figures of the queue that does not let the job in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator.intake.documents.document import Document
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.metadata import condition, written
from coordinator.jobs.capability import QueueBound
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState
from coordinator.objects.cluster import exact, quantities
from coordinator.objects.context import NOT_TRIED, ReadModel, phase
from coordinator.objects.gangs import annotate_reason, mark_unread, task_counts, waiting_status
from shard_worker.session_model.workload import QueueInfo
from shared.manifests.kai.groups import UNSCHEDULABLE
from shared.messages.reason import Reason
from shared.model.kai import DEFAULT_POOL, KaiPodGroup, KaiQueue, KaiShare
from shared.policy.kai_model import node_pool_label
from shared.units.queue_slots import NON_PREEMPTIBLE

Json = dict[str, Any]

NO_QUEUE = "QueueDoesNotExist"
NOT_PLACED = "PodSchedulingErrors"
"""KAI's word where nodes, and no queue, are why a gang waits."""
_COUNTED = frozenset(("cpu", "memory"))
_SHARED_GPUS = "nvidia.com/gpu"
_NON_PREEMPTIBLE = dict(zip(NON_PREEMPTIBLE, ("cpu", "memory", _SHARED_GPUS), strict=True))


# --- queues -------------------------------------------------------------------------------------


def written_kai_queue(read_model: ReadModel, record: Record, version: int) -> Json:
    value = written(record.document, version)
    value["spec"] = value.get("spec") or {}
    key = record.document.key
    info = _queue_info(read_model, key.name, key.kind)
    status: Json = {"childQueues": _children(read_model, key.name)}
    if info is not None:
        allocated = held_below(info)
        status |= {
            "allocated": resources(allocated, read_model.names),
            "allocatedNonPreemptible": non_preemptible(allocated, read_model.names),
            "requested": resources(read_model.requested[key.name], read_model.names),
        }
    elif where := read_model.core.queues.where(key.name):
        status["conditions"] = [
            condition("Accepted", False, reason="NotInNodePool", message=where, at=None)
        ]
    elif key.kind == read_model.registry.queue_kind:
        status["conditions"] = [_orphan(value["spec"].get("parentQueue"))]
    value["status"] = status
    mark_unread(read_model, status, key.kind)
    return value


def _queue_info(read_model: ReadModel, name: str, kind: str) -> QueueInfo | None:
    state = read_model.core.order.lines.queues.get(read_model.queue_id(kind, name))
    return None if state is None else state.info


def _children(read_model: ReadModel, name: str) -> list[str]:
    return sorted(read_model.children.get(name, ()))


def _orphan(parent: object) -> Json:
    """The condition of a queue that does not count, because one above it is missing."""
    message = f"its parent queue {parent} does not exist, or has none itself; create that first"
    return condition("Accepted", False, reason="ParentQueueDoesNotExist", message=message, at=None)


def held_below(info: QueueInfo) -> dict[int, int]:
    """Amounts that a queue and all queues below it hold, by slot."""
    below = {} if info.below is None else info.below.allocated
    slots = info.allocated.keys() | below.keys()
    return {slot: info.allocated.get(slot, 0) + below.get(slot, 0) for slot in slots}


def resources(
    amounts: Mapping[int, int] | Iterable[tuple[int, int]], names: Sequence[str]
) -> dict[str, str]:
    """Quantities of the resources that KAI divides among queues."""
    by_name = quantities(amounts, names)
    return {name: amount for name, amount in by_name.items() if is_counted(name)}


def non_preemptible(amounts: Mapping[int, int], names: Sequence[str]) -> dict[str, str]:
    """The part of a queue's amounts that nobody may evict, by the names of the resources."""
    part = {names[slot]: amount for slot, amount in amounts.items() if slot < len(names)}
    return {
        resource: exact(resource, part[name])
        for name, resource in _NON_PREEMPTIBLE.items()
        if part.get(name, 0) > 0
    }


def is_counted(resource: str) -> bool:
    """Whether KAI divides a resource among queues."""
    return resource in _COUNTED or resource.endswith("/gpu") or "/mig-" in resource


# --- PodGroups ----------------------------------------------------------------------------------


def written_kai_group(read_model: ReadModel, record: Record, version: int) -> Json:
    value = written(record.document, version)
    value["spec"] = value.get("spec") or {}
    document = record.document
    stored = (value.get("status") or {}).get("schedulingConditions")
    value["status"] = status = _group_status(read_model, document)
    if stored and _is_passed_over(read_model, document.key.path):
        status["schedulingConditions"] = stored  # why it failed, not that it is passed over
    mark_unread(read_model, status, document.key.kind)
    annotate_reason(read_model, value, document.jid)
    return value


def _is_passed_over(read_model: ReadModel, path: str) -> bool:
    group = read_model.core.order.accounts.cluster.objects.kai_groups.get(path)
    label = node_pool_label(read_model.core.order.session.policy.kai)
    return group is not None and group.is_passed_over(label)


def _group_status(read_model: ReadModel, document: Document) -> Json:
    state = read_model.state(document.jid)
    if state is None:
        return {"phase": "Pending", "pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    counts = task_counts(state)
    return {
        "phase": phase(state),
        **{name: counts[name] for name in ("pending", "running", "succeeded", "failed")},
        "resourcesStatus": _group_resources(read_model, state),
        **waiting_status(read_model, state, document.generation),
        **_scheduling_conditions(read_model, state),
    }


def _group_resources(read_model: ReadModel, state: JobState) -> Json:
    info, names = state.info, read_model.names
    slots = info.allocated.keys() | info.requested.keys()
    requested = {slot: info.allocated.get(slot, 0) + info.requested.get(slot, 0) for slot in slots}
    return {
        "allocated": resources(info.allocated, names),
        "allocatedNonPreemptible": non_preemptible(info.allocated, names),
        "requested": resources(requested, names),
    }


def _scheduling_conditions(read_model: ReadModel, state: JobState) -> Json:
    """The conditions of a gang that was tried and has not its minimum. As in KAI, one some of whose
    pods do not exist has an event and no condition, and so does one that holds members."""
    why, held = read_model.why(state.job.jid), state.info.held[0]
    if why is None or why.reason in NOT_TRIED or why.reason is Reason.NOT_ENOUGH_TASKS or held:
        return {}
    story = read_model.stories.get(state.job.jid)
    unschedulable = condition(
        UNSCHEDULABLE,
        True,
        reason="Unschedulable",
        message=f"{why.reason}: {why.message}",
        at=None if story is None else story.waits_since,
    )
    own = {"nodePool": pool_of(read_model, state), "reasons": [_reason(read_model, state, why)]}
    return {"schedulingConditions": [unschedulable | own]}


def pool_of(read_model: ReadModel, state: JobState) -> str:
    """The node pool of a gang, as KAI names it."""
    group = _group(read_model, state)
    label = node_pool_label(read_model.core.order.session.policy.kai)
    return DEFAULT_POOL if group is None else group.pool(label)


def own_pool(read_model: ReadModel) -> str:
    """The scheduler's own node pool, as KAI names it."""
    kai = read_model.core.order.session.policy.kai
    return (kai.options.partition_label_value if kai is not None else "") or DEFAULT_POOL


def _group(read_model: ReadModel, state: JobState) -> KaiPodGroup | None:
    return read_model.core.order.accounts.cluster.objects.kai_groups.get(state.job.kai_group)


def _reason(read_model: ReadModel, state: JobState, why: Why) -> Json:
    """KAI's word for the reason where it has one, with the figures of the queue it is about."""
    message = why.message
    if why.bound is not None:
        details = _queue_details(read_model, state, why.bound)
        return {"reason": why.bound.kind.value, "message": message, "details": details}
    if state.info.qid < 0:
        return {"reason": NO_QUEUE, "message": message}
    return {"reason": NOT_PLACED, "message": f"{why.reason}: {message}"}


def _queue_details(read_model: ReadModel, state: JobState, bound: QueueBound) -> Json:
    cluster, names = read_model.core.order.accounts.cluster, read_model.names
    info = _queue_info(read_model, bound.queue, read_model.registry.queue_kind)
    record = cluster.objects.kai_queues.get(bound.queue)
    if info is None or record is None:
        return {"queueDetails": {"name": bound.queue}}
    allocated, requested = held_below(info), dict(bound.asked)
    amounts = {
        "queueRequestedResources": resources(read_model.requested[bound.queue], names),
        "queueDeservedResources": _shares(record, "quota"),
        "queueAllocatedResources": resources(allocated, names),
        "queueAllocatedNonPreemptibleResources": non_preemptible(allocated, names),
        "queueResourceLimits": _shares(record, "limit"),
        "podGroupRequestedResources": resources(requested, names),
        "podGroupRequestedNonPreemptibleResources": non_preemptible(requested, names),
    }
    shown = {name: quantity for name, quantity in amounts.items() if quantity}
    return {"queueDetails": {"name": bound.queue} | shown}


def _shares(record: KaiQueue, part: str) -> dict[str, str]:
    """Quotas or limits of a queue, without those that have no bound."""
    names = ("cpu", "memory", _SHARED_GPUS)
    written_shares = ((i, getattr(share, part)) for i, share in enumerate(_resources_of(record)))
    return quantities([(i, amount) for i, amount in written_shares if amount >= 0], names)


def _resources_of(record: KaiQueue) -> Iterable[KaiShare]:
    return record.cpu, record.memory, record.gpu
