"""Rendering of pods, submitted ones and those derived from Jobs."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from coordinator.core.observer import EventReason
from coordinator.intake.admission.queue_gate import GATE
from coordinator.intake.documents.document import Document, Key, pod_uid
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import JOB, POD
from coordinator.intake.documents.labels import TASK_INDEX
from coordinator.intake.documents.metadata import (
    OWN,
    QUEUE,
    REASON,
    SHARD,
    annotate,
    condition,
    owned_by,
    virtual,
    written,
)
from coordinator.jobs.state import JobState
from coordinator.objects.context import ReadModel
from coordinator.objects.native_groups import SCHEDULER_ERROR
from shard_worker.session_model.native_groups import WAITS, group_refusal
from shared.manifests.fields.metadata import SCHEDULER_NAME
from shared.messages.messages import ENDED, UNSUCCESSFUL, TaskState
from shared.messages.reason import Reason
from shared.model.devices import own_claim
from shared.model.kai_devices import group_labels, received
from shared.model.model import Role
from shared.model.node_devices import device_annotations
from shared.units.things import Things
from shared.units.times import rfc3339

Json = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"
"""Autoscalers look for exactly this word, and add nodes for each pod that has it."""
SCHEDULABLE = "Schedulable"
"""Volcano's word for a pod that fits and waits for the rest of its gang."""

_PHASES = {
    TaskState.PENDING: "Pending",
    TaskState.BINDING: "Pending",
    TaskState.BOUND: "Pending",
    TaskState.RUNNING: "Running",
    TaskState.RELEASING: "Running",
    TaskState.SUCCEEDED: "Succeeded",
    TaskState.FAILED: "Failed",
    TaskState.LOST: "Failed",
}
_READY_REASONS = {
    TaskState.SUCCEEDED: "PodCompleted",
    TaskState.FAILED: "PodFailed",
    TaskState.LOST: "PodFailed",
}
"""Why a finished pod is not ready, in Kubernetes' words."""

LOST_REASON = "NodeLost"
"""``status.reason`` of a pod lost with its node, as in Kubernetes."""

_STARTED = (TaskState.RUNNING, TaskState.RELEASING)


_TEMPLATE = "resourceClaimTemplateName"


class PodTask(NamedTuple):
    """The scheduler's state of one pod."""

    jid: int
    tix: int
    state: TaskState
    row: int
    """Row of its node; -1 for none."""


def task_of(read_model: ReadModel, jid: int, tix: int) -> PodTask:
    return PodTask(jid, tix, *read_model.task_state(jid, tix))


def phase_of(task: PodTask) -> str:
    return _PHASES[task.state]


def node_of(read_model: ReadModel, task: PodTask) -> str:
    return read_model.core.names.get(task.row, "") if task.row >= 0 else ""


def written_pod(read_model: ReadModel, record: Record, task: PodTask, version: int) -> Json:
    """A pod that was submitted itself."""
    value = written(record.document, version)
    value["spec"] = value.get("spec") or {}
    return _with_state(read_model, value, task)


def job_pod(
    read_model: ReadModel, job: Document, task: PodTask, *, role: Role, name: str, version: int
) -> Json:
    """A pod derived from a Job."""
    template = read_model.template(job, role.name)
    key = Key(POD.kind, job.key.namespace, name)
    state = read_model.state(task.jid)
    # Who had it evicted waits until this incarnation is gone, which would never be where it ended
    # well before it was stopped.
    evicted = 0 if state is None else _incarnations_gone(state, task.tix)
    uid = pod_uid(key, job, evicted=evicted)
    value = virtual(POD, key, version, created=job.created, uid=uid)
    index = str(role.start + task.tix - role.first)
    metadata = value["metadata"]
    metadata["labels"] = template.labels | dict(role.labels) | {TASK_INDEX: index}
    metadata["annotations"] = template.annotations | dict(role.annotations) | {TASK_INDEX: index}
    for key_of_ours in (SCHEDULER_NAME, *OWN):
        metadata["annotations"].pop(key_of_ours, None)
    metadata["ownerReferences"] = owned_by(job, JOB)
    if job.deleting is not None:
        metadata["deletionTimestamp"] = rfc3339(job.deleting)
        metadata["deletionGracePeriodSeconds"] = 0
    value["spec"] = orjson.loads(template.spec)
    if role.own_gate or not role.gated:  # added at its creation, or removed since
        value["spec"].pop("schedulingGates", None)
        value["spec"] |= {"schedulingGates": [GATE]} if role.own_gate else {}
    return _with_state(read_model, value, task)


def _incarnations_gone(state: JobState, tix: int) -> int:
    evictions = state.incarnations.get(tix, 0)
    ended_well = state.states[tix] == TaskState.SUCCEEDED
    return evictions + (ended_well and state.evicted_on_request.get(tix) == evictions)


# --- what became of it --------------------------------------------------------------------------


