"""Admission of pods: jobs of one, or members of a PodGroup created before or after them."""

from __future__ import annotations

from coordinator.intake.admission.membership import (
    NO_MORE,
    UNREACHABLE,
    GangMember,
    RoleAttributes,
    amend,
    join,
    member_key,
    with_more,
)
from coordinator.intake.admission.native_groups import member_priority, take_queue
from coordinator.intake.admission.pod_names import owner_of
from coordinator.intake.admission.queues import DEFAULT
from coordinator.intake.admission.registry import pack_task, unpack_task
from coordinator.intake.admission.step import (
    NOTHING_TOLD,
    AdmissionStep,
    JoiningPod,
    PlacedPod,
    make_uid,
    on_its_way_out,
)
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import NATIVE_POD_GROUP, POD_GROUP
from coordinator.intake.documents.labels import QUEUE_LABEL
from shared.byte_cache import MIB, byte_cache
from shared.codec.packed import replace
from shared.errors import InvalidInput, shown
from shared.manifests.fields.metadata import (
    GROUP_DEADLINE,
    GROUP_NAME,
    LATE_GROUP,
    QUEUE_NAME,
    group_deadline,
)
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.kubernetes.pods import read_status
from shared.manifests.parse import parse_stored
from shared.messages.messages import Group
from shared.model.groups import COMPOSITE, group_key
from shared.model.model import Job, Pairs, Role
from shared.policy.model import Dialect

CHANGED_IN_PLACE = "it changed after it was taken; until it ends its queue counts it as it was"
"""Notice for a pod of a watched cluster."""
GROUP_AFTER_BINDING = (
    "its group was named after it was bound, so it stays a job of its own until it ends"
)
"""Notice for a pod of a watched cluster."""

_ALONE = (Group(-1, 1),)
_OWN_LABELS = frozenset(
    (
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
        "volcano.sh/task-index",
    )
)

"""Labels that are unique to each pod of a set. Keeping them would make each pod a role of its own,
and a selector on one of them matches a single pod."""


def admit_pod(step: AdmissionStep, new: PodManifest) -> None:
    template = new.template
    theirs = step.is_theirs(new, new.annotations)
    if template.node_name and not theirs:
        step.check_template(new, template)
    if step.observe and new.status:
        read_status(new)  # refused here, before anything of the pod is taken
    key = f"{new.namespace}/{new.name}"
    if key in step.draft.pods or key in step.coming:
        _again(step, key, new)
        return
    if step.draft.has_jobs() and (owner := owner_of(step.draft, new.namespace, new.name)):
        message = f"a pod of Job {owner[0].key} has this name; use another name"
        raise InvalidInput("metadata.name", new.name, message)
    if new.group:
        admit_member(step, key, new)
    else:
        _alone(step, key, new)


def _notice_queue_of_jobs(step: AdmissionStep, new: PodManifest) -> None:
    """Volcano writes this name on the pods of its Jobs, and reads it nowhere."""
    written = {**dict(new.labels), **dict(new.annotations)}.get(QUEUE_LABEL, DEFAULT)
    if written != DEFAULT:
        message = (
            f"{QUEUE_LABEL} {shown(written)} does not choose the queue of a pod without PodGroup, "
            f"which is in queue {DEFAULT}; name it in the annotation {QUEUE_NAME}"
        )
        step.notice(new, message)


