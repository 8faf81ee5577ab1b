"""Objects as people write them, for the tests of this directory."""

from __future__ import annotations

from typing import Any

GROUP = "scheduling.k8s.io/group-name"
TASK_SPEC = "volcano.sh/task-spec"


def pod(name: str = "p", /, *, group: str = "", role: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {GROUP: group} if group else {}
    if role:
        annotations[TASK_SPEC] = role
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
        "spec": {"containers": [container()], **spec},
    }


def container(cpu: str = "1", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def node(
    name: str = "n", /, *, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def queue(name: str = "q", /, *, state: str = "Open", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"state": state},
    }


def pod_group(name: str = "g", /, *, uid: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": spec,
    }


def task(name: str = "w", /, *, replicas: int = 2, **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [container()]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def job(name: str = "j", /, *, tasks: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"tasks": [task()] if tasks is None else tasks, **spec},
    }


def priority_class(
    name: str = "high", /, *, value: int | None = 100, **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def hyper_node(name: str = "h", /, *nodes: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": n}}} for n in nodes]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": members},
    }


EVERY_KIND = [
    priority_class(),
    queue("q", weight=2, capability={"cpu": "8"}, guarantee={"resource": {"cpu": "1"}}),
    hyper_node("h", "n"),
    node("n", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
    pod_group("g", minMember=1, minTaskMember={"w": 1}, queue="q", minResources={"cpu": "1"}),
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
