"""Objects as kubectl writes them, in few words."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def node(name: str, *, cpu: int = 4, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
    }


def pod(
    name: str,
    *,
    group: str = "",
    cpu: float = 1,
    on: str = "",
    phase: str = "",
    scheduler: str = "volcano",
    **status: Any,
) -> Json:
    """``on``: the node it runs on; else it waits."""
    spec: Json = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    if on:
        spec["nodeName"] = on
    marks = {"scheduling.k8s.io/group-name": group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "annotations": marks},
        "spec": spec,
        "status": {"phase": phase or ("Running" if on else "Pending"), **status},
    }


def group(name: str, *, minimum: int = 1, phase: str = "Inqueue", **spec: Any) -> Json:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": minimum, "queue": "default", **spec},
        "status": {"phase": phase},
    }


def gang(name: str, *, pods: int, cpu: float = 1, on: str = "", **spec: Any) -> list[Json]:
    """A PodGroup that needs all its pods, as a user submits it or, with ``on``, as it runs."""
    members = [pod(f"{name}-{i}", group=name, cpu=cpu, on=on) for i in range(pods)]
    return [group(name, minimum=pods, **spec), *members]
