"""Workloads of the demo and the bench: seeded jobs and nodes as API objects.

Pure functions: the same arguments give the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from laboratory.workloads.manifests import manifest
from laboratory.workloads.trace import Trace

Item = dict[str, Any]
"""An API object as in a JSON List."""

LIST_LIMIT = 500
"""Objects per List: a body of some 200 kB, judged in a few milliseconds."""

GPU = "nvidia.com/gpu"
CPU = "cpu"
DURATION = "quadrant.dev/duration"

PHILLY_WIDTHS = {
    1: 76_627,
    2: 1_818,
    4: 1_870,
    8: 1_643,
    12: 7,
    16: 199,
    24: 7,
    32: 67,
    64: 6,
    128: 3,
}
"""GPUs per job -> jobs, counted in the 82,247 jobs of Microsoft's Philly trace of 2017 as the
ElasticFlow project publishes it (msr-fiddle/philly-traces through pkusys/ElasticFlow, CC-BY-4.0).
In shares: 93.2% of the jobs have 1 GPU, 2.2% 2, 2.3% 4, 2.0% 8 and 0.35% more; 1.4 on average."""

GANG_WIDTHS = (64, 256)
"""The smallest and largest of the gangs that make up one fifth of the seeded jobs."""

MEAN_DURATION = 5_500.0
"""Seconds; at the default speedup of 1000 a task runs 5.5 s on average.

2,000 jobs are about 66,000 tasks, so 8,000 GPUs are busy for 66,000 x 5.5 / 8,000 = 45 s."""

LONGEST = 1.75
"""Maximum duration as a multiple of the mean, so that the last job ends soon."""

QUEUES = ("research", "vision", "speech", "ranking", "platform")


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The cluster of a run: equal nodes, each with ``units`` of one resource."""

    nodes: int
    units: int
    resource: str = GPU

    @property
    def capacity(self) -> int:
        return self.nodes * self.units


def seeded_workload(*, jobs: int, seed: int, capacity: int) -> Trace:
    """Four fifths Philly's widths, one fifth gangs of 64 to 256 tasks, in a seeded order.

    No job is wider than ``capacity``. Durations are log-normal around :data:`MEAN_DURATION`, two
    thirds of them between 0.6 and 1.4 of it, cut at :data:`LONGEST`. Submissions come at random
    so that nine tenths of the capacity is asked for.
    """
    rng = np.random.default_rng(seed)
    gangs = jobs // 5
    widths = np.array(list(PHILLY_WIDTHS))
    shares = np.array(list(PHILLY_WIDTHS.values())) / sum(PHILLY_WIDTHS.values())
    narrow = rng.choice(widths, size=jobs - gangs, p=shares)
    wide = rng.integers(GANG_WIDTHS[0], GANG_WIDTHS[1], size=gangs, endpoint=True)
    width = np.minimum(rng.permutation(np.concatenate([narrow, wide])), capacity)
    spread = 0.4
    raw = rng.lognormal(-spread * spread / 2, spread, size=jobs) * MEAN_DURATION
    duration = np.minimum(raw, LONGEST * MEAN_DURATION).round(1)
    work = float((width * duration).sum())
    gaps = rng.exponential(work / (0.9 * capacity * max(jobs, 1)), size=jobs)
    submit = np.cumsum(gaps)
    return Trace(
        submit=submit - submit[0] if jobs else submit,
        duration=duration,
        width=width.astype(np.int64),
        queue=rng.integers(len(QUEUES), size=jobs),
        queues=QUEUES,
    )


# --- API objects ------------------------------------------------------------------------------


def node_items(shape: ClusterShape) -> Iterator[Item]:
    """``v1`` Nodes, named by their number, with CPU, memory and places for pods to match."""
    digits = len(str(max(shape.nodes - 1, 0)))
    offer = _offer(shape)
    for number in range(shape.nodes):
        name = f"node-{number:0{digits}d}"
        yield manifest(
            "Node",
            name,
            metadata={"labels": {"kubernetes.io/hostname": name}},
            status={"capacity": offer, "allocatable": offer},
        )