def _with_state(read_model: ReadModel, value: Json, task: PodTask) -> Json:
    metadata, spec = value["metadata"], value["spec"]
    # Only what another scheduler wrote is shown as written; of ours, the node is where the ledger
    # has the task.
    written = spec.pop("nodeName", None)
    node = written if task.jid in read_model.core.order.theirs else node_of(read_model, task)
    if node:
        spec["nodeName"] = node
    state = read_model.state(task.jid)
    waits = read_model.why(task.jid) if task.state is TaskState.PENDING else None
    annotate(
        metadata,
        {
            QUEUE: state.job.queue if state is not None else "",
            SHARD: read_model.shard_of(task.row),
            REASON: waits.reason.value if waits is not None else "",
            **_devices(read_model, task),
        },
    )
    if labels := group_labels(_taken(read_model, task)):
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    status: Json = {"phase": phase_of(task), "conditions": _conditions(read_model, task)}
    if task.state is TaskState.LOST:
        status["reason"] = LOST_REASON
        status["message"] = "the pod vanished from the cluster, with its node or removed by others"
    if task.state is TaskState.PENDING and state is not None and task.tix in state.nominated:
        status["nominatedNodeName"] = read_model.core.names.get(state.nominated[task.tix], "")
    status |= _started(read_model, spec, task)
    if claims := _claim_statuses(read_model, value, task):
        status["resourceClaimStatuses"] = claims
    value["status"] = status
    return value


def _claim_statuses(read_model: ReadModel, value: Json, task: PodTask) -> list[Json]:
    """Which ResourceClaims were made for the pod, by their names in it. One that its author named
    is shown as written."""
    templated = [c for c in value["spec"].get("resourceClaims") or () if c.get(_TEMPLATE)]
    state = read_model.state(task.jid) if templated else None
    if state is None:
        return []
    written: list[Json] = (value.get("status") or {}).get("resourceClaimStatuses") or []
    by_name = {status.get("name"): status for status in written}
    known = read_model.core.order.accounts.cluster.objects.claims
    metadata, claims = value["metadata"], list[Json]()
    for claim in templated:
        own = own_claim(state.job.uid, metadata["name"], claim[_TEMPLATE])
        if claim["name"] in by_name:
            claims.append(by_name[claim["name"]])
        # From before the bind, when it is made. It stays with the pod when the claim is gone.
        elif task.row >= 0 and (
            task.state is not TaskState.BINDING or f"{metadata['namespace']}/{own}" in known
        ):
            claims.append({"name": claim["name"], "resourceClaimName": own})
    return claims


def _devices(read_model: ReadModel, task: PodTask) -> dict[str, str]:
    """Which devices of its node the task has, as Volcano and KAI write it."""
    node, devices = read_model.core.nodes.get(task.row), _taken(read_model, task)
    if node is None or not devices:
        return {}
    return device_annotations(node, devices) | received(devices)


def _taken(read_model: ReadModel, task: PodTask) -> Things:
    """Devices of its node that the task takes."""
    state = read_model.state(task.jid)
    return () if state is None or task.row < 0 else state.devices.get(task.tix, ())


def _conditions(read_model: ReadModel, task: PodTask) -> list[Json]:
    story = read_model.stories.get(task.jid)
    if task.state is TaskState.PENDING:
        return [waiting_condition(read_model, task.jid, task.tix)]
    conditions = []
    if task.row >= 0:
        at = story.placed_at(task.tix) if story is not None else None
        conditions.append(condition("PodScheduled", True, reason="Scheduled", message="", at=at))
    ready = task.state is TaskState.RUNNING
    at = story.time_of(task.state, task.tix) if story is not None else None
    conditions.append(
        condition("Ready", ready, reason=_READY_REASONS.get(task.state, ""), message="", at=at)
    )
    return conditions


def waiting_condition(read_model: ReadModel, jid: int, tix: int) -> Json:
    """The condition of a pod that waits: why, and whether it would fit by itself."""
    waits, story = read_model.why(jid), read_model.stories.get(jid)
    failure = story.last(EventReason.FAILED_SCHEDULING) if story is not None else None
    message = f"{waits.reason}: {waits.message}" if waits else ""
    fits = not read_model.of_kai and read_model.is_fitting(jid, tix)
    reason = SCHEDULABLE if fits else UNSCHEDULABLE
    if jid in read_model.core.order.theirs:
        reason = Reason.OTHER_SCHEDULER  # nobody is to add a node for it
    state = read_model.state(jid)
    if state is not None and (refused := group_refusal(state.job)):
        waits_for_more = refused.startswith(WAITS)
        reason, message = UNSCHEDULABLE if waits_for_more else SCHEDULER_ERROR, refused
    at = failure.first if failure is not None else None
    return condition("PodScheduled", False, reason=reason, message=message, at=at)


def _started(read_model: ReadModel, spec: Json, task: PodTask) -> Json:
    """startTime and container statuses of a pod that its node knows (bound or later)."""
    if task.state in (TaskState.PENDING, TaskState.BINDING) or task.row < 0:
        return {}
    story = read_model.stories.get(task.jid)
    started = story.time_of(TaskState.RUNNING, task.tix) if story is not None else None
    ended = story.time_of(task.state, task.tix) if story and task.state in ENDED else None
    status: Json = {}
    if started is not None:
        status["startTime"] = rfc3339(started)
    now = _container_state(task.state, started, ended)
    status["containerStatuses"] = [
        {
            "name": container.get("name", ""),
            "image": container.get("image", ""),
            "imageID": "",
            "ready": task.state is TaskState.RUNNING,
            "started": task.state in _STARTED,
            "restartCount": 0,
            "state": now,
        }
        for container in spec.get("containers") or ()
    ]
    return status


def _container_state(state: TaskState, started: float | None, ended: float | None) -> Json:
    if state is TaskState.BOUND:
        return {"waiting": {"reason": "ContainerCreating"}}
    at = {} if started is None else {"startedAt": rfc3339(started)}
    if state in _STARTED:
        return {"running": at}
    failed = state in UNSUCCESSFUL
    end = {} if ended is None else {"finishedAt": rfc3339(ended)}
    outcome = {"exitCode": int(failed), "reason": "Error" if failed else "Completed"}
    return {"terminated": {**outcome, **at, **end}}
