"""The fills of the bench: an empty cluster of GPUs, and a job of one GPU for each of them, or two
jobs of half a GPU.

KAI's own benchmark with whole GPUs (500 nodes of 8, 4,000 jobs) takes it 6 min 38 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    Item,
    node_items,
    pod_items,
)
from laboratory.workloads.manifests import manifest
from shared.manifests.kai.groups import QUEUE_LABEL
from shared.model.gpu_request import FRACTION

GPUS_PER_NODE = 8
QUEUE = "team"
PREFIX = "default/pod-"
"""Prefix of its jobs' keys."""

POLICY = "dialect: kai\n"
"""KAI's built-in configuration."""

FREE = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def jobs_that_fill(nodes: int, *, halves: bool = False) -> int:
    return nodes * GPUS_PER_NODE * (2 if halves else 1)


def cluster(nodes: int) -> Iterator[Item]:
    """The nodes, and a leaf queue below another that may have all of them."""
    yield from node_items(ClusterShape(nodes, GPUS_PER_NODE))
    yield queue_of_gpus("all")
    yield queue_of_gpus(QUEUE, "all")


def queue_of_gpus(name: str, parent: str = "", *, gpu: Item = FREE) -> Item:
    """A queue of KAI's that may have all cores and memory. ``gpu``: what it may have of GPUs."""
    above = {"parentQueue": parent} if parent else {}
    resources = {"cpu": FREE, "memory": FREE, "gpu": gpu}
    return manifest("KaiQueue", name, {"resources": resources, **above})


def jobs(count: int, *, halves: bool = False) -> Iterator[Item]:
    """Pods of KAI's scheduler, each a job of its own with one GPU, or half of one, that run until
    deleted."""
    # A pod that shares a GPU names the part, and no whole GPUs.
    pods = pod_items(count) if halves else pod_items(count, resource=GPU)
    for pod in pods:
        metadata = pod["metadata"] | {"labels": {QUEUE_LABEL: QUEUE}}
        if halves:
            annotations = metadata.get("annotations") or {}
            metadata["annotations"] = annotations | {FRACTION: "0.5"}
        yield {
            **pod,
            "metadata": metadata,
            "spec": pod["spec"] | {"schedulerName": "kai-scheduler"},
        }
