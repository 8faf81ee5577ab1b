"""A week and its cluster as API objects: Nodes, Queues, PriorityClasses, and a Job for each row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from laboratory.lab.cluster import Cluster
from laboratory.lab.week import Week
from laboratory.workloads.generators import CPU, DURATION, GPU, job_manifest, role_of
from laboratory.workloads.manifests import UNLIMITED, kai_queue, manifest
from shared.policy.model import Dialect

Item = dict[str, Any]

_JOB = "job-"
GPU_FRACTION, GPU_MEMORY = "gpu-fraction", "nvidia.com/gpu.memory"
SHARE_PARTS = 100_000
"""MiB of each GPU where jobs ask for parts of one: KAI cuts the label to hundreds and counts shares
in MiB, so they are exact to a thousandth."""
PARENT = "week"
"""The queue above all others under KAI's rules."""


def setup(
    week: Week, cluster: Cluster, dialect: Dialect, queues: Sequence[Item] = ()
) -> list[Item]:
    """Everything that exists before the first job. ``queues``: in place of equal ones."""
    names = sorted(set(queue_names(week).values()))
    if queues:
        queues = list(queues)
    elif dialect is Dialect.KAI:
        queues = [kai_queue(PARENT), *(kai_queue(name, PARENT, gpu=UNLIMITED) for name in names)]
    else:
        queues = [manifest("Queue", name, {"weight": 1}) for name in names if name != "default"]
    classes = [
        manifest("PriorityClass", _class(value), value=value)
        for value in sorted(set(week.priority.tolist()))
    ]
    return [*_nodes(cluster, shares=week.has_shares), *queues, *classes]


def _nodes(cluster: Cluster, *, shares: bool) -> Iterator[Item]:
    rows = zip(cluster.name, cluster.gpus, cluster.cpu, cluster.memory, cluster.model, strict=True)
    for name, gpus, cpu, memory, model in rows:
        offer = {
            CPU: _milli(cpu),
            "memory": f"{int(memory)}Mi",
            "pods": str(max(110, int(cpu))),
        }
        if gpus:
            offer[GPU] = str(gpus)
        labels = {"kubernetes.io/hostname": name}
        if model:
            labels["nvidia.com/gpu.product"] = model
        if gpus and shares:
            labels[GPU_MEMORY] = str(SHARE_PARTS)
        yield manifest(
            "Node",
            name,
            metadata={"labels": labels},
            status={"capacity": offer, "allocatable": offer},
        )


def queue_names(week: Week) -> dict[str, str]:
    """Queue as written -> a name that an object may have; all are different."""
    names: dict[str, str] = {}
    used = {"root", PARENT}
    for value in dict.fromkeys(week.queue):
        plain = re.sub(r"[^a-z0-9.-]+", "-", value.lower()).strip("-.")[:200] or "queue"
        name, number = plain, 2
        while name in used:
            name, number = f"{plain}-{number}", number + 1
        used.add(name)
        names[value] = name
    return names


def jobs(week: Week, rows: Sequence[int], queues: dict[str, str]) -> list[Item]:
    """The Jobs of these rows; :func:`row_of` gives a row back from a name."""
    return [_job(week, row, queues) for row in rows]


def row_of(name: str) -> int:
    """The row of the week whose Job has this name."""
    return int(name.removeprefix(_JOB))


def _job(week: Week, row: int, queues: dict[str, str]) -> Item:
    gpus, rest, pods = float(week.gpus[row]), int(week.rest[row]), int(week.pods[row])
    cpu, memory = float(week.cpu[row]), float(week.memory[row])
    seconds = float(week.duration[row])
    roles = [role_of(pods, _template(gpus, cpu, memory, seconds))]
    if rest:
        part = rest / gpus
        template = _template(rest, cpu * part, memory * part, seconds)
        roles.append(role_of(1, template, name="rest"))
    return job_manifest(
        f"{_JOB}{row}",
        roles,
        minimum=pods + (rest > 0),
        queue=queues[week.queue[row]],
        priorityClassName=_class(int(week.priority[row])),
    )


def _template(gpus: float, cpu: float, memory: float, seconds: float) -> Item:
    annotations = {DURATION: f"{seconds:.15g}"}
    if 0 < gpus < 1:
        annotations[GPU_FRACTION] = f"{gpus:.6g}"
    whole = {GPU: f"{gpus:.0f}"} if gpus >= 1 else {}
    requests = dict(whole)
    if cpu:
        requests[CPU] = _milli(cpu)
    if memory:
        requests["memory"] = f"{max(1, int(memory))}Mi"
    resources = {"requests": requests, "limits": whole}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def _class(value: int) -> str:
    return f"priority-{value}" if value >= 0 else f"priority-minus-{-value}"


def _milli(cores: float) -> str:
    return f"{max(1, round(cores * 1000))}m"
