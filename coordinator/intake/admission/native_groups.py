"""Admission of Kubernetes' own PodGroups: jobs of a kind of their own, under policies of every
dialect; those below a CompositePodGroup are one job.

::

    CompositePodGroup root --> job root, with a sub group for each group below it
      CompositePodGroup a
        PodGroup b --> its pods are members of job root, of role b
      PodGroup c --> role c

The groups come one by one and in any order. A PodGroup whose parents are not all there has a job of
its own, in which its pods wait; once they are, its pods move to the tree's job
(:mod:`coordinator.intake.admission.late_groups`). Below a tree's job are KAI's sub groups, with
their minima and topology levels, so that whatever places those places trees.

The API has no queue: a group names one as its policy's dialect does for what has no PodGroup of its
own (``docs/native-groups.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from coordinator.intake.admission.gangs import admit_pod_group
from coordinator.intake.admission.queues import DEFAULT
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.step import AdmissionStep, kind_of
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.group_queue import names_queue
from coordinator.intake.documents.group_trees import (
    MOST_GROUPS,
    GroupTrees,
    in_tree,
    invalid_tree,
    put_tree_node,
    sub_groups,
    too_large,
    tree_key,
)
from coordinator.intake.documents.kinds import BY_KIND, NATIVE_POD_GROUP
from shard_worker.dialects.kai.service.gangs import gang_of, tree_mark
from shard_worker.session_model.native_groups import JOINS_TREE, WAITS
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.fields.metadata import QUEUE_NAME
from shared.manifests.kubernetes.groups import (
    PARENT,
    SINGLE,
    CompositePodGroupManifest,
    NativeManifest,
    NativePodGroupManifest,
)
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import parse_stored
from shared.manifests.volcano.objects import PodGroupManifest
from shared.model.groups import COMPOSITE, NATIVE, NATIVE_KINDS, group_key
from shared.model.kai import KaiPodGroup
from shared.model.model import Job, PriorityClass
from shared.policy.model import Dialect
from shared.records.specs import OBJECT_KEYS
from shared.slices import Steps, at_once

ONLY_KAI = (
    "CompositePodGroups are placed under KAI's policies alone, whose jobs have sub groups of sub "
    "groups; start with one (dialect: kai), or use PodGroups without parent"
)
PROTECTED = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of each group: it stays until its pods have ended."""
_IMMUTABLE = "field is immutable; delete the {} and create it with the new value"


def admit_native_group(step: AdmissionStep, new: NativeManifest) -> None:
    if not step.dated:  # a watched cluster has done so
        _check_change(step, new)
        _check_priority(step, new)
    if in_tree(new):
        if step.draft.tree_nodes.get(tree_key(new)) == new:
            step.same.add(id(new))
        put_tree_node(step.draft.tree_nodes, step.draft.tree_children, new)
        step.tree_nodes.append(new)
        return
    jid = step.draft.groups.get(group_key(NATIVE_POD_GROUP.kind, f"{new.namespace}/{new.name}"))
    old = None if jid is None else step.draft.jobs.get(jid)
    gang = as_gang(new, own_queue(new, step.dialect), old)
    admit_pod_group(step, gang, kind=NATIVE_POD_GROUP.kind)
    if id(gang) in step.same:
        step.same.add(id(new))


def own_queue(group: NativeManifest, dialect: Dialect) -> str:
    return group.kai_queue if dialect is Dialect.KAI else group.queue


def as_gang(
    group: NativeManifest, queue: str, old: Job | None, *, refused: str = "", whole: bool = False
) -> PodGroupManifest:
    """The gang that the engine keeps whole. Without a queue of its own a group keeps the one that
    its pods gave it."""
    named = ((QUEUE_NAME, queue),) if queue else ()
    return PodGroupManifest(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        created=group.created,
        minimum=group.minimum,
        role_minima=(),
        queue=queue or (DEFAULT if old is None else old.queue),
        priority_class=group.priority_class,
        min_resources=None,
        labels=group.labels,
        annotations=tuple(sorted((*group.annotations, *named))),
        priority=group.priority,
        preempts=group.preempts,
        leaves_whole=group.leaves_whole or whole,
        topology_key=group.topology_key,
        refused=refused,
    )