def _offer(shape: ClusterShape) -> dict[str, str]:
    """A node's resources: per GPU 12 cores and 64 GiB, per core 4 GiB; at least Kubernetes' 110
    pods."""
    gpus = shape.units if shape.resource == GPU else 0
    cores = 12 * gpus if gpus else shape.units
    offer = {
        CPU: str(cores),
        "memory": f"{64 * gpus if gpus else 4 * cores}Gi",
        "pods": str(max(110, shape.units)),
    }
    if gpus:
        offer[GPU] = str(gpus)
    return offer


def queue_names(trace: Trace) -> list[str]:
    """Object names for the queues: lower case letters, digits, dots and hyphens, all different."""
    names: list[str] = []
    used = {"root"}  # the queue above all others; it holds no jobs
    for value in trace.queues:
        plain = re.sub(r"[^a-z0-9.-]+", "-", value.lower()).strip("-.")[:200] or "queue"
        name, number = plain, 2
        while name in used:
            name, number = f"{plain}-{number}", number + 1
        used.add(name)
        names.append(name)
    return names


def queue_items(trace: Trace) -> Iterator[Item]:
    """One Queue of weight 1 for every value of the trace."""
    for name in queue_names(trace):
        yield manifest("Queue", name, {"weight": 1})


def job_items(trace: Trace, *, resource: str) -> Iterator[Item]:
    """Jobs in order of submission; each is one role of ``width`` tasks, all of them or none."""
    queues = queue_names(trace)
    digits = len(str(max(trace.jobs, 1)))
    columns = zip(trace.width.tolist(), trace.duration.tolist(), trace.queue.tolist(), strict=True)
    for number, (width, duration, queue) in enumerate(columns, start=1):
        role = role_of(width, pod_template(resource, duration=duration))
        name = f"job-{number:0{digits}d}"
        yield job_manifest(name, [role], minimum=width, queue=queues[queue])


def pod_items(count: int, *, resource: str = CPU, duration: float | None = None) -> Iterator[Item]:
    """Pods without PodGroup: each is a job of one task."""
    digits = len(str(max(count - 1, 0)))
    template = pod_template(resource, duration=duration)
    for number in range(count):
        yield pod_manifest(f"pod-{number:0{digits}d}", template)


def wide_job(tasks: int, *, resource: str = CPU) -> Item:
    """A Job with many tasks that need not start together, running until it is deleted."""
    role = role_of(tasks, pod_template(resource, duration=None))
    return job_manifest("job-wide", [role], minimum=1)


def one_job(name: str, *, duration: float, resource: str = CPU) -> Item:
    """A Job of one task."""
    return job_manifest(name, [role_of(1, pod_template(resource, duration=duration))], minimum=1)


# --- objects --------------------------------------------------------------------------------------


def job_manifest(
    name: str, roles: list[Item], *, minimum: int, namespace: str = "default", **spec: Any
) -> Item:
    return manifest(
        "Job", name, {**spec, "minAvailable": minimum, "tasks": roles}, namespace=namespace
    )


def role_of(replicas: int, template: Item, *, name: str = "task") -> Item:
    return {"name": name, "replicas": replicas, "template": template}


def pod_manifest(
    name: str,
    template: Item,
    *,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
) -> Item:
    """``annotations``: beside those of the template."""
    metadata = {**template["metadata"], "name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = {**metadata["annotations"], **annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def pod_template(resource: str, *, duration: float | None, amount: str = "1") -> Item:
    """A pod that asks for one resource, and runs so many seconds, or until it is deleted."""
    amounts = {resource: amount}
    annotations = {} if duration is None else {DURATION: f"{duration:.15g}"}
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def lists(items: Iterator[Item] | Sequence[Item], *, limit: int = LIST_LIMIT) -> Iterator[Item]:
    """The items as ``v1`` Lists of at most ``limit`` each, in order."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == limit:
            yield {"apiVersion": "v1", "kind": "List", "items": batch}
            batch = []
    if batch:
        yield {"apiVersion": "v1", "kind": "List", "items": batch}
