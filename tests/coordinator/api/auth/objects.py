"""Small objects of every kind that matters at the gate."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def queue(name: str) -> Json:
    return _object("scheduling.volcano.sh/v1beta1", "Queue", name, {"weight": 1})


def group(name: str, queue: str | None = None) -> Json:
    spec: Json = {"minMember": 1} if queue is None else {"minMember": 1, "queue": queue}
    return _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec)


def job(name: str, queue: str) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    tasks = [{"name": "t", "replicas": 1, "template": template}]
    spec = {"queue": queue, "minAvailable": 1, "tasks": tasks}
    return _object("batch.volcano.sh/v1alpha1", "Job", name, spec)


def pod(name: str, *, queue: str = "", group: str = "") -> Json:
    obj = _object("v1", "Pod", name, {"containers": [{"name": "c", "image": "i"}]})
    annotations = {}
    if queue:
        annotations["scheduling.volcano.sh/queue-name"] = queue
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    obj["metadata"]["annotations"] = annotations
    return obj


def node(name: str) -> Json:
    obj = _object("v1", "Node", name, {})
    obj["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return obj


def _object(version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def a_list(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
