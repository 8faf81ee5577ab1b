"""KAI's side of a chaos run: its policies, a tree of queues whose limits change, PodGroups and
their pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from laboratory.workloads.drawn_kai import kai_group
from laboratory.workloads.generators import ClusterShape, Item, pod_manifest
from laboratory.workloads.manifests import kai_queue
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL
from shared.policy.kai_names import DEFAULT_PLUGINS

ROOT = "all"
SMALL = "small"
"""The queue with a limit that changes."""
_STRATEGIES = ("binpack", "spread")


RANKS = ("train", "build-preemptible")
"""Priority classes of KAI's own whose jobs may be evicted: of the others no more is placed than
their queue's quota, which some of the drawn jobs exceed."""

_MAKING_ROOM = ("reclaim", "preempt", "consolidation, reclaim, preempt, stalegangeviction")


def draw_policy(draw: Random, *, evicting: bool, of_cluster: bool = False) -> str:
    """KAI's own plugins with random arguments, as YAML. Under each of them everything binds
    eventually. ``of_cluster``: for a real API server, where all ways to evict are judged."""
    chosen = {kind: draw.choice(_STRATEGIES) for kind in ("gpu", "cpu")}
    plugins = [
        {"name": name, "arguments": chosen} if name == "nodeplacement" else {"name": name}
        for name in DEFAULT_PLUGINS
    ]
    making_room = _MAKING_ROOM[-1] if of_cluster else draw.choice(_MAKING_ROOM)
    actions = f"allocate, {making_room}" if evicting else "allocate"
    policy = {"dialect": "kai", "actions": actions, "tiers": [{"plugins": plugins}]}
    return json.dumps(policy)


def queues(shape: ClusterShape) -> list[Item]:
    """The tree. One leaf may use a quarter of the cluster, and deserves an eighth."""
    part = shape.capacity // 4
    return [
        _queue(ROOT, "", quota=-1, limit=-1),
        _queue("default", ROOT, quota=part, limit=-1),
        _queue("batch", ROOT, quota=part, limit=-1),
        small_queue(part),
    ]


def small_queue(limit: int) -> Item:
    return _queue(SMALL, ROOT, quota=limit // 2, limit=limit)


def _queue(name: str, parent: str, *, quota: int, limit: int) -> Item:
    gpu = {"quota": quota, "overQuotaWeight": 1, "limit": limit}
    return kai_queue(name, parent, gpu=gpu)


def pod_group(
    name: str,
    minimum: int,
    *,
    namespace: str,
    queue: str = "default",
    rank: Mapping[str, str] | None = None,
) -> Item:
    """``rank``: its ``priorityClassName``, or nothing."""
    spec = {"minMember": minimum, "queue": queue, **(rank or {})}
    return kai_group(name, spec, namespace=namespace)


def pod(name: str, template: Item, *, namespace: str, group: str = "", queue: str = "") -> Item:
    """``group``: its PodGroup; ``queue``: of a pod without one."""
    annotations = {GROUP_NAME: group} if group else {}
    manifest = pod_manifest(name, template, namespace=namespace, annotations=annotations)
    if queue:
        manifest["metadata"]["labels"] = {QUEUE_LABEL: queue}
    return manifest | {"spec": manifest["spec"] | {"schedulerName": "kai-scheduler"}}
