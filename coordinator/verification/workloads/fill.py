"""The fill of the bench: an empty cluster of GPUs, and a job of one GPU for each of them.

KAI's own benchmark of this shape (500 nodes of 8 GPUs, 4,000 jobs) takes it 6 min 38 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.verification.workloads.generators import (
    GPU,
    ClusterShape,
    Item,
    node_items,
    pod_items,
)
from coordinator.verification.workloads.manifests import manifest
from shared.manifests.kai.groups import QUEUE_LABEL

GPUS_PER_NODE = 8
QUEUE = "team"
PREFIX = "default/pod-"
"""What the keys of its jobs begin with."""

POLICY = "dialect: kai\n"
"""KAI's built-in configuration."""

FREE = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def jobs_that_fill(nodes: int) -> int:
    return nodes * GPUS_PER_NODE


def cluster(nodes: int) -> Iterator[Item]:
    """The nodes, and a leaf queue below another that may have all of them."""
    yield from node_items(ClusterShape(nodes, GPUS_PER_NODE))
    shares = {"resources": {"cpu": FREE, "memory": FREE, "gpu": FREE}}
    for name, above in (("all", {}), (QUEUE, {"parentQueue": "all"})):
        yield manifest("KaiQueue", name, {**shares, **above}) | {"kind": "Queue"}


def jobs(count: int) -> Iterator[Item]:
    """Pods of KAI's scheduler, each a job of its own with one GPU, that run until deleted."""
    for pod in pod_items(count, resource=GPU):
        yield {
            **pod,
            "metadata": pod["metadata"] | {"labels": {QUEUE_LABEL: QUEUE}},
            "spec": pod["spec"] | {"schedulerName": "kai-scheduler"},
        }
