"""Admission of PodGroups and Jobs: the objects that state a gang's minimum."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.intake.admission.membership import group_of, make_groups, merge_minima, regroup
from coordinator.intake.admission.pod_names import check_free
from coordinator.intake.admission.queue_gate import role_with_gate
from coordinator.intake.admission.registry import pack_task
from coordinator.intake.admission.step import AdmissionStep, make_uid, on_its_way_out
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import POD_GROUP
from coordinator.intake.documents.labels import JOB_NAME, JOB_NAMESPACE, QUEUE_LABEL
from shared.codec.packed import replace
from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.fields.metadata import TASK_SPEC
from shared.manifests.parse import parse_stored
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest, RoleManifest
from shared.manifests.volcano.policies import DependsOn
from shared.manifests.volcano.topology import PARTITION_ID
from shared.model.groups import group_key
from shared.model.model import Job, Pairs, Role


def admit_pod_group(
    step: AdmissionStep, new: PodGroupManifest, *, kind: str = POD_GROUP.kind
) -> None:
    """``kind``: of the job."""
    draft, key = step.draft, group_key(kind, f"{new.namespace}/{new.name}")
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
        empty = Job(jid, new.namespace, new.name, kind, uid, new.queue, 0.0)
        draft.jobs[jid] = _described(step, empty, new)


def _described(step: AdmissionStep, job: Job, new: PodGroupManifest) -> Job:
    """The job with the fields that its PodGroup sets."""
    return replace(
        job,
        uid=new.uid or job.uid,
        queue=new.queue,
        created=step.created(new.created),
        priority=step.priority(new, new.priority_class) if new.priority is None else new.priority,
        groups=make_groups(new.minimum, new.role_minima, new.role_parents),
        role_minima=new.role_minima,
        min_resources=None
        if new.min_resources is None
        else step.draft.requests(new.min_resources, "spec.minResources", offers=False),
        quota_amounts=new.quota_amounts,
        dangling=False,
        labels=new.labels,
        annotations=new.annotations,
        phase=new.phase if step.observe else job.phase,
        topology=new.topology,
        sub_groups=new.sub_groups,
        priority_class=new.priority_class,
        preempts=step.preempts(new.priority_class) if new.preempts is None else new.preempts,
        leaves_whole=new.leaves_whole,
        topology_key=new.topology_key,
        refused=new.refused,
    )


def _arrive(step: AdmissionStep, old: Job, new: PodGroupManifest) -> None:
    """Admit the PodGroup that earlier pods waited for; none of them was placed yet."""
    job = _described(step, old, new)
    job = step.draft.jobs[old.jid] = replace(job, roles=regroup(job), spec=old.spec + 1)
    for role in job.roles:
        if role.group and step.draft.best_effort(role.cid):
            tasks = (pack_task(job.jid, role.first + i) for i, n in enumerate(role.names) if n)
            count = sum(not step.draft.deleting(task) for task in tasks)
            step.draft.hold(job.jid, role.group, count)
            step.draft.hold(job.jid, 0, -count)  # where they were counted when they came


def _change(step: AdmissionStep, old: Job, new: PodGroupManifest) -> None:
    if new.uid and new.uid != old.uid:
        message = f"another PodGroup has this name, of uid {old.uid}; delete it first"
        raise InvalidInput("metadata.uid", new.uid, message)
    minima = merge_minima(old.role_minima, new.role_minima)
    members = {role.name for role in old.roles}
    for role, minimum in minima[len(old.role_minima) :]:
        if role in members:
            field, remedy = f"spec.minTaskMember.{role}", "set it before the role's first pod"
            raise not_in_this_version(field, minimum, remedy)
    groups = make_groups(new.minimum, minima, new.role_parents)
    for at, group in enumerate(groups):
        if group.parent >= at:
            name, above = minima[at - 1][0], minima[group.parent - 1][0]
            message = f"came after {name}, and cannot be put above it; delete the PodGroup first"
            raise InvalidInput("spec.subGroups", above, message)
    job = replace(
        _described(step, old, new),
        created=old.created,
        groups=groups,
        role_minima=minima,
    )
    # Applied again without a change: no new version, or each apply of a user would end the job's
    # nominations.
    if job == old:
        step.same.add(id(new))
    else:
        step.draft.jobs[old.jid] = replace(job, spec=old.spec + 1)


# --- Jobs -------------------------------------------------------------------------------------


def admit_job(step: AdmissionStep, new: JobManifest) -> None:
    """Admit a Job. The same Job again is unchanged; a different one under its name is refused.

    Its policies may change; which role depends on which may not.
    """
    draft, key = step.draft, f"{new.namespace}/{new.name}"
    for notice in new.notices:
        step.notice(new, notice)
    for role in new.roles:
        step.check_template(new, role.template)
        step.is_theirs(new, role.annotations)
        for notice in role.notices:
            step.notice(new, notice)
    step.is_theirs(new, new.annotations)
    jid = draft.batch_jobs.get(key)
    document = draft.document(Key("Job", new.namespace, new.name))
    if jid is None and document is None:
        _come(step, new)
        return
    if document is not None and document.deleting is not None:
        raise on_its_way_out(new.name)
    if not _same(step, new, jid, document):
        message = "another Job has this name and Jobs cannot change; delete it first"
        raise InvalidInput("metadata.name", new.name, message)
    job = None if jid is None else draft.jobs.get(jid)
    if job is None or (job.labels, job.annotations) == (new.labels, new.annotations):
        step.same.add(id(new))
    else:
        relabelled = replace(job, labels=new.labels, annotations=new.annotations, spec=job.spec + 1)
        draft.jobs[job.jid] = relabelled


def _come(step: AdmissionStep, new: JobManifest) -> None:
    draft = step.draft
    # Looked at before it is taken: a Job whose pods' names are not free is refused, and uses no
    # number up.
    jid = draft.next_jid
    whole = _job(step, new, jid)
    check_free(draft, draft.known_pods, whole)
    job = whole
    if any(role.depends_on for role in new.roles):
        late = {role.name for role in new.roles if role.depends_on}
        first = tuple(role for role in new.roles if role.name not in late)
        job = replace(whole, roles=_roles(step, first, new, whole))
        if new.minimum > job.tasks:
            step.notice(
                new,
                f"spec.minAvailable: {new.minimum} are needed to start, and only {job.tasks} exist "
                "before roles with dependsOn are created; lower it, or it never starts",
            )
    draft.batch_jobs[f"{new.namespace}/{new.name}"] = draft.new_jid()
    draft.jobs[jid] = job
    step.hold_best_effort(job, 0)


def begin_again(step: AdmissionStep, new: JobManifest) -> None:
    """Restart a Job whose earlier incarnation was purged."""
    _come(step, new)


def add_roles(step: AdmissionStep, new: JobManifest, job: Job, names: Sequence[str]) -> None:
    """Create roles that the Job does not have yet. Raises InvalidInput where their pods' names are
    taken."""
    existing = {role.name for role in job.roles}
    missing = [role for role in new.roles if role.name in names and role.name not in existing]
    roles = _roles(step, missing, new, job, first=job.tasks)
    check_free(step.draft, step.draft.known_pods, replace(job, roles=roles))
    if roles:
        grown = replace(job, roles=job.roles + roles, spec=job.spec + 1)
        step.draft.jobs[job.jid] = grown
        step.hold_best_effort(grown, job.tasks)


def _same(
    step: AdmissionStep, new: JobManifest, jid: int | None, document: Document | None
) -> bool:
    """Whether a Job equals the stored one of its name, be that running, restarting or finished."""
    old = None if jid is None else step.draft.jobs.get(jid) or step.draft.leaving(jid)
    protected = old is not None and step.protected(old)
    classes = (step.draft.find_class(role.template, protected=protected) for role in new.roles)
    if None in classes:
        return False
    before = None if document is None else parse_stored(document.object())
    if isinstance(before, JobManifest):
        if _dependencies(before) != _dependencies(new):
            return False
        uid = "" if old is None else old.uid
        old = _job(step, before, -1 if jid is None else jid)
        old = replace(old, uid=uid or old.uid)
    if old is None:
        return False
    submitted = replace(
        _job(step, new, old.jid),
        created=old.created,
        spec=old.spec,
        labels=old.labels,
        annotations=old.annotations,
    )
    if not new.uid:
        submitted, old = replace(submitted, uid=""), replace(old, uid="")
    return submitted == old


def _dependencies(manifest: JobManifest) -> dict[str, DependsOn | None]:
    return {role.name: role.depends_on for role in manifest.roles}


def _job(step: AdmissionStep, new: JobManifest, jid: int) -> Job:
    minima = _minima(new)
    job = Job(
        jid=jid,
        namespace=new.namespace,
        name=new.name,
        kind="Job",
        uid=new.uid or make_uid(f"{new.namespace}/{new.name}", jid),
        queue=new.queue,
        created=step.created(new.created),
        priority=step.priority(new, new.priority_class),
        groups=make_groups(new.minimum, minima),
        role_minima=minima,
        labels=new.labels,
        annotations=new.annotations,
        topology=new.topology,
        sub_groups=new.sub_groups,
        priority_class=new.priority_class,
        preempts=step.preempts(new.priority_class),
    )
    return replace(job, roles=_roles(step, new.roles, new, job))


def _roles(
    step: AdmissionStep,
    manifests: Sequence[RoleManifest],
    new: JobManifest,
    job: Job,
    first: int = 0,
) -> tuple[Role, ...]:
    """The roles that have members, numbered from ``first`` on."""
    protected, minima = step.protected(job), _minima(new)
    roles: list[Role] = []
    for role in manifests:
        if role.count:
            new_role = Role(
                name=role.name,
                cid=step.draft.class_of(role.template, protected=protected),
                first=first,
                count=role.count,
                group=group_of(role.name, minima),
                priority=step.task_priority(new, role),
                duration=role.duration,
                exit_code=role.exit_code,
                labels=_labels(new, role),
                annotations=role.annotations,
                gated=role.template.gated,
                own_gate=role.template.own_gate,
                priority_class=role.template.priority_class,
            )
            if not step.observe:
                new_role = role_with_gate(new_role)
            roles += (
                [new_role] if role.partition is None else _partitions(new_role, role.partition.size)
            )
        first += role.count
    return tuple(roles)


def _labels(new: JobManifest, role: RoleManifest) -> Pairs:
    """The role's labels, and those that Volcano adds to name the job and the task."""
    ours = {
        JOB_NAME: new.name,
        JOB_NAMESPACE: new.namespace,
        QUEUE_LABEL: new.queue,
        TASK_SPEC: role.name,
    }
    return tuple(sorted((dict(role.labels) | ours).items()))


def _partitions(role: Role, size: int) -> list[Role]:
    """The sub-jobs of a partitioned role; a label of their own distinguishes them."""
    return [
        replace(
            role,
            first=role.first + start,
            count=size,
            start=start,
            labels=tuple(sorted([*role.labels, (PARTITION_ID, str(start // size))])),
        )
        for start in range(0, role.count, size)
    ]


def _minima(new: JobManifest) -> tuple[tuple[str, int], ...]:
    """The role minima of a Job: where one role states its own, those of the others are their
    replicas.

    Empty where no role states a minimum, or where the job needs every replica anyway.
    """
    total = sum(role.count for role in new.roles)
    if new.minimum >= total or all(role.minimum is None for role in new.roles):
        return ()
    return tuple(
        (role.name, role.count if role.minimum is None else role.minimum) for role in new.roles
    )
