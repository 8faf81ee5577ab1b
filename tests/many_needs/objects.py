"""Thousands of different needs in one queue, and jobs with terms of their own, as manifests."""

from __future__ import annotations

from tests.builders import objects
from tests.builders.objects import Item, simple_job


def node(number: int) -> Item:
    name = f"n{number}"
    labels = {"kubernetes.io/hostname": name}
    return objects.node(name, cpu=64, pods=200, gpus=1, labels=labels)


def job(name: str, cpu: str, *, gpus: int = 0, tasks: int = 1, apart: bool = False) -> Item:
    """``apart``: no two of its tasks on one node."""
    pod_spec: Item = {}
    if apart:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod_spec["affinity"] = {"podAntiAffinity": rule}
    return simple_job(name, tasks, cpu=cpu, gpus=gpus, labels={"app": name}, pod_spec=pod_spec)


def need(number: int) -> Item:
    """One of many that ask for a device and for different amounts of something else. There are as
    many devices as nodes; all others wait for one, and the cluster has room for what asks none."""
    return job(f"n{number}", f"{500 + number}m", gpus=1)


def own_term(number: int) -> Item:
    """Two tasks that keep away from each other, by a label that no other job has."""
    return job(f"t{number}", "10m", tasks=2, apart=True)
