"""The reclaim of the bench: a cluster full of small jobs of one queue, and a gang of a starved one.

Two queues of equal weight. ``rich`` has every GPU, with a job of one task on each; ``poor`` asks
for half of the cluster with one gang of whole nodes, and can have it only from its jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.workloads.fill import queue_of_gpus
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    Item,
    job_manifest,
    node_items,
    pod_template,
    role_of,
)
from laboratory.workloads.manifests import manifest
from shared.policy.model import Dialect

GPUS_PER_NODE = 8
RICH, POOR = "rich", "poor"
GANG = "default/gang"
"""The gang's key."""

POLICY = """\
actions: enqueue, allocate, reclaim
tiers:
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
  - name: conformance
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
"""Volcano's gang plugin gives no job of one task away, so that it has no say here; proportion
decides what each queue deserves."""


def jobs_before(nodes: int) -> int:
    """Jobs of one task that fill the cluster."""
    return nodes * GPUS_PER_NODE


def gang_width(nodes: int) -> int:
    """Tasks of the gang: half of the nodes, which is what its queue deserves."""
    return nodes // 2


def victims_wanted(nodes: int) -> int:
    """Tasks that have to go: one on each GPU of the gang's nodes."""
    return gang_width(nodes) * GPUS_PER_NODE


def cluster(nodes: int, dialect: Dialect = Dialect.VOLCANO) -> Iterator[Item]:
    """The nodes and both queues: of KAI's, each has half of the GPUs as its quota."""
    yield from node_items(ClusterShape(nodes, GPUS_PER_NODE))
    for name in (RICH, POOR):
        if dialect is Dialect.VOLCANO:
            yield manifest("Queue", name, {"weight": 1, "reclaimable": True})
        else:
            gpus = {"quota": victims_wanted(nodes), "overQuotaWeight": 1, "limit": -1}
            yield queue_of_gpus(name, gpu=gpus)


def rich_jobs(nodes: int) -> Iterator[Item]:
    """Jobs of one task with one GPU, as many as there are GPUs."""
    template = pod_template(GPU, duration=None)
    for number in range(jobs_before(nodes)):
        yield job_manifest(f"one-{number:06d}", [role_of(1, template)], minimum=1, queue=RICH)


def gang(nodes: int) -> Item:
    """All of its tasks, a whole node each, or none."""
    width = gang_width(nodes)
    template = pod_template(GPU, duration=None, amount=str(GPUS_PER_NODE))
    return job_manifest("gang", [role_of(width, template)], minimum=width, queue=POOR)
