"""Rendering of PodGroups and Jobs, with their progress and pending reasons."""

from __future__ import annotations

from typing import Any

from coordinator.controllers.job_rules import outcome
from coordinator.controllers.restarts import RESTARTING, behind, incarnations
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import JOB, POD_GROUP, unread
from coordinator.intake.documents.metadata import REASON as REASON_ANNOTATION
from coordinator.intake.documents.metadata import annotate, condition, owned_by, virtual, written
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState, deleted_members
from coordinator.objects.conditions import present_condition
from coordinator.objects.context import ReadModel, group_name, phase
from shared.messages.messages import ENDED, UNSUCCESSFUL, TaskState
from shared.model.model import Job
from shared.model.topology import SubGroupPolicy, Topology
from shared.units.amount_text import by_name
from shared.units.times import rfc3339

Json = dict[str, Any]

_STARTED = (
    TaskState.RUNNING,
    TaskState.RELEASING,
    *ENDED,
)
READ = "Read"
"""Condition of an object: whether the policy in force looks at it."""


def written_group(read_model: ReadModel, record: Record, version: int) -> Json:
    """A PodGroup that was submitted itself."""
    value = written(record.document, version)
    value["spec"] = value.get("spec") or {}
    value["status"] = group_status(read_model, record.document)
    mark_unread(read_model, value["status"], record.document.key.kind)
    annotate_reason(read_model, value, record.document.jid)
    return value


def mark_unread(read_model: ReadModel, status: Json, kind: str) -> None:
    """Add the condition of an object that is kept and not looked at, since the policy in force is
    of the other dialect."""
    if (message := unread(kind, read_model.registry.dialect)) is not None:
        unread_condition = condition(READ, False, reason="OtherDialect", message=message, at=None)
        status["conditions"] = [*(status.get("conditions") or ()), unread_condition]


def job_group(read_model: ReadModel, job: Document, version: int) -> Json:
    """The PodGroup derived from a Job."""
    key = Key(POD_GROUP.kind, job.key.namespace, group_name(job))
    uid = Document(key, b"", job.created, jid=job.jid).uid
    value = virtual(POD_GROUP, key, version, created=job.created, uid=uid)
    value["metadata"]["ownerReferences"] = owned_by(job, JOB)
    if job.deleting is not None:
        value["metadata"]["deletionTimestamp"] = rfc3339(job.deleting)
    state = read_model.state(job.jid)
    spec: Json = job.object()["spec"]
    value["spec"] = {"queue": spec.get("queue") or "default"}
    if spec.get("priorityClassName"):
        value["spec"]["priorityClassName"] = spec["priorityClassName"]
    if state is not None:
        value["spec"]["minMember"] = state.job.groups[0].minimum
        minima = dict(state.job.role_minima)
        value["spec"] |= {"minTaskMember": minima} if minima else {}
        value["spec"] |= _closeness(state.job)
    value["status"] = group_status(read_model, job)
    annotate_reason(read_model, value, job.jid)
    return value


def _closeness(job: Job) -> Json:
    """``networkTopology`` of a Job, and the sub groups for its partitions."""
    fields: Json = {}
    if job.topology is not None:
        fields["networkTopology"] = _topology(job.topology)
    if job.sub_groups:
        fields["subGroupPolicy"] = [_sub_group(policy) for policy in job.sub_groups]
    return fields


def _topology(topology: Topology) -> Json:
    value: Json = {"mode": "hard" if topology.hard else "soft"}
    if topology.highest_tier is not None:
        value["highestTierAllowed"] = topology.highest_tier
    if topology.highest_tier_name:
        value["highestTierName"] = topology.highest_tier_name
    return value


def _sub_group(policy: SubGroupPolicy) -> Json:
    value: Json = {
        "name": policy.name,
        "subGroupSize": policy.size,
        "minSubGroups": policy.minimum,
        "matchLabelKeys": list(policy.match_label_keys),
    }
    if policy.topology is not None:
        value["networkTopology"] = _topology(policy.topology)
    if policy.selector is not None:
        expressions = [
            {"key": r.key, "operator": r.operator, "values": list(r.values)}
            for r in policy.selector
        ]
        value["labelSelector"] = {"matchExpressions": expressions}
    return value


def group_status(read_model: ReadModel, document: Document) -> Json:
    """The status of a PodGroup. ``document``: the PodGroup's own, or its Job's."""
    state = read_model.state(document.jid)
    if state is None:
        return {"phase": "Pending", "running": 0, "succeeded": 0, "failed": 0}
    counts = task_counts(state)
    return {
        "phase": phase(state),
        "running": counts["running"],
        "succeeded": counts["succeeded"],
        "failed": counts["failed"],
        **waiting_status(read_model, state, document.generation),
    }