def _alone(step: AdmissionStep, key: str, new: PodManifest) -> None:
    """A pod without PodGroup is a job of one."""
    draft = step.draft
    if not new.queue and step.dialect is Dialect.VOLCANO:
        _notice_queue_of_jobs(step, new)
    jid = draft.new_jid()
    of_job = _priority(step, new)
    cid = draft.class_of(new.template, protected=step.protects(of_job))
    priority = step.task_priority(new, new)
    more, created = _more(step, new), step.created(new.created)
    if created + step.group_wait > step.now and not new.template.node_name:
        more = _marked(more, GROUP_DEADLINE, repr(created + step.group_wait))
    role = Role(
        new.role,
        cid,
        0,
        1,
        0,
        priority,
        (new.name,),
        new.duration,
        new.exit_code,
        more.labels,
        more.annotations,
        more.gated,
        more.own_gate,
        priority_class=more.priority_class,
    )
    draft.pods[key] = pack_task(jid, 0)
    draft.jobs[jid] = Job(
        jid,
        new.namespace,
        new.name,
        "Pod",
        new.uid or make_uid(key, jid),
        new.queue or DEFAULT,
        created,
        of_job,
        _ALONE,
        (role,),
        labels=_of_volcano(more.labels) if more.labels else (),
        annotations=more.annotations,
        priority_class=more.priority_class,
        preempts=not more.priority_class or step.preempts(more.priority_class),
    )
    if draft.best_effort(cid):
        draft.hold(jid, 0, 1)
    _place(step, new, jid, 0)


def _marked(more: RoleAttributes, mark: str, value: str) -> RoleAttributes:
    return replace(more, annotations=tuple(sorted((*more.annotations, (mark, value)))))


def _more(step: AdmissionStep, new: PodManifest) -> RoleAttributes:
    """The attributes of the pod beyond its task class."""
    template = new.template
    if not (new.labels or new.annotations or template.gated or template.priority_class):
        return NO_MORE
    gates = (template.gated, template.own_gate)
    return _made(new.labels, new.annotations, gates, template.priority_class, step.observe)


@byte_cache("pod-attributes", 4 * MIB)
def _made(
    labels: Pairs,
    annotations: Pairs,
    gates: tuple[bool, bool],
    priority_class: str,
    every_label: bool,
) -> RoleAttributes:
    """The attributes beyond the class, cached because most pods repeat them. Without
    ``every_label`` those that are unique to a pod are left out."""
    common = [pair for pair in labels if every_label or pair[0] not in _OWN_LABELS]
    more = RoleAttributes(tuple(common), annotations, *gates, priority_class)
    return NO_MORE if more == NO_MORE else more


@byte_cache("volcano-labels", 2 * MIB)
def _of_volcano(labels: Pairs) -> Pairs:
    return tuple([pair for pair in labels if "volcano.sh/" in pair[0]])


def _like(step: AdmissionStep, job: Job, more: RoleAttributes) -> Job:
    """A job of one pod takes the labels, annotations and priority class of its pod."""
    return replace(
        job,
        labels=_of_volcano(more.labels),
        annotations=more.annotations,
        priority_class=more.priority_class,
        preempts=step.preempts(more.priority_class),
    )


def admit_member(step: AdmissionStep, key: str, new: PodManifest) -> None:
    """Admit a pod of a PodGroup, which may not exist yet: then the pods wait for it together."""
    draft, group, kind = step.draft, f"{new.namespace}/{new.group}", _group_kind(new)
    job = _job_of_group(step, new)
    if job is None:
        jid = draft.groups[group_key(kind, group)] = draft.new_jid()
        job = draft.jobs[jid] = Job(
            jid=jid,
            namespace=new.namespace,
            name=new.group,
            kind=kind,
            uid=make_uid(group, jid),
            queue=new.queue or DEFAULT,
            created=step.created(new.created),
            groups=(Group(-1, UNREACHABLE),),
            dangling=True,
        )
    if job.dangling:
        step.notice(new, f"PodGroup {group} does not exist, so its pods wait; create it")
    member = GangMember(
        name=new.name,
        role=_member_role(job, new),
        cid=draft.class_of(new.template, protected=step.protected(job)),
        priority=_task_priority(step, new),
        duration=new.duration,
        exit_code=new.exit_code,
        key=member_key(new.name, step.created(new.created), new.uid),
        more=_more(step, new),
        created=step.created(new.created) if step.observe else None,
        uid=new.uid,
    )
    step.coming[key] = JoiningPod(job.jid, new, member)


def _member_role(job: Job, new: PodManifest) -> str:
    """The role of a pod; in the job of a tree its PodGroup."""
    return new.group if job.kind == COMPOSITE else new.role


