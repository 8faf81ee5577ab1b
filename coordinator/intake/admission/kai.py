"""Admission of KAI's objects: queues, PodGroups and topologies.

They are stored whichever policy is in force. Under one of KAI's, a queue is a queue of the engine,
with its limits as capability at every level, and a PodGroup a job, with its pod sets as roles that
have a minimum. Under a policy of Volcano's nothing looks at them, and who submits one is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.intake.admission.gangs import admit_job, admit_pod_group
from coordinator.intake.admission.pods import admit_pod
from coordinator.intake.admission.queues import DEFAULT, HOLDS_JOBS, holder, put_new
from coordinator.intake.admission.step import AdmissionStep
from coordinator.intake.documents.kinds import not_looked_at
from shard_worker.dialects.kai.service.gangs import gang_of, tree_mark
from shared.codec.packed import replace
from shared.errors import InvalidInput, Mistake, shown
from shared.manifests.fields.reader import loose_name
from shared.manifests.kai.gpu_shares import gpu_share_of, with_gpu_share
from shared.manifests.kai.groups import QUEUE_LABEL, UNSCHEDULABLE, pod_group_of, pod_set_of
from shared.manifests.kai.queues import finer_amounts
from shared.manifests.kai.topologies import topology_problems
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import Manifest
from shared.manifests.volcano.objects import JobManifest, PodGroupManifest, RoleManifest
from shared.model.kai import UNLIMITED, KaiPodGroup, KaiQueue, KaiShare, KaiTopology
from shared.model.model import Job, Queue, WorldObject
from shared.policy.model import Dialect
from shared.records.specs import OBJECT_KEYS
from shared.units.amount_text import some
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE


def admit_kai_queue(step: AdmissionStep, new: KaiQueue) -> None:
    """Admit a queue. Its parent may come later; it must not be above itself."""
    queues = KaiQueues(step)
    old = queues.get(new.name)
    new_record = replace(new, created=step.created(new.created) if old is None else old.created)
    for above in queues.above(new):
        if above == new.name:
            message = "is below this queue, which would be above itself; choose another parent"
            raise InvalidInput("spec.parentQueue", new.parent, message)
    if step.dialect is Dialect.KAI:
        if (old is None or old.parent != new.parent) and (job := holder(step, new.parent)):
            raise InvalidInput("spec.parentQueue", new.parent, HOLDS_JOBS.format(job))
        _put_queue(step, queues, new_record)
        if step.draft.queues.get(new.name) is None:
            text = f"spec.parentQueue: queue {new.parent} does not exist, or waits for its own"
            step.notice(new, f"{text} parent, so this one does not count; create it")
    _store(step, new, new_record)
    for message in (*_over_quota(queues, new_record), *_rounded(step, new)):
        step.notice(new, message)


def _rounded(step: AdmissionStep, new: KaiQueue) -> Iterator[str]:
    """Amounts that were finer than what the scheduler counts."""
    for field in finer_amounts(step.sent.get(id(new), {})):
        yield f"{field}: finer than a thousandth, or a byte; it is rounded down"


def admit_kai_pod_group(step: AdmissionStep, new: KaiPodGroup) -> None:
    topologies = step.draft.objects
    found = topology_problems(new, lambda name: topologies.get(OBJECT_KEYS[KaiTopology] + name))
    problems = list(found)
    old = step.draft.objects.get(f"{OBJECT_KEYS[KaiPodGroup]}{new.key}")
    failed = old.failed_pool if isinstance(old, KaiPodGroup) else None
    record = replace(new, failed_pool=failed) if new.failed_pool is None else new
    if wrong := [problem for problem in problems if not problem.waits]:
        first, *others = wrong
        more = tuple(Mistake(p.field, shown(p.value), p.message) for p in others)
        raise InvalidInput(first.field, first.value, first.message, more=more)
    for problem in problems:
        step.notice(new, f"{problem.field}: {problem.message}")
    if step.dialect is Dialect.KAI:
        check_leaf(step, new.queue, "spec.queue")
        if step.draft.queues.get(new.queue) is None:
            step.notice(new, f"spec.queue: {_NO_QUEUE.format(new.queue)}")
        _admit_gang(step, new, record)
    else:
        _store(step, new, record)


def _admit_gang(step: AdmissionStep, new: KaiPodGroup, record: KaiPodGroup) -> None:
    """The job of a PodGroup. Its queues count its pods otherwise where they may not be evicted."""
    draft = step.draft
    jid = draft.groups.get(new.key)
    before = None if jid is None else draft.jobs.get(jid)
    was = before is not None and step.protected(before)
    admit_pod_group(step, _as_gang(record))
    _store(step, new, record)
    jid = draft.groups.get(new.key)
    job = None if jid is None else draft.jobs.get(jid)
    if job is not None and job.roles and step.protected(job) != was:
        draft.jobs[job.jid] = _recharged(step, job)


_NO_QUEUE = "queue {} does not exist, so it waits; create it, or name another"


def admit_pod_to_leaf(step: AdmissionStep, new: PodManifest) -> None:
    """Admit a pod, which without PodGroup names its queue itself."""
    if not new.group:
        check_leaf(step, new.queue or DEFAULT, f"metadata.labels.{QUEUE_LABEL}")
    admit_pod(step, new)


def admit_job_to_leaf(step: AdmissionStep, new: JobManifest) -> None:
    check_leaf(step, new.queue, "spec.queue")
    admit_job(step, replace(new, roles=tuple(map(_sharing, new.roles))))


def _sharing(role: RoleManifest) -> RoleManifest:
    """The role with what its pods ask of shared GPUs."""
    at = f"spec.tasks.{role.name}.template.metadata"
    share = gpu_share_of(role.annotations, role.template, at)
    return replace(role, template=with_gpu_share(role.template, share)) if share else role


def check_leaf(step: AdmissionStep, queue: str, field: str) -> None:
    """Refuse a queue that has others below it. An observed cluster is taken as it is."""
    if step.inner is None:
        queues, step.inner = KaiQueues(step), {}
        for child in step.draft.queues.values():
            record = queues.get(child.name)
            if record is not None and record.parent:
                step.inner.setdefault(record.parent, []).append(child.name)
    if (below := step.inner.get(queue)) and not step.observe:
        named = some(sorted(below))
        message = f"has queues below it, and only a queue without any holds jobs; name {named}"
        raise InvalidInput(field, queue, message)


def _recharged(step: AdmissionStep, job: Job) -> Job:
    """The job whose pods may not be evicted any more, or may now: their queues count them
    otherwise. What the ledger has of those that run stays until they are placed anew."""
    cids = {role.cid for role in job.roles}
    new = step.draft.recharged(cids, protected=step.protected(job))
    roles = tuple(replace(role, cid=new[role.cid]) for role in job.roles)
    return replace(job, roles=roles, spec=job.spec + 1)


def admit_kai_topology(step: AdmissionStep, new: KaiTopology) -> None:
    _store(step, new, new)
    if step.dialect is Dialect.KAI:
        groups = (v for v in step.draft.objects.values() if isinstance(v, KaiPodGroup))
        for problem in (p for group in groups for p in topology_problems(group, topology=new)):
            step.notice(
                new,
                f"PodGroup {problem.group} names level {problem.value}, which is not "
                "among its levels, so it waits; add the level, or change the PodGroup",
            )


def keep_unread(step: AdmissionStep, manifest: Manifest) -> None:
    """Keep an object of the other dialect, and say that nothing looks at it."""
    step.notice(manifest, not_looked_at(step.dialect))
    step.same.add(id(manifest))


def as_kai_pod(pod: PodManifest, item: object) -> PodManifest:
    """The pod with the group, pod set or queue that KAI reads of it. Raises InvalidInput."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    annotations = (metadata or {}).get("annotations") or {}
    labels: dict[str, object] = dict(pod.labels)
    group = pod.group if pod.native else pod_group_of(annotations)
    queue = "" if group and not pod.native else labels.get(QUEUE_LABEL, "")
    template = with_gpu_share(pod.template, gpu_share_of(pod.annotations, pod.template))
    return replace(
        pod,
        template=template,
        group=group,
        role=pod_set_of(labels) if group else "",
        queue=loose_name(queue, f"metadata.labels.{QUEUE_LABEL}") if queue else "",
    )


