"""Random KAI policies, trees of queues, and what pods and groups ask for under them.

Names of plugins and their arguments are those that this version takes
(:mod:`shared.policy.kai_names`), so that a new one is drawn by itself.
"""

from __future__ import annotations

from random import Random
from typing import Any

from laboratory.workloads.manifests import manifest
from shared.policy.kai_names import CHOICES, DEFAULT_PLUGINS, PLUGINS

Json = dict[str, Any]

ROOT, BRANCH = "all", "half"
"""The queue above all others, and one between it and some leaves."""
ZONE = "zone"
POOL = "kai.scheduler/node-pool"
TOPOLOGY = "rooms"
"""A topology of one level, the zones."""

_MOSTLY = 0.95
"""Chance of each plugin of the default, where not all of them are in."""
_SELDOM = 0.15
_OFTEN = 0.4
_FREE: Json = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def kai_policy(draw: Random) -> Json:
    """A policy that places: the built-in one, or one with other plugins and arguments."""
    policy: Json = {"dialect": "kai"}
    if draw.random() < 0.5:
        policy["actions"] = "allocate"
    if draw.random() < 0.7:
        names = [
            name
            for name in sorted(PLUGINS)
            if draw.random() < (_MOSTLY if name in DEFAULT_PLUGINS else _SELDOM)
        ]
        draw.shuffle(names)
        policy["tiers"] = [{"plugins": [_option(draw, name) for name in names]}]
    if draw.random() < 0.3:
        policy["queueDepthPerAction"] = {"allocate": draw.randint(1, 5)}
    return policy


def kai_usage(draw: Random) -> Json:
    """Usage over time by own samples, of windows that begin and end within a run."""
    params: Json = {
        "windowSize": draw.choice(["2s", "30s", "1w"]),
        "extraParams": {"queryResolution": "1s"},
    }
    if draw.random() < 0.5:
        params["halfLifePeriod"] = draw.choice(["1s", "10s"])
    if draw.random() < 0.3:
        params |= {"windowType": "tumbling", "tumblingWindowStartTime": "2026-01-05T00:00:00Z"}
    return {"clientType": "ledger", "usageParams": params}


def in_pool(item: Json, pool: str) -> Json:
    """The object with the label of a node pool; "": without."""
    metadata = item["metadata"]
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name != POOL}
    return {**item, "metadata": {**metadata, "labels": labels | ({POOL: pool} if pool else {})}}


def _option(draw: Random, name: str) -> Json:
    choices = {
        argument: draw.choice(these) for (of, argument), these in CHOICES.items() if of == name
    }
    if name == "proportion" and draw.random() < 0.5:
        choices["kValue"] = draw.choice(["0", "0.5", "2"])
    return {"name": name, "arguments": choices} if choices else {"name": name}


# --- queues, topology, priorities -----------------------------------------------------------------


def kai_queue(draw: Random, name: str, parent: str, *, inner: bool = False) -> Json:
    """A queue with random shares. ``inner``: one that has others below it, with wider limits."""
    shares = {
        "cpu": _share(draw, limits=(16, 24) if inner else (2, 4, 8, 12)),
        "memory": _FREE,
        "gpu": _share(draw, limits=(4, 8, 12) if inner else (1, 2, 4, 6)),
    }
    shares["cpu"] = {
        part: amount * 1000 if part != "overQuotaWeight" and amount > 0 else amount
        for part, amount in shares["cpu"].items()
    }
    spec: Json = {"resources": shares}
    if parent:
        spec["parentQueue"] = parent
    if draw.random() < 0.3:
        spec["priority"] = draw.choice([50, 100, 200])
    # By a draw of its own, so that the other draws of a seed stay what they are.
    own = Random(f"{name} {spec}")
    for field in ("preemptMinRuntime", "reclaimMinRuntime"):
        if own.random() < _OFTEN:
            spec[field] = own.choice(["0s", "500ms", "2s", "5s"])
    return manifest("KaiQueue", name, spec)


def _share(draw: Random, *, limits: tuple[int, ...]) -> Json:
    return {
        "quota": draw.choice([-1, 0, 1, 2, 4, 8]),
        "overQuotaWeight": draw.choice([0, 1, 1, 2, 0.5]),
        "limit": draw.choice([-1, -1, *limits]),
    }


def kai_topology() -> Json:
    return manifest("KaiTopology", TOPOLOGY, {"levels": [{"nodeLabel": ZONE}]})


# --- groups and pods ------------------------------------------------------------------------------


def kai_group(name: str, spec: Json, *, namespace: str = "ns") -> Json:
    return manifest("KaiPodGroup", name, spec, namespace=namespace)


def group_marks(draw: Random) -> Json:
    """Drawn fields of a PodGroup beside its queue and minima."""
    marks: Json = {}
    if draw.random() < 0.5:
        classes = ("train", "build-preemptible", "build", "inference", "high")
        marks["priorityClassName"] = draw.choice(classes)
    if draw.random() < 0.4:
        marks["preemptibility"] = draw.choice(["preemptible", "preemptible", "non-preemptible"])
    if draw.random() < 0.1:
        level = draw.choice(["requiredTopologyLevel", "preferredTopologyLevel"])
        marks["topologyConstraint"] = {"topology": TOPOLOGY, level: ZONE}
    return marks


def pod_requests(draw: Random) -> tuple[Json, Json]:
    """(resources that a pod asks for, its annotations): cores, whole GPUs, or parts of them."""
    cores: Json = {"cpu": "1"}
    kind = draw.random()
    if kind < 0.35:
        return cores, {}
    if kind < 0.7:
        return cores | {"nvidia.com/gpu": str(draw.choice([1, 1, 1, 2]))}, {}
    if kind < 0.75:
        return {}, {}
    if kind < 0.93:
        shares = {"gpu-fraction": draw.choice(["0.5", "0.5", "0.3", "0.75", "0.25"])}
        if draw.random() < 0.15:
            shares["gpu-fraction-num-devices"] = "2"
        return cores, shares
    return cores, {"gpu-memory": draw.choice(["20", "50", "70"])}


def node_gpus(draw: Random) -> Json:
    """Amounts that a node offers beside its cores."""
    gpus = draw.choice([0, 2, 4, 4])
    return {"nvidia.com/gpu": str(gpus)} if gpus else {}