def task_counts(state: JobState) -> dict[str, int]:
    count = state.states.count
    return {
        "pending": sum(map(count, (TaskState.PENDING, TaskState.BINDING, TaskState.BOUND))),
        "running": count(TaskState.RUNNING),
        "terminating": count(TaskState.RELEASING),
        "succeeded": count(TaskState.SUCCEEDED),
        "failed": sum(map(count, UNSUCCESSFUL)) - deleted_members(state),
    }


def annotate_reason(read_model: ReadModel, value: Json, jid: int) -> None:
    why = read_model.why(jid)
    annotate(value["metadata"], {REASON_ANNOTATION: why.reason.value if why else ""})


# --- why it waits -------------------------------------------------------------------------------


def waiting_status(read_model: ReadModel, state: JobState, generation: int) -> Json:
    """The condition that holds, in Volcano's words, with the more precise reason in the
    explanation."""
    why, present = read_model.why(state.job.jid), present_condition(read_model, state)
    return {
        **({"conditions": [present]} if present else {}),
        **({"explanations": [explanation(read_model, why, generation)]} if why is not None else {}),
    }


def explanation(read_model: ReadModel, why: Why, generation: int) -> Json:
    """The explanation of a pending job, with amounts only if there are any."""
    at = why.evaluated_at or read_model.core.order.now
    result: Json = {
        "reason": why.reason.value,
        "message": why.message,
        "evaluatedAt": rfc3339(at),
        "observedGeneration": generation,
    }
    if why.shard >= 0:
        result |= {"shard": why.shard, "session": why.session, "epoch": why.epoch}
    for name in ("requested", "available", "short"):
        amounts = getattr(why, name)
        if amounts:
            result[name] = by_name(amounts, read_model.names)
    return result


# --- Jobs ---------------------------------------------------------------------------------------


def written_job(read_model: ReadModel, record: Record, version: int) -> Json:
    document = record.document
    value = written(document, version)
    state = read_model.state(document.jid)
    value["status"] = _job_status(read_model, document, state)
    annotate_reason(read_model, value, document.jid)
    return value


def _job_status(read_model: ReadModel, document: Document, state: JobState | None) -> Json:
    memory = document.state or {}
    if state is None:
        return _ended(document, memory)
    counts = task_counts(state)
    why = read_model.why(document.jid)
    job_state: Json = {"phase": job_phase(document, state)}
    if memory.get("reason"):
        job_state |= {"reason": memory["reason"], "message": memory["message"]}
    elif job_state["phase"] == RESTARTING:
        job_state |= {"reason": memory["event"], "message": memory["told"]}
    elif why is not None:
        job_state |= {"reason": why.reason.value, "message": why.message}
    story = read_model.stories.get(document.jid)
    if story is not None and story.moments:
        job_state["lastTransitionTime"] = rfc3339(story.moments[-1][1])
    return {
        "state": job_state,
        **counts,
        "minAvailable": state.job.groups[0].minimum,
        "retryCount": memory.get("retryCount", 0),
        "version": document.generation,
        **waiting_status(read_model, state, document.generation),
    }


_KEPT = ("minAvailable", "succeeded", "failed")


def _ended(document: Document, memory: Json) -> Json:
    """The status of a Job whose tasks are gone, from what was remembered of them."""
    job_state: Json = {"phase": job_phase(document, None)}
    job_state |= {name: memory[name] for name in ("reason", "message") if name in memory}
    if "ended" in memory:
        job_state["lastTransitionTime"] = rfc3339(memory["ended"])
    counts: Json = {name: memory[name] for name in _KEPT if name in memory}
    running: Json = {"pending": 0, "running": 0, "terminating": 0} if counts else {}
    return {
        "state": job_state,
        **running,
        **counts,
        "retryCount": memory.get("retryCount", 0),
        "version": document.generation,
    }


def _min_success(document: Document) -> int:
    """Pods that have to succeed for the Job to be complete; 0: not set. Most bodies do not name it,
    and are not parsed for it."""
    if b'"minSuccess"' not in document.body:
        return 0
    return document.object()["spec"].get("minSuccess") or 0


def job_phase(document: Document, state: JobState | None) -> str:
    """The phase in Volcano's words. A deletion comes first, then a phase set by a controller."""
    if document.deleting is not None:
        return "Terminating"
    controller_phase = (document.state or {}).get("phase")
    if controller_phase:
        return str(controller_phase)
    if state is None:
        return "Pending"
    incarnations_now = incarnations(document.state or {})
    if incarnations_now and next(behind(state, incarnations_now), None) is not None:
        return RESTARTING
    if phase(state) == "Completed":
        return outcome(state.job, state.states, _min_success(document)) or "Running"
    started = sum(map(state.states.count, _STARTED))
    return "Running" if started and started >= state.job.groups[0].minimum else "Pending"
