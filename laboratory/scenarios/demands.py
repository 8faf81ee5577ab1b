"""Demands of a seeded run's tasks other than cores: ports, a node per task, devices, volumes.

Extends the other generators: some jobs get one additional demand. All demands fit the empty
cluster, so that each job can still run.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from laboratory.scenarios.contended import RACK
from laboratory.scenarios.workload import with_hostname
from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.demands import (
    ask_device,
    ask_own_nodes,
    ask_ports,
    ask_volume,
    claim_template,
    devices,
    disk,
    storage_class,
    volume_claim,
)
from shard_worker.view.mode import Mode

SHARE = 0.4
"""Fraction of the jobs with a demand other than cores."""

PORTS = (80, 443)
"""Only two, so that jobs compete for the same port."""

DEVICES = 2
"""Devices per node."""

_Demand = Callable[[Random, str, Item], None]
"""Changes the pod template of a role of the job with this name."""


def demanding(
    draw: Random, setup: tuple[Item, ...], wishes: list[UserRequest], *, mode: Mode, shards: int
) -> tuple[tuple[Item, ...], list[UserRequest]]:
    """Add demands to ``setup`` and ``wishes``, with claims before the jobs that use them.

    No volumes in mode hard: a claim with its volume on a node of one shard ties the job to that
    shard, and the others would wait for it forever.
    """
    nodes = [item["metadata"]["name"] for item in setup if item["kind"] == "Node"]
    apart = max(1, len(nodes) // shards - 1) if mode is Mode.HARD else len(nodes)
    volumes = [] if mode is Mode.HARD else list(nodes)
    changed_wishes: list[UserRequest] = []
    for wish in wishes:
        items: list[Item] = []
        for item in wish.items:
            if item["kind"] == "Job" and draw.random() < SHARE:
                items += _job(draw, item, apart=apart, volumes=volumes)
            else:
                items.append(with_hostname(item))
        changed_wishes.append(UserRequest(wish.at, tuple(items), wish.delete))
    offered = [with_hostname(item) for item in setup]
    offered += [claim_template("ns"), *devices(nodes, each=DEVICES)]
    if mode is not Mode.HARD:
        offered += [storage_class(), *(disk(f"disk-{node}", node) for node in nodes)]
    return tuple(offered), changed_wishes


def _job(draw: Random, item: Item, *, apart: int, volumes: list[str]) -> list[Item]:
    """Add a demand to the job's first role; returns the claim it needs, if any, and the job."""
    name, role = item["metadata"]["name"], item["spec"]["tasks"][0]
    if item["spec"].get("networkTopology", {}).get("mode") == "hard":
        apart = min(apart, RACK)  # all its tasks are in one domain
    demands: list[_Demand] = [_port, _own_term, _device] if role["replicas"] <= apart else []
    if role["replicas"] == 1 and volumes:
        demands.append(_volume)
    if not demands:
        return [item]
    demand = draw.choice(demands)
    template: dict[str, Any] = role["template"]
    changed = {
        "metadata": {**template["metadata"]},
        "spec": {**template["spec"], "containers": [dict(template["spec"]["containers"][0])]},
    }
    demand(draw, name, changed)
    tasks = [{**role, "template": changed}, *item["spec"]["tasks"][1:]]
    job = {**item, "spec": {**item["spec"], "tasks": tasks}}
    if demand is not _volume:
        return [job]
    volumes.pop()  # each claim takes one for good
    return [volume_claim(_claim_name(name), "ns"), job]


# --- demands ------------------------------------------------------------------------------------


def _port(draw: Random, name: str, template: Item) -> None:
    ask_ports(template, draw.sample(PORTS, draw.randint(1, len(PORTS))))


def _own_term(draw: Random, name: str, template: Item) -> None:
    ask_own_nodes(template, name)


def _device(draw: Random, name: str, template: Item) -> None:
    ask_device(template)


def _volume(draw: Random, name: str, template: Item) -> None:
    ask_volume(template, _claim_name(name))


def _claim_name(job: str) -> str:
    return f"data-{job}"