def _job_of_group(step: AdmissionStep, new: PodManifest) -> Job | None:
    """The job of the pod's PodGroup; None where there is none yet. Raises InvalidInput where the
    pod may not join it."""
    group = f"{new.namespace}/{new.group}"
    jid = step.draft.groups.get(group_key(_group_kind(new), group))
    job = None if jid is None else step.draft.jobs.get(jid)
    # Its name stays taken until the last task has left: two jobs of one name could hold nodes at
    # once (decision 0014).
    if jid is not None and job is None:
        message = "this PodGroup is being deleted; wait until it is gone, or name another one"
        raise InvalidInput(_group_field(new), new.group, message, reason="Conflict")
    if not step.planting and (job is None or job.dangling):
        message = (
            f"PodGroup {group} does not exist, so nobody knows which queue its pods go to; create "
            "it first, or in the same list (pods that wait for one need a token for all queues)"
        )
        raise InvalidInput(_group_field(new), new.group, message, reason="Forbidden")
    return job


def _group_kind(new: PodManifest) -> str:
    """The kind of the job of the pod's PodGroup."""
    return NATIVE_POD_GROUP.kind if new.native else POD_GROUP.kind


def _group_field(new: PodManifest) -> str:
    """The field by which the pod names its PodGroup."""
    return "spec.schedulingGroup" if new.native else f"metadata.annotations.{GROUP_NAME}"


def join_members(step: AdmissionStep) -> None:
    """Add the members of this list to their jobs: one new version of each job."""
    joining: dict[int, list[GangMember]] = {}
    for coming in step.coming.values():
        if coming.jid not in joining:
            take_queue(step, coming.jid, coming.pod.queue)
        joining.setdefault(coming.jid, []).append(coming.member)
    for jid, members in joining.items():
        job = step.draft.job(jid)
        first = job.tasks
        job, tasks = join(job, members)
        step.draft.jobs[jid] = job
        step.hold_best_effort(job, first)
        for name, tix in tasks.items():
            key = f"{job.namespace}/{name}"
            step.draft.pods[key] = pack_task(jid, tix)
            _place(step, step.coming[key].pod, jid, tix)


# --- a name that is taken ---------------------------------------------------------------------


def _again(step: AdmissionStep, key: str, new: PodManifest) -> None:
    """Admit a pod again: the same one is unchanged, a different one of its name is refused. Labels
    and annotations may change, and scheduling gates may be removed."""
    coming = step.coming.get(key)
    if coming is not None:
        if not _same_member(step, coming.pod, new) or _more(step, new) != coming.member.more:
            raise _another(new)
        step.same.add(id(new))
        return
    draft = step.draft
    task = draft.pod(key)
    if draft.deleting(task):
        raise on_its_way_out(new.name)
    jid, tix = unpack_task(task)
    job = draft.job(jid)
    names_group = job.kind == "Pod" and bool(new.group)
    is_bound = names_group and bool(step.node_of(new.namespace, new.name))
    if names_group and not is_bound:
        _name_group(step, job, new)
        return
    if not _same(step, job, tix, new):
        is_late = is_bound and _same(step, job, tix, _as_before(job, new))
        if not _is_itself(step, new):
            raise _late(new) if is_late else _another(new)
        step.same.add(id(new))
        if is_late:
            step.notice(new, GROUP_AFTER_BINDING)
            return
        step.notice(new, CHANGED_IN_PLACE)
        step.changed_pods[key] = draft.requests_of(job.role_of(tix).cid)
        return
    role, more = job.role_of(tix), _more(step, new)
    if job.kind == "Pod" and (deadline := group_deadline(job.annotations)) is not None:
        more = _marked(more, GROUP_DEADLINE, repr(deadline))
    if more.gated and not role.gated:
        message = "a pod that has none gets none; leave it out, or delete the pod"
        raise InvalidInput("spec.schedulingGates", None, message)
    if with_more(role, more) == role:
        step.same.add(id(new))
        return
    job = amend(job, tix, more)
    step.draft.jobs[jid] = _like(step, job, more) if job.kind == "Pod" else job


