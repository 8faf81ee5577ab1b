"""Thousands of different needs in one queue, and jobs with terms of their own, as manifests."""

from __future__ import annotations

from typing import Any

from laboratory.workloads.generators import GPU

Item = dict[str, Any]


def node(number: int) -> Item:
    name = f"n{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "64", "pods": "200", GPU: "1"}},
    }


def job(name: str, cpu: str, *, gpus: int = 0, tasks: int = 1, apart: bool = False) -> Item:
    """``apart``: no two of its tasks on one node."""
    asked = {"cpu": cpu, GPU: str(gpus)} if gpus else {"cpu": cpu}
    container = {"name": "c", "resources": {"requests": asked}}
    spec: Item = {"containers": [container]}
    if apart:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "minAvailable": tasks,
            "tasks": [{"name": "a", "replicas": tasks, "template": template}],
        },
    }


def need(number: int) -> Item:
    """One of many that ask for a device and for different amounts of something else. There are as
    many devices as nodes; all others wait for one, and the cluster has room for what asks none."""
    return job(f"n{number}", f"{500 + number}m", gpus=1)


def own_term(number: int) -> Item:
    """Two tasks that keep away from each other, by a label that no other job has."""
    return job(f"t{number}", "10m", tasks=2, apart=True)
