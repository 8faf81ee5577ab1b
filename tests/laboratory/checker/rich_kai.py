"""A seeded run under a KAI policy, and its history: a tree of queues, a gang of two pod sets, a pod
of its own, one that shares a GPU, a queue that moves, and one that takes back what another has
beyond its quota."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from laboratory.scenarios.workload import node
from laboratory.workloads.drawn_kai import kai_group
from laboratory.workloads.manifests import manifest
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL, SUB_GROUP
from shared.model.gpu_request import FRACTION
from shared.policy.dialect import parse_policy
from tests.builders.objects import UNLIMITED, Item
from tests.laboratory.simulation.contending import Run

POLICY = parse_policy({"dialect": "kai"})
SECONDS = "1.5"
KEPT = "3s"
"""For so long jobs of the queue rich are left alone by a reclaim."""


def gpu_node(number: int) -> Item:
    node_item = node(number)
    node_item["status"]["allocatable"] |= {"nvidia.com/gpu": "4"}
    return node_item


def queue(name: str, parent: str, *, quota: int, limit: int, **more: str) -> Item:
    gpu = {"quota": quota, "overQuotaWeight": 1, "limit": limit}
    spec: Item = {"resources": {"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": gpu}, **more}
    if parent:
        spec["parentQueue"] = parent
    return manifest("KaiQueue", name, spec) | {"kind": "Queue"}


def pod(
    name: str,
    *,
    group: str = "",
    sub: str = "",
    queue: str = "",
    seconds: str = SECONDS,
    fraction: str = "",
) -> Item:
    labels = {SUB_GROUP: sub, QUEUE_LABEL: queue}
    metadata = {
        "labels": {key: value for key, value in labels.items() if value},
        "annotations": {"quadrant.dev/duration": seconds} | ({GROUP_NAME: group} if group else {}),
    }
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    if fraction:
        metadata["annotations"][FRACTION] = fraction
        requests = {"cpu": "1"}
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    }
    return manifest("Pod", name, spec, namespace="ns", metadata=metadata)


def kai_run() -> Run:
    queues = [
        queue("all", "", quota=8, limit=8),
        queue("red", "all", quota=2, limit=5),
        queue("blue", "all", quota=2, limit=4),
        queue("rich", "", quota=4, limit=-1, reclaimMinRuntime=KEPT),
        queue("poor", "", quota=4, limit=-1),
    ]
    run = Run(nodes=0, policy=POLICY, setup=[*map(gpu_node, range(3)), *queues])
    subs = [{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 3}]
    run.submit(
        kai_group("train", {"queue": "red", "subGroups": subs}),
        pod("lead", group="train", sub="lead"),
        *(pod(f"work-{i}", group="train", sub="work") for i in range(3)),
        at=0.1,
    )
    run.submit(pod("alone", queue="blue"), at=0.1)
    run.submit(
        kai_group("more", {"queue": "blue", "minMember": 2}),
        *(pod(f"more-{i}", group="more") for i in range(3)),
        at=0.5,
    )
    run.submit(queue("blue", "", quota=2, limit=4), at=2.5)
    run.submit(pod("half", queue="red", seconds="0.5", fraction="0.5"), at=3.5)
    # Alone on twelve GPUs, by then.
    run.submit(*(pod(f"r{i}", queue="rich", seconds="20") for i in range(12)), at=5.0)
    run.submit(kai_group("poor", {"queue": "poor", "minMember": 2}), at=10.0)
    run.submit(*(pod(f"p{i}", group="poor") for i in range(2)), at=10.0)
    return run


@cache
def _lines() -> tuple[bytes, ...]:
    run = kai_run()
    run.end()
    run.notes.end(run.sim.timeline.now)
    return tuple(run.notes.lines)


def kai_history() -> list[dict[str, Any]]:
    """Fresh events of the run; it is made once."""
    return [json.loads(line) for line in _lines()]
