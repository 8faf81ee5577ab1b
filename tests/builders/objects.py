"""Kubernetes objects as dicts, as people write them. Keywords that a builder does not name go into
the object's ``spec``."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.kinds import KINDS

Item = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
TASK_SPEC = "volcano.sh/task-spec"
DURATION = "quadrant.dev/duration"
GPU = "nvidia.com/gpu"
UNLIMITED: Item = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
"""Amounts of a resource that a queue of KAI's without bounds may use."""


def kube_object(
    api_version: str, kind: str, name: str, /, *, namespace: str = "", **fields: Any
) -> Item:
    """``fields``: the object's own, beside its metadata."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | fields


def stored_kind(item: Item) -> str:
    """The kind under which an object is stored."""
    name = item["apiVersion"], item["kind"]
    return next(kind.kind for kind in KINDS if (kind.api_version, kind.written) == name)


def a_list(*items: Any) -> Item:
    """A List, which is how several objects are sent at once."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(
    name: str = "n",
    /,
    *,
    cpu: float | str = 8,
    memory: str = "32Gi",
    pods: int = 110,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Item:
    amounts = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
    if gpus:
        amounts[GPU] = str(gpus)
    item = kube_object("v1", "Node", name, spec=spec, status={"allocatable": amounts})
    item["metadata"]["labels"] = labels or {}
    return item


def container(cpu: float | str = "1", memory: str = "1Gi", *, gpus: int = 0, **more: Any) -> Item:
    """``memory``: "" asks for none."""
    requests = {"cpu": str(cpu), "memory": memory} if memory else {"cpu": str(cpu)}
    if gpus:
        requests[GPU] = str(gpus)
    return {"name": "c", "resources": {"requests": requests}, **more}


def pod(
    name: str = "p", /, *, namespace: str = "ns", group: str = "", role: str = "", **spec: Any
) -> Item:
    """A pod of one core, of the PodGroup ``group`` if one is named."""
    annotations = {GROUP: group} if group else {}
    if role:
        annotations[TASK_SPEC] = role
    spec = {"containers": [container()]} | spec
    item = kube_object("v1", "Pod", name, namespace=namespace, spec=spec)
    item["metadata"]["annotations"] = annotations
    return item


def pod_group(name: str = "g", /, *, namespace: str = "ns", uid: str = "", **spec: Any) -> Item:
    item = kube_object(
        "scheduling.volcano.sh/v1beta1", "PodGroup", name, namespace=namespace, spec=spec
    )
    if uid:
        item["metadata"]["uid"] = uid
    return item


OF_WORKLOAD: Item = {"workloadName": "w", "templateName": "t"}


def native_group(
    name: str = "g", minimum: int | None = None, /, *, namespace: str = "ns", **spec: Any
) -> Item:
    """A PodGroup of Kubernetes' own of which ``minimum`` pods start together; None: basic."""
    policy: Item = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    spec = {"schedulingPolicy": policy} | spec
    item = kube_object(
        "scheduling.k8s.io/v1beta1", "PodGroup", name, namespace=namespace, spec=spec
    )
    item["metadata"]["finalizers"] = ["scheduling.k8s.io/podgroup-protection"]
    return item


def composite_group(
    name: str = "r", minimum: int | None = None, /, *, namespace: str = "ns", **spec: Any
) -> Item:
    """A group of groups, of which ``minimum`` start together; None: basic."""
    policy: Item = {"basic": {}} if minimum is None else {"gang": {"minGroupCount": minimum}}
    spec = {"workloadRef": OF_WORKLOAD, "schedulingPolicy": policy} | spec
    return kube_object(
        "scheduling.k8s.io/v1alpha3", "CompositePodGroup", name, namespace=namespace, spec=spec
    )


def leaf_group(name: str, parent: str, minimum: int | None = None, /, **spec: Any) -> Item:
    """A PodGroup below a CompositePodGroup."""
    above: Item = {"parentCompositePodGroupName": parent, "workloadRef": OF_WORKLOAD}
    return native_group(name, minimum, **(above | spec))


