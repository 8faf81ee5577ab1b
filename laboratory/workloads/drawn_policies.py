"""Random policies over all plugins that this version has.

The plugins come from the registry, so that a new one is drawn by itself. What a plugin needs to
have an effect (thresholds, the hours of a zone) is in :data:`ARGUMENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from shard_worker.dialects.volcano.registry import PLUGINS

Json = dict[str, Any]

SHARE = 0.35
"""Chance of a plugin that is not in :data:`MOSTLY`."""
MOSTLY: Mapping[str, float] = {"predicates": 0.95, "gang": 0.9, "priority": 0.7}
ONE_OF = ("capacity", "proportion")
"""Both divide the cluster among queues: a policy has one of them."""
ROOM: tuple[list[str], ...] = (
    [],
    [],
    ["preempt"],
    ["reclaim"],
    ["preempt", "reclaim"],
    ["reclaim", "preempt"],
    ["gangpreempt"],
    ["gangreclaim"],
    ["preempt", "shuffle"],
)
"""Actions that evict."""
ALL_DAY, CLOSED = "00:00-23:59", "22:00-22:01"
"""Hours of a zone; runs are at the beginning of a day."""


def policy_of(draw: Random, *, tree: bool, extender: str) -> Json:
    """``tree``: queues have parents. ``extender``: the address of one that answers."""
    names = [name for name in sorted(PLUGINS) if draw.random() < MOSTLY.get(name, SHARE)]
    left_out = draw.choice(ONE_OF)
    if set(ONE_OF) <= set(names):
        names.remove(left_out)
    draw.shuffle(names)
    cut = draw.randint(0, len(names))
    tiers = [tier for tier in (names[:cut], names[cut:]) if tier] or [["gang", "predicates"]]
    actions = ["enqueue"] if draw.random() < 0.4 else []
    actions += ["allocate"] if draw.random() < 0.95 else []
    actions += ["backfill"] if draw.random() < 0.6 else []
    actions += draw.choice(ROOM)
    return {
        "actions": ", ".join(actions or ["allocate"]),
        "tiers": [{"plugins": [_option(draw, n, tree, extender) for n in tier]} for tier in tiers],
    }


def plugins_of(policy: Json) -> set[str]:
    return {option["name"] for tier in policy["tiers"] for option in tier["plugins"]}


def _option(draw: Random, name: str, tree: bool, extender: str) -> Json:
    option: Json = {"name": name}
    arguments = ARGUMENTS[name](draw) if name in ARGUMENTS else {}
    if name == "extender":
        arguments |= {"extender.urlPrefix": extender, "extender.httpTimeout": "30s"}
    if tree and name in ("capacity", "nodegroup"):
        option["enableHierarchy"] = True
    return {**option, "arguments": arguments} if arguments else option


# --- arguments ----------------------------------------------------------------------------------


def _deviceshare(draw: Random) -> Json:
    ways = ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable")
    return {f"deviceshare.{draw.choice(ways)}": True}


def _predicates(draw: Random) -> Json:
    checks = ("NodeAffinity", "PodAffinity", "PodTopologySpread", "TaintToleration")
    off = [check for check in checks if draw.random() < 0.05]
    return {f"predicate.{check}Enable": False for check in off}


def _extender(draw: Random) -> Json:
    verbs = ("predicate", "prioritize", "preemptable", "reclaimable")
    some = [verb for verb in verbs if draw.random() < 0.7]
    return {f"extender.{verb}Verb": verb for verb in some}


def _rescheduling(draw: Random) -> Json:
    limits = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}
    return {
        "interval": draw.choice(["1s", "5m"]),
        "strategies": [{"name": "lowNodeUtilization", "params": limits}],
    }


def _capacity(draw: Random) -> Json:
    return {"capacity.DynamicResourceAllocationEnable": True} if draw.random() < 0.3 else {}


ARGUMENTS: Mapping[str, Callable[[Random], Json]] = {
    "capacity": _capacity,
    "deviceshare": _deviceshare,
    "extender": _extender,
    "nodegroup": lambda draw: {"strict": draw.random() < 0.5},
    "overcommit": lambda draw: {"overcommit-factor": draw.choice([1.0, 1.2])},
    "predicates": _predicates,
    "rescheduling": _rescheduling,
    "sla": lambda draw: {"sla-waiting-time": draw.choice(["1s", "1h"])},
    "task-topology": lambda draw: {"task-topology.weight": draw.choice([1, 10])},
    "tdm": lambda draw: {
        "tdm.revocable-zone.open": ALL_DAY,
        "tdm.revocable-zone.closed": CLOSED,
        "tdm.evict.period": "1s",
    },
    "usage": lambda draw: {"thresholds": {"cpu": draw.choice([50, 80]), "mem": 80}},
}
"""Plugin -> its arguments."""