def _name_group(step: AdmissionStep, job: Job, new: PodManifest) -> None:
    """Note the group that a job of one pod is to join: pod groupers name it after the pod was
    created. No turn is opened for the job from then on. Once none is open, and if none has placed
    it, the pod is moved (:mod:`coordinator.intake.admission.late_groups`)."""
    (role,) = job.roles
    if not (_same(step, job, 0, _as_before(job, new)) or _is_itself(step, new)):
        raise _another(new)
    if not step.planting:
        _job_of_group(step, new)
    more = _more(step, new)
    more = _marked(more, LATE_GROUP, new.group)
    if with_more(role, more) == role:
        step.same.add(id(new))
    else:
        step.draft.jobs[job.jid] = _like(step, amend(job, 0, more), more)


def _as_before(job: Job, new: PodManifest) -> PodManifest:
    """The pod of a job of one without the group that it names now, and what comes with that."""
    return replace(new, group="", role=job.role_of(0).name, queue=job.queue)


def _is_itself(step: AdmissionStep, new: PodManifest) -> bool:
    """Whether a cluster that is watched says so, by its uid. It lets a pod's resources, tolerations
    and images change where it is: refused, it would be taken for gone by the next leader."""
    document = step.draft.document(Key("Pod", new.namespace, new.name))
    if not step.dated or not new.uid or document is None:
        return False
    return bool(document.object()["metadata"].get("uid") == new.uid)


def _late(new: PodManifest) -> InvalidInput:
    message = "the pod is on its node, and joins no group any more; leave it out, or delete the pod"
    return InvalidInput("metadata.annotations", new.group, message)


def _another(new: PodManifest) -> InvalidInput:
    message = "another pod has this name and pods cannot change; delete it or use another name"
    return InvalidInput("metadata.name", new.name, message)


def _same_member(step: AdmissionStep, old: PodManifest, new: PodManifest) -> bool:
    return (old.group, old.role, old.duration, old.exit_code, old.uid) == (
        new.group,
        new.role,
        new.duration,
        new.exit_code,
        new.uid,
    ) and (step.draft.class_of(old.template), _task_priority(step, old)) == (
        step.draft.find_class(new.template),
        _task_priority(step, new),
    )


def _same(step: AdmissionStep, job: Job, tix: int, new: PodManifest) -> bool:
    role = job.role_of(tix)
    if (role.name, role.priority, role.duration, role.exit_code) != (
        _member_role(job, new),
        _task_priority(step, new),
        new.duration,
        new.exit_code,
    ):
        return False
    # Looked up and not created: a pod that is refused must leave no class behind.
    cid = step.draft.find_class(new.template, protected=step.protected(job))
    if role.cid != cid and not _as_written(step, new):
        return False
    if job.kind == COMPOSITE:
        return new.native
    if job.kind != "Pod":
        return (job.kind, job.name) == (_group_kind(new), new.group)
    return (
        not new.group
        and job.queue == (new.queue or DEFAULT)
        and new.uid in ("", job.uid)
        and job.priority == _priority(step, new)
    )


def _as_written(step: AdmissionStep, new: PodManifest) -> bool:
    """Whether the pod's manifest is unchanged. Its task class may still differ, after an upgrade or
    with a priority class that was created later."""
    document = step.draft.document(Key("Pod", new.namespace, new.name))
    before = None if document is None else parse_stored(document.object())
    return isinstance(before, PodManifest) and before.template is new.template


def _task_priority(step: AdmissionStep, new: PodManifest) -> int:
    """The priority of the pod within its job."""
    return member_priority(step, new) if new.native else step.task_priority(new, new)


def _priority(step: AdmissionStep, new: PodManifest) -> int:
    """The priority of a job of one pod."""
    if new.template.priority is not None:
        return new.template.priority
    return step.priority(new, new.template.priority_class)


def _place(step: AdmissionStep, new: PodManifest, jid: int, tix: int) -> None:
    step.jids[id(new)] = jid
    node = new.template.node_name
    if step.observe and (node or new.phase != "Pending" or new.deleting or new.status):
        status = read_status(new) if new.status else NOTHING_TOLD
        placed = PlacedPod(jid, tix, node, new.phase, new.deleting, new.deleted, status)
        step.placed.append(placed)
