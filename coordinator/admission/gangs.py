"""PodGroups and Jobs: the jobs that have a gang's minimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.admission.members import (
    group_of,
    make_groups,
    merge_minima,
    regroup,
)
from coordinator.admission.names import check_free
from coordinator.admission.registry import pack_task
from coordinator.admission.step import Step, make_uid, on_its_way_out
from shared.errors import InvalidInput, not_in_this_version
from shared.manifests import JobManifest, PodGroupManifest
from shared.model import Job, Role


def admit_pod_group(step: Step, new: PodGroupManifest) -> None:
    draft, key = step.draft, f"{new.namespace}/{new.name}"
    jid = draft.groups.get(key)
    old = None if jid is None else draft.jobs.get(jid)
    if jid is not None and old is None:
        raise on_its_way_out(new.name)
    if old is not None and not old.dangling:
        _change(step, old, new)
    elif old is not None:
        _arrive(step, old, new)
    else:
        jid = draft.groups[key] = draft.new_jid()
        uid = new.uid or make_uid(key, jid)
        empty = Job(jid, new.namespace, new.name, "PodGroup", uid, new.queue, 0.0)
        draft.jobs[jid] = _described(step, empty, new)


def _described(step: Step, job: Job, new: PodGroupManifest) -> Job:
    """A job as a PodGroup describes it first."""
    return replace(
        job,
        uid=new.uid or job.uid,
        queue=new.queue,
        created=step.created(new.created),
        priority=step.priority(new, new.priority_class),
        groups=make_groups(new.minimum, new.role_minima),
        role_minima=new.role_minima,
        min_resources=None if new.min_resources is None else step.draft.requests(new.min_resources),
        dangling=False,
    )


def _arrive(step: Step, old: Job, new: PodGroupManifest) -> None:
    """The PodGroup that some pods waited for; nothing of it was placed yet."""
    job = _described(step, old, new)
    job = step.draft.jobs[old.jid] = replace(job, roles=regroup(job), spec=old.spec + 1)
    for role in job.roles:
        if role.group and step.draft.best_effort(role.cid):
            tasks = (pack_task(job.jid, role.first + i) for i, n in enumerate(role.names) if n)
            count = sum(not step.draft.deleting(task) for task in tasks)
            step.draft.hold(job.jid, role.group, count)
            step.draft.hold(job.jid, 0, -count)  # where they were counted when they came


def _change(step: Step, old: Job, new: PodGroupManifest) -> None:
    if new.uid and new.uid != old.uid:
        message = f"another PodGroup has this name, of uid {old.uid}; delete it first"
        raise InvalidInput("metadata.uid", new.uid, message)
    minima = merge_minima(old.role_minima, new.role_minima)
    members = {role.name for role in old.roles}
    for role, minimum in minima[len(old.role_minima) :]:
        if role in members:
            field, remedy = f"spec.minTaskMember.{role}", "set it before the role's first pod"
            raise not_in_this_version(field, minimum, remedy)
    job = replace(
        _described(step, old, new),
        created=old.created,
        groups=make_groups(new.minimum, minima),
        role_minima=minima,
    )
    if job == old:
        step.same.add(id(new))
    else:
        step.draft.jobs[old.jid] = replace(job, spec=old.spec + 1)


# --- Jobs -------------------------------------------------------------------------------------


def admit_job(step: Step, new: JobManifest) -> None:
    """A Job is taken once; the same again changes nothing, another under its name is refused."""
    draft, key = step.draft, f"{new.namespace}/{new.name}"
    for role in new.roles:
        step.check_template(new, role.template)
    jid = draft.batch_jobs.get(key)
    old = None if jid is None else draft.jobs.get(jid)
    if jid is not None and old is None:
        raise on_its_way_out(new.name)
    if old is not None:
        known = all(draft.find_class(role.template) is not None for role in new.roles)
        if not known or replace(_job(step, new, old.jid), created=old.created, spec=old.spec) != (
            old if new.uid else replace(old, uid=make_uid(key, old.jid))
        ):
            message = "another Job has this name and Jobs cannot change; delete it first"
            raise InvalidInput("metadata.name", new.name, message)
        step.same.add(id(new))
        return
    jid = draft.next_jid
    job = _job(step, new, jid)
    check_free(draft, draft.known_pods, job)
    draft.batch_jobs[key] = draft.new_jid()
    draft.jobs[jid] = job
    step.hold_best_effort(job, 0)


def _job(step: Step, new: JobManifest, jid: int) -> Job:
    minima = _minima(new)
    return Job(
        jid=jid,
        namespace=new.namespace,
        name=new.name,
        kind="Job",
        uid=new.uid or make_uid(f"{new.namespace}/{new.name}", jid),
        queue=new.queue,
        created=step.created(new.created),
        priority=step.priority(new, new.priority_class),
        groups=make_groups(new.minimum, minima),
        roles=_roles(step, new, minima),
        role_minima=minima,
    )


def _roles(step: Step, new: JobManifest, minima: Sequence[tuple[str, int]]) -> tuple[Role, ...]:
    roles = []
    first = 0
    for role in new.roles:
        if role.count:
            cid = step.draft.class_of(role.template)
            group = group_of(role.name, minima)
            priority = step.task_priority(new, role)
            roles.append(
                Role(role.name, cid, first, role.count, group, priority, (), role.duration)
            )
        first += role.count
    return tuple(roles)


def _minima(new: JobManifest) -> tuple[tuple[str, int], ...]:
    """Role minima of a Job: where one role says its own, the others' are their replicas.

    They say nothing new where none is written or the job needs every replica.
    """
    total = sum(role.count for role in new.roles)
    if new.minimum >= total or all(role.minimum is None for role in new.roles):
        return ()
    return tuple(
        (role.name, role.count if role.minimum is None else role.minimum) for role in new.roles
    )