def workload(name: str = "w", /, *templates: Item, namespace: str = "ns", **spec: Any) -> Item:
    """A Workload with these templates of groups; one of a gang of 2 where none is given."""
    gang: Item = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    spec = {"podGroupTemplates": list(templates) or [gang]} | spec
    return kube_object(
        "scheduling.k8s.io/v1beta1", "Workload", name, namespace=namespace, spec=spec
    )


def queue(name: str = "q", /, *, state: str = "Open", **spec: Any) -> Item:
    return kube_object(
        "scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec, status={"state": state}
    )


def task(name: str = "w", /, *, replicas: int = 2, **more: Any) -> Item:
    """A role of a Job: so many pods of one core."""
    template = {"spec": {"containers": [container()]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(
    name: str = "j", /, *, namespace: str = "ns", tasks: list[Any] | None = None, **spec: Any
) -> Item:
    spec = {"tasks": [task()] if tasks is None else tasks} | spec
    return kube_object("batch.volcano.sh/v1alpha1", "Job", name, namespace=namespace, spec=spec)


def simple_job(
    name: str,
    replicas: int,
    /,
    *,
    namespace: str = "ns",
    role: str = "w",
    cpu: float | str = 1,
    gpus: int = 0,
    seconds: float | None = None,
    minimum: int | None = None,
    labels: dict[str, str] | None = None,
    pod_spec: Item | None = None,
    **spec: Any,
) -> Item:
    """A Job of one role whose pods start together, or from ``minimum`` on. They run for so many
    ``seconds``, or until they are deleted; ``labels`` are those of the pods."""
    metadata: Item = {"labels": labels or {}}
    if seconds is not None:
        metadata["annotations"] = {DURATION: str(seconds)}
    requested = container(cpu, "", gpus=gpus, image="i")
    template = {"metadata": metadata, "spec": {"containers": [requested]} | (pod_spec or {})}
    tasks = [{"name": role, "replicas": replicas, "template": template}]
    start = replicas if minimum is None else minimum
    return job(name, namespace=namespace, tasks=tasks, minAvailable=start, **spec)


def priority_class(name: str = "high", /, value: int | None = 100, **more: Any) -> Item:
    return kube_object("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **more)


def hyper_node(name: str = "h", /, *members: str, tier: int = 1, kind: str = "Node") -> Item:
    """``members``: names of nodes, or of hyper nodes where ``kind`` says so."""
    selected = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    spec = {"tier": tier, "members": selected}
    return kube_object("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec)


def budget(name: str, minimum: int | str, /, **labels: str) -> Item:
    """A PodDisruptionBudget of the pods with these labels."""
    spec = {"minAvailable": minimum, "selector": {"matchLabels": labels}}
    return kube_object("policy/v1", "PodDisruptionBudget", name, namespace="ns", spec=spec)


def kai_queue(name: str, parent: str = "", /, **resources: Any) -> Item:
    """A queue of KAI's, without bounds for resources that are not named."""
    amounts = {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": UNLIMITED} | resources
    above = {"parentQueue": parent} if parent else {}
    return kube_object("scheduling.run.ai/v2", "Queue", name, spec={"resources": amounts} | above)


def kai_group(name: str, queue: str = "team", /, **spec: Any) -> Item:
    """A PodGroup of KAI's."""
    spec = {"queue": queue} | spec
    return kube_object("scheduling.run.ai/v2alpha2", "PodGroup", name, namespace="ns", spec=spec)


EVERY_KIND = [
    priority_class(),
    queue("q", weight=2, capability={"cpu": "8"}, guarantee={"resource": {"cpu": "1"}}),
    hyper_node("h", "n"),
    node("n", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
    pod_group("g", minMember=1, minTaskMember={"w": 1}, queue="q", minResources={"cpu": "1"}),
    native_group(
        "native",
        2,
        disruptionMode={"single": {}},
        priority=0,
        preemptionPolicy="PreemptLowerPriority",
    ),
    job("j", tasks=[task("a"), task("b", minAvailable=1)], minAvailable=3, queue="q"),
    pod(
        "p",
        group="g",
        role="w",
        nodeSelector={"zone": "a"},
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        initContainers=[container("2"), container("1", restartPolicy="Always")],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
    ),
]