class KaiQueues:
    """The queues of KAI's kind, those of the list included, by name."""

    def __init__(self, step: AdmissionStep) -> None:
        self._objects = step.draft.objects

    def get(self, name: str) -> KaiQueue | None:
        value = self._objects.get(OBJECT_KEYS[KaiQueue] + name)
        return value if isinstance(value, KaiQueue) else None

    def above(self, queue: KaiQueue) -> Iterator[str]:
        """The names above a queue, nearest first, as far as they exist; ends where they repeat."""
        visited: set[str] = set()
        name = queue.parent
        while name and name not in visited:
            yield name
            visited.add(name)
            parent = self.get(name)
            name = "" if parent is None else parent.parent

    def children(self, name: str) -> list[KaiQueue]:
        queues = (value for value in self._objects.values() if isinstance(value, KaiQueue))
        return [queue for queue in queues if queue.parent == name]


def _put_queue(step: AdmissionStep, queues: KaiQueues, record: KaiQueue) -> None:
    """The engine's queue of a record, and those of its children that waited for it. A queue whose
    parent is missing is none yet: its jobs wait for it."""
    draft = step.draft
    above = draft.queues.get(record.parent) if record.parent else None
    if record.parent and above is None:
        return
    old = draft.queues.get(record.name)
    queue = Queue(
        qid=draft.next_qid if old is None else old.qid,
        name=record.name,
        parent=-1 if above is None or draft.flat else above.qid,
        priority=record.priority,
        capability=draft.requests(_bounds(record), "spec.resources", offers=True),
        deserved=draft.requests(_amounts(record, "quota"), "spec.resources", offers=True),
        deserved_set=True,
        created=record.created,
        spec=0 if old is None else old.spec,
    )
    if old is None:
        put_new(step, queue)
    elif queue != old:
        draft.queues[record.name] = replace(queue, spec=old.spec + 1)
    for child in queues.children(record.name):
        if draft.queues.get(child.name) is None:
            _put_queue(step, queues, child)