def take_queue(step: AdmissionStep, jid: int, queue: str) -> None:
    """The first pod of a native group without a queue of its own decides where the group goes."""
    job = step.draft.job(jid)
    if job.kind in NATIVE_KINDS and not names_queue(job):
        step.draft.jobs[jid] = replace(job, queue=queue or DEFAULT)


def member_priority(step: AdmissionStep, new: PodManifest) -> int:
    """The priority of a pod of a native group, which must be the group's."""
    if new.template.priority is not None:
        return new.template.priority
    name = new.template.priority_class
    computed = _computed(name, step.draft.priority_classes.values())
    return step.priority(new, name) if computed is None else computed


# --- trees ----------------------------------------------------------------------------------------


def settle_trees(step: AdmissionStep) -> None:
    """As :func:`settling_trees`, in one step."""
    at_once(settling_trees(step))


def settling_trees(step: AdmissionStep) -> Steps[None]:
    """Bring the jobs of the trees of which a group came or changed up to date."""
    trees = GroupTrees(step.draft.tree_nodes, step.draft.tree_children)
    rootless, groups_of = set[str](), dict[str, set[str]]()
    for node in step.tree_nodes:
        yield
        root, _ = trees.root(node)
        try:
            if root is None:
                _settle_rootless(step, trees, node, rootless)
                continue
            key = tree_key(root)
            if key not in groups_of:
                groups_of[key] = _settle_tree(step, trees, root)
            beyond = tree_key(node) not in groups_of[key]
            if beyond and not isinstance(node, CompositePodGroupManifest):
                _wait_alone(step, node, too_large(root))
        except InvalidInput as error:
            step.refuse(node, error)


def _settle_rootless(
    step: AdmissionStep, trees: GroupTrees, node: NativeManifest, settled: set[str]
) -> None:
    """PodGroups without root have jobs of their own, which wait."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if tree_key(at) not in settled:
            settled.add(tree_key(at))
            waiting += trees.below(at)
            if not isinstance(at, CompositePodGroupManifest):
                _wait_alone(step, at, trees.root(at)[1])


def _wait_alone(step: AdmissionStep, leaf: NativeManifest, why: str) -> None:
    key = tree_key(leaf)
    job = _job_at(step, key)
    if job is None or job.kind == NATIVE:
        queue = own_queue(leaf, step.dialect)
        admit_pod_group(step, as_gang(leaf, queue, job, refused=why), kind=NATIVE)
        jid = step.draft.groups.get(key)
        assert jid is not None
        step.joined[Key(NATIVE, leaf.namespace, leaf.name)] = jid


def _settle_tree(step: AdmissionStep, trees: GroupTrees, root: NativeManifest) -> set[str]:
    """Bring the job of a tree up to date, and let the groups without a job of their own join it.
    Returns the keys of the groups that are in it."""
    old = _job_at(step, tree_key(root))
    nodes = list(islice(trees.walk(root), MOST_GROUPS + 1))
    refused = _refusal(step, trees, nodes)
    del nodes[MOST_GROUPS:]
    queues = (own_queue(node, step.dialect) for _, node in nodes)
    queue = next(filter(None, queues), "")
    counts_in = queue or (DEFAULT if old is None else old.queue)
    group = sub_groups(root, counts_in, [node for _, node in nodes])
    gang, whole = gang_of(group), any(node.leaves_whole for _, node in nodes)
    manifest = as_gang(root, queue, old, refused=refused, whole=whole)
    tree = replace(
        manifest,
        minimum=gang.members[""],
        role_minima=gang.always,
        role_parents=gang.parents,
        topology_key="",
        annotations=tuple(sorted((*manifest.annotations, *tree_mark(group)))),
    )
    admit_pod_group(step, tree, kind=COMPOSITE)
    jid = step.draft.groups.get(tree_key(root))
    assert jid is not None
    if step.dialect is Dialect.KAI:
        step.draft.objects[OBJECT_KEYS[KaiPodGroup] + step.draft.job(jid).kai_group] = group
    for _, node in nodes:
        own = _job_at(step, tree_key(node))
        if own is not None and own.kind == NATIVE:
            _wait_alone(step, node, JOINS_TREE)
        else:
            step.draft.groups[tree_key(node)] = jid
            step.joined[Key(kind_of(node), node.namespace, node.name)] = jid
    return {tree_key(node) for _, node in nodes}


def _job_at(step: AdmissionStep, key: str) -> Job | None:
    jid = step.draft.groups.get(key)
    return None if jid is None else step.draft.jobs.get(jid)


def _refusal(
    step: AdmissionStep, trees: GroupTrees, nodes: Sequence[tuple[int, NativeManifest]]
) -> str:
    """Why nothing of a tree may be placed; "" where it may. ``nodes``: level and group, the root
    first."""
    root = nodes[0][1]

    def importance(node: NativeManifest) -> tuple[int, bool]:
        name, preempts = node.priority_class, node.preempts
        priority = step.priority(node, name) if node.priority is None else node.priority
        return priority, step.preempts(name) if preempts is None else preempts

    if len(nodes) > MOST_GROUPS:
        return too_large(root)
    if invalid := invalid_tree(nodes, importance):
        return invalid
    if step.dialect is not Dialect.KAI:
        return ONLY_KAI
    if not trees.can_reach(root):
        return f'{WAITS}composite pod group "{root.name}" tree to meet quorum'
    return ""


# --- as the API server does it ------------------------------------------------------------------


def with_group_defaults(new: NativeManifest, item: object, registry: Registry) -> dict[str, Any]:
    """The group as sent, with the fields that the API server fills in, and without a status, which
    is nobody's to send."""
    assert isinstance(item, dict)
    spec = dict(item["spec"])
    classes = registry.priority_classes
    named = classes.get(new.priority_class)
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {SINGLE: {}}
    priority = _computed(new.priority_class, classes.values())
    if spec.get("priority") is None and priority is not None:
        spec["priority"] = priority
    if not spec.get("preemptionPolicy"):
        preempts = named is None or named.preempts
        spec["preemptionPolicy"] = "PreemptLowerPriority" if preempts else "Never"
    metadata = dict(item["metadata"])
    finalizers = metadata.get("finalizers") or []
    if PROTECTED not in finalizers and not isinstance(new, CompositePodGroupManifest):
        metadata["finalizers"] = [*finalizers, PROTECTED]
    return {k: v for k, v in item.items() if k != "status"} | {"spec": spec, "metadata": metadata}


