"""Shapes under a KAI policy as a service gets them: a cluster, what runs on it before, and the jobs
whose way to their places is measured.

Every node has eight GPUs. ``rich`` has what runs before; what is measured belongs to ``poor``. Each
has half of all GPUs as its quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from laboratory.workloads.fill import queue_of_gpus
from laboratory.workloads.generators import (
    CPU,
    GPU,
    ClusterShape,
    Item,
    job_manifest,
    node_items,
    pod_manifest,
    pod_template,
    role_of,
)
from laboratory.workloads.kai_shapes import GANG, GPUS, gangs_that_fit
from laboratory.workloads.manifests import manifest
from laboratory.workloads.reclaim import POOR, RICH, cluster, rich_jobs
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL
from shared.policy.model import Dialect

PREFIX = "default/wants-"
"""Prefix of the measured jobs' keys."""

RACK_NODES, BLOCK_RACKS = 16, 25
"""Nodes of a rack, racks of a block. The lowest level is the rack; above blocks is the hall."""
TOPOLOGY = "hall"
LEVELS = ("hall", "block", "rack")
WIDE_GANG = 64
"""Pods of one GPU: two such gangs fill a rack."""
IDLE_PODS, IDLE_JOB = 35, 500
"""Pods of a node, and of one job."""
IDLE_CORES = 48
"""Cores of a node: more than its pods request."""


@dataclass(frozen=True, slots=True)
class ServiceShape:
    """One measured shape. Callables take the number of nodes."""

    title: str
    before: Callable[[int], Iterator[Item]]
    """Nodes, queues and what runs before."""
    running: Callable[[int], int]
    """Tasks of these."""
    jobs: Callable[[int], Iterator[Item]]
    """Jobs to measure."""
    placed: Callable[[int], int]
    """How many of its tasks get a place."""
    gpus: int
    """GPUs of each of these tasks."""
    goals: Mapping[int, float]
    """Nodes -> seconds, from the first submission until the last of them has its place."""
    promised: bool = False
    """Whether the promise of a place counts; else only a recorded bind does."""
    grown: bool = False
    """Whether the nodes have one GPU each until the tasks of ``before`` run."""
    displaces: bool = False
    """Whether each of them costs a task of ``before`` its place."""

    def running_after(self, nodes: int) -> int:
        """Tasks that run once all have their places."""
        return self.running(nodes) + (0 if self.displaces else self.placed(nodes))


def _full(nodes: int) -> Iterator[Item]:
    yield from cluster(nodes, Dialect.KAI)
    yield from rich_jobs(nodes)


def _single_jobs(nodes: int) -> Iterator[Item]:
    """As many jobs of one GPU as run."""
    template = pod_template(GPU, duration=None)
    for number in range(nodes * GPUS):
        yield job_manifest(f"wants-{number:06d}", [role_of(1, template)], minimum=1, queue=POOR)


def _fragmented(nodes: int) -> Iterator[Item]:
    """A task on each node, whose GPU is then the only one."""
    yield from node_items(ClusterShape(nodes, 1))
    yield from (item for item in cluster(nodes, Dialect.KAI) if item["kind"] != "Node")
    template = pod_template(GPU, duration=None)
    for number in range(nodes):
        yield job_manifest(f"one-{number:06d}", [role_of(1, template)], minimum=1, queue=RICH)


def _gangs_of_nodes(nodes: int) -> Iterator[Item]:
    template = pod_template(GPU, duration=None, amount=str(GPUS))
    for number in range(gangs_that_fit(nodes)):
        roles = [role_of(GANG, template)]
        yield job_manifest(f"wants-{number:03d}", roles, minimum=GANG, queue=POOR)


def _in_racks(nodes: int) -> Iterator[Item]:
    """An empty cluster whose nodes stand in racks, racks in blocks."""
    number = 0
    for item in cluster(nodes, Dialect.KAI):
        if item["kind"] == "Node":
            rack = number // RACK_NODES
            places = ("hall-0", f"block-{rack // BLOCK_RACKS}", f"rack-{rack}")
            item["metadata"]["labels"] |= dict(zip(LEVELS, places, strict=True))
            number += 1
        yield item
    levels = [{"nodeLabel": level} for level in LEVELS]
    yield manifest("KaiTopology", TOPOLOGY, {"levels": levels})


def wide_gangs(nodes: int) -> int:
    """200 in 10,000 nodes."""
    return max(1, nodes // 50)


def _gangs_of_a_rack(nodes: int) -> Iterator[Item]:
    """PodGroups of KAI's, each of whose pods have to be in one rack."""
    template = pod_template(GPU, duration=None)
    template["metadata"]["labels"] = {QUEUE_LABEL: POOR}
    template["spec"]["schedulerName"] = "kai-scheduler"
    for number in range(wide_gangs(nodes)):
        name = f"wants-{number:03d}"
        constraint = {"topology": TOPOLOGY, "requiredTopologyLevel": "rack"}
        spec = {"minMember": WIDE_GANG, "queue": POOR, "topologyConstraint": constraint}
        yield manifest("KaiPodGroup", name, spec, namespace="default")
        marks = {GROUP_NAME: name}
        for member in range(WIDE_GANG):
            yield pod_manifest(f"{name}-{member}", template, annotations=marks)


SERVICE_SHAPES: Mapping[str, ServiceShape] = {
    "reclaim-many": ServiceShape(
        title="as many jobs wait as run",
        before=_full,
        running=lambda nodes: nodes * GPUS,
        jobs=_single_jobs,
        placed=lambda nodes: nodes * GPUS // 2,
        gpus=1,
        displaces=True,
        goals={500: 30.0},
    ),
    "consolidate": ServiceShape(
        title="gangs of ten whole nodes",
        before=_fragmented,
        running=lambda nodes: nodes,
        jobs=_gangs_of_nodes,
        placed=lambda nodes: gangs_that_fit(nodes) * GANG,
        gpus=GPUS,
        goals={500: 10.0},
        promised=True,
        grown=True,
    ),
    "topology": ServiceShape(
        title="gangs of 64, each in one rack",
        before=_in_racks,
        running=lambda _: 0,
        jobs=_gangs_of_a_rack,
        placed=lambda nodes: wide_gangs(nodes) * WIDE_GANG,
        gpus=1,
        goals={10_000: 5.0},
    ),
}
"""Name of the benchmark -> its shape."""


def idle_cluster(nodes: int) -> Iterator[Item]:
    """Nodes, and one queue that may have all of them."""
    yield from node_items(ClusterShape(nodes, IDLE_CORES, CPU))
    yield queue_of_gpus(RICH)


def idle_jobs(nodes: int) -> Iterator[Item]:
    """Gangs of pods that run until they are deleted: :data:`IDLE_PODS` for each node."""
    template = pod_template(CPU, duration=None)
    left = nodes * IDLE_PODS
    while left:
        width = min(IDLE_JOB, left)
        left -= width
        roles = [role_of(width, template)]
        yield job_manifest(f"runs-{left:06d}", roles, minimum=width, queue=RICH)