_NAMES = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
"""Resource of a KAI queue -> its name among the nodes' resources."""


def _amounts(record: KaiQueue, part: str) -> tuple[tuple[str, int], ...]:
    """The limits or quotas of a queue, without those that are unlimited."""
    written = ((name, getattr(getattr(record, field), part)) for field, name in _NAMES.items())
    return tuple(sorted((name, amount) for name, amount in written if amount != UNLIMITED))


def _bounds(record: KaiQueue) -> tuple[tuple[str, int], ...]:
    """Bounds of a queue for the ledger: limits for everything it holds, quotas for what may not be
    evicted. GPUs are those of any kind."""
    shares = (record.cpu, record.memory, record.gpu)
    limits = zip(("cpu", "memory", GPU_SHARE), (share.limit for share in shares), strict=True)
    quotas = zip(NON_PREEMPTIBLE, (share.quota for share in shares), strict=True)
    return tuple((name, most) for name, most in (*limits, *quotas) if most != UNLIMITED)


def _as_gang(group: KaiPodGroup) -> PodGroupManifest:
    """The gang that the engine keeps whole: pod sets are roles with a minimum of their own."""
    gang = gang_of(group)
    failed = ((UNSCHEDULABLE, group.failed_pool),) if group.failed_pool else ()
    return PodGroupManifest(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        created=group.created,
        minimum=gang.members[""],
        role_minima=gang.always,
        role_parents=gang.parents,
        queue=group.queue,
        priority_class=group.priority_class,
        min_resources=None,
        labels=group.labels,
        # So that the job is another where it failed, and is judged anew.
        annotations=tuple(sorted((*failed, *tree_mark(group)))),
    )


def child_of(objects: Mapping[str, WorldObject], name: str) -> str:
    """The name of a queue below this one; "" where there is none."""
    queues = (value for value in objects.values() if isinstance(value, KaiQueue))
    return min((queue.name for queue in queues if queue.parent == name), default="")


def _store(step: AdmissionStep, manifest: WorldObject, value: WorldObject) -> None:
    """Store the record, under the manifest that the rest of admission knows it by."""
    if step.dialect is not Dialect.KAI:
        step.notice(manifest, not_looked_at(step.dialect))
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    key = OBJECT_KEYS[type(value)] + name
    if step.draft.objects.get(key) == value:
        step.same.add(id(manifest))
    else:
        step.draft.objects[key] = value


def _over_quota(queues: KaiQueues, queue: KaiQueue) -> Iterator[str]:
    """Where the quotas of siblings are more than their parent's: as in KAI a warning alone."""
    parent = queues.get(queue.parent)
    if parent is None:
        return
    siblings = queues.children(parent.name)
    for resource in ("cpu", "memory", "gpu"):
        shares: list[KaiShare] = [getattr(sibling, resource) for sibling in siblings]
        whole: KaiShare = getattr(parent, resource)
        quotas = [share.quota for share in shares if share.quota != UNLIMITED]
        if whole.quota != UNLIMITED and sum(quotas) > whole.quota:
            yield (
                f"spec.resources.{resource}.quota: the queues below {parent.name} have more quota "
                "together than it has itself; not all of them can have theirs at once"
            )