def _computed(name: str, classes: Iterable[PriorityClass]) -> int | None:
    """The priority by the class of this name, or the global default where none is named; None where
    the class does not exist yet."""
    if name:
        return next((c.value for c in classes if c.name == name), None)
    return next((c.value for c in classes if c.default), 0)


def _check_priority(step: AdmissionStep, new: NativeManifest) -> None:
    """A number that its class does not give is refused."""
    computed = _computed(new.priority_class, step.draft.priority_classes.values())
    if new.priority is not None and computed is not None and new.priority != computed:
        message = (
            f"priority set in the {_written(new)} ({new.priority}) must match the priority "
            f"computed ({computed}) based on the priority class set in the spec; leave it out"
        )
        raise InvalidInput("spec.priority", new.priority, message, reason="Forbidden")


def _written(new: NativeManifest) -> str:
    return "composite pod group" if isinstance(new, CompositePodGroupManifest) else "pod group"


def _check_change(step: AdmissionStep, new: NativeManifest) -> None:
    """Only ``minCount``, labels and annotations may change."""
    document = step.draft.document(Key(kind_of(new), new.namespace, new.name))
    old = None if document is None else parse_stored(document.object())
    if not isinstance(old, NativePodGroupManifest):
        return
    is_composite = isinstance(new, CompositePodGroupManifest)
    if (old.min_count is None) is not (new.min_count is None) or (
        is_composite and old.min_count != new.min_count
    ):
        raise InvalidInput("spec.schedulingPolicy", None, _IMMUTABLE.format(_kind(new)))
    for field, before, now in (
        ("priorityClassName", old.priority_class, new.priority_class),
        ("priority", old.priority, new.priority),
        ("preemptionPolicy", old.preempts, new.preempts),
        ("disruptionMode", old.leaves_whole, new.leaves_whole),
        ("schedulingConstraints", old.topology_key, new.topology_key),
        (PARENT, old.parent, new.parent),
        ("workloadRef", old.workload, new.workload),
    ):
        if before != now:
            raise InvalidInput(f"spec.{field}", now, _IMMUTABLE.format(_kind(new)))


def _kind(new: NativeManifest) -> str:
    return BY_KIND[kind_of(new)].written
