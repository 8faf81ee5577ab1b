"""Parsing of PodGroups (gangs whose pods are submitted separately) and Jobs (gangs with pod
templates)."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import frozen, is_of_nodes, read_totals
from shared.manifests.fields.durations import check_duration
from shared.manifests.fields.metadata import (
    NUMA_POLICY,
    annotations_of,
    duration_of,
    exit_code_of,
    labels_of,
    read_metadata,
    read_template_metadata,
    role_name,
    role_of,
    task_priority_of,
    with_scheduler,
)
from shared.manifests.fields.reader import Fields, dns_label, loose_name, part_of
from shared.manifests.kubernetes.pods import labelled, template
from shared.manifests.volcano.job_plugins import JobVolumes, read_plugins, read_volumes
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest, RoleManifest
from shared.manifests.volcano.policies import (
    MAX_RETRY,
    check_dependencies,
    read_depends_on,
    read_policies,
)
from shared.manifests.volcano.topology import read_partition, read_sub_groups, read_topology
from shared.model.model import Pairs

MAX_TASKS = 1_000_000
"""Maximum number of members of a job."""
_ROLES = 1000
_PHASES = ("", "Pending", "Running", "Unknown", "Inqueue", "Completed")
_RETRIES = "maxRetry: kept and shown; pods are begun anew with their whole job only"
_ESTIMATE = "spec.runningEstimate: kept and shown; nothing is decided by it"
_NUMA = ("", "none", "best-effort", "restricted", "single-numa-node")


def read_pod_group(obj: dict[str, object]) -> PodGroupManifest:
    meta = read_metadata(obj, namespaced=True, loose=True)
    spec = part_of(obj, "spec", "PodGroupSpec")
    status = part_of(obj, "status")
    needs = spec.child("minResources")
    least = frozen(read_totals(needs))
    offered = tuple(pair for pair in least if is_of_nodes(pair[0]))
    return PodGroupManifest(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.created,
        minimum=spec.integer("minMember", 0, high=MAX_TASKS),
        role_minima=_role_minima(spec.child("minTaskMember")),
        queue=loose_name(spec.text("queue") or "default", "spec.queue"),
        priority_class=spec.text("priorityClassName"),
        min_resources=None if needs is None else offered,
        quota_amounts=tuple(pair for pair in least if pair not in offered),
        phase=status.choice("phase", _PHASES, ""),
        labels=labels_of(meta),
        annotations=annotations_of(meta),
        topology=read_topology(spec),
        sub_groups=read_sub_groups(spec),
    )


def _role_minima(fields: Fields | None) -> tuple[tuple[str, int], ...]:
    if fields is None:
        return ()
    if len(fields.data) > _ROLES:
        raise InvalidInput(fields.at, fields.data, f"too many; at most {_ROLES} roles are allowed")
    return tuple(
        (role_name(role, fields.path(role)), fields.integer(role, 0, high=MAX_TASKS))
        for role in sorted(fields.data)
    )


def read_job(obj: dict[str, object]) -> JobManifest:
    """Read a Job. Defaults as in Volcano: a task's minimum is its replicas, the job's the sum of
    those."""
    meta = read_metadata(obj, namespaced=True)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("JobSpec")
    plugins, volumes = read_plugins(spec), read_volumes(spec)
    roles = plugins.ordered(
        tuple(
            _role(task, f"default{i}", volumes)
            for i, task in enumerate(spec.children("tasks", longest=_ROLES))
        )
    )
    total = sum(role.count for role in roles)
    if not 0 < total <= MAX_TASKS:
        raise spec.wrong("tasks", f"{total} replicas in all; write from 1 to {MAX_TASKS}")
    if len({role.name for role in roles}) != len(roles):
        raise spec.wrong("tasks", "two tasks have the same name; give each its own")
    check_dependencies(spec, ((role.name, role.depends_on) for role in roles))
    minimum = spec.integer("minAvailable", 0)
    if minimum > total:
        raise spec.wrong("minAvailable", f"more than the {total} replicas of all tasks; lower it")
    min_success = spec.integer("minSuccess", 0)
    if min_success > total:
        raise spec.wrong("minSuccess", f"more than the {total} replicas of all tasks; lower it")
    policies = read_policies(spec)
    estimate = check_duration(spec, "runningEstimate")
    notices = [plugins.notice, volumes.notice, _ESTIMATE if estimate else "", *policies.notices]
    usual = sum(role.count if role.minimum is None else role.minimum for role in roles)
    return JobManifest(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.created,
        minimum=minimum or usual,
        queue=loose_name(spec.text("queue") or "default", "spec.queue"),
        priority_class=spec.text("priorityClassName"),
        roles=roles,
        policies=policies.carried_out,
        max_retry=spec.integer("maxRetry", 0) or MAX_RETRY,
        ttl=_ttl(spec),
        min_success=min_success,
        notices=tuple(filter(None, notices)),
        labels=labels_of(meta),
        annotations=with_scheduler(annotations_of(meta), spec.text("schedulerName")),
        topology=read_topology(spec),
        sub_groups=tuple(role.partition for role in roles if role.partition is not None),
    )


def _ttl(spec: Fields) -> int | None:
    name = "ttlSecondsAfterFinished"
    return None if spec.data.get(name) is None else spec.integer(name, 0)


def _role(task: Fields, default_name: str, volumes: JobVolumes) -> RoleManifest:
    task.check("JobTask")
    count = task.integer("replicas", 1, high=MAX_TASKS)
    minimum = None if task.data.get("minAvailable") is None else task.integer("minAvailable", 0)
    if minimum is not None and minimum > count:
        raise task.wrong("minAvailable", f"more than its {count} replicas; lower it")
    pod = task.need("template")
    pod.check("PodTemplate")
    at = pod.path("metadata")
    meta = read_template_metadata(pod.child("metadata"), at)
    role_of(meta, at)
    name = dns_label(task.text("name") or default_name, task.path("name"))
    labels = labels_of(meta, at)
    form = template(volumes.added(pod.data.get("spec")), pod.path("spec"))
    if form.ephemeral:
        message = "ephemeral ones are not in this version; use spec.tasks[].volumes with a claim"
        raise InvalidInput(pod.path("spec.volumes"), list(form.ephemeral), message)
    policies = read_policies(task)
    retries = task.integer("maxRetry", 0)
    notices = (*((f"{task.at}.{_RETRIES}",) if retries else ()), *policies.notices)
    return RoleManifest(
        name=name,
        count=count,
        minimum=minimum,
        template=labelled(form, labels),
        task_priority=task_priority_of(meta, at),
        duration=duration_of(meta, at),
        exit_code=exit_code_of(meta, at),
        policies=policies.carried_out,
        notices=notices,
        depends_on=read_depends_on(task),
        labels=labels,
        annotations=_with_numa(task, with_scheduler(annotations_of(meta, at), form.scheduler)),
        partition=read_partition(task, name, count),
    )


def _with_numa(task: Fields, annotations: Pairs) -> Pairs:
    """The annotations of a task's pods, with one added for its ``topologyPolicy``."""
    policy = task.choice("topologyPolicy", _NUMA, "")
    if not policy:
        return annotations
    return tuple(sorted((dict(annotations) | {NUMA_POLICY: policy}).items()))
