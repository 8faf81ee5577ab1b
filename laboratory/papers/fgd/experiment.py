"""FGD's main experiment: pods arrive one by one in random order, none of them leaves, and what does
not fit is dropped. One session of Quadrant's core decides about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from laboratory.papers.fgd.cards import MODEL, RESOURCE, WHOLE, CardPlugin
from laboratory.papers.fgd.gradient import Fgd
from laboratory.papers.fgd.openb import Openb, Pod
from laboratory.papers.fgd.policies import BestFit, Clustering, DotProduct, Packing, Random
from laboratory.papers.paper import PaperRun
from laboratory.scenarios.worker_processes import worker_processes
from shard_worker.harness import Cluster
from shared.model.constraints import Requirement
from shared.policy.model import PluginOption

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "openb"
SEEDS = tuple(range(1, 11))
DATA = "https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023"
ARRIVED = (60, 80, 85, 90, 92, 94, 95, 96, 100, 110, 120, 130)
"""GPUs asked for so far, in % of the cluster's."""
MOST_ARRIVED = 1.3
POLICIES: dict[str, type[CardPlugin]] = {
    "Random": Random,
    "DotProd": DotProduct,
    "Clustering": Clustering,
    "Packing": Packing,
    "BestFit": BestFit,
    "FGD": Fgd,
}
"""Under the names of the paper's figures."""
GIB = 1024


@dataclass(frozen=True, slots=True)
class Curve:
    """Allocation over arrivals, after each pod; in shares of the cluster's GPUs."""

    arrived: NDArray[np.float64]
    allocated: NDArray[np.float64]

    def at(self, percent: int) -> float:
        """Mean allocation in % while the arrived percentage rounds to this one."""
        there = np.round(100 * self.arrived) == percent
        return float(100 * self.allocated[there].mean())


def measure(run: PaperRun) -> dict[tuple[str, str], float]:
    """Raises :class:`PaperError`."""
    openb = Openb.read(run.data / FOLDER)
    plan = list(product(POLICIES, run.seeds))
    figures: dict[tuple[str, str], list[float]] = {}
    with worker_processes(run.processes) as pool:
        futures = [pool.submit(play, openb, policy, seed) for policy, seed in plan]
        for number, ((policy, _), future) in enumerate(zip(plan, futures, strict=True), start=1):
            curve = future.result()
            for percent in ARRIVED:
                figures.setdefault((policy, f"{percent}%"), []).append(curve.at(percent))
            run.progress(number / len(plan))
    return {cell: round(float(np.mean(values)), 2) for cell, values in figures.items()}


def play(openb: Openb, policy: str, seed: int) -> Curve:
    arriving = openb.arrivals(seed, MOST_ARRIVED)
    placed = _session(openb, policy, seed, arriving).run().binds
    amounts = np.array([pod.demand.amount for pod in arriving])
    bound = np.array([f"default/{number}-0" in placed for number in range(len(arriving))])
    return Curve(
        arrived=np.cumsum(amounts) / openb.capacity,
        allocated=np.cumsum(amounts * bound) / openb.capacity,
    )


def _session(openb: Openb, policy: str, seed: int, pods: Sequence[Pod]) -> Cluster:
    """The cluster with all pods waiting in the order of their arrival."""
    plugin = POLICIES[policy]
    arguments: dict[str, object] = {
        "seed": seed,
        "workload": " ".join(map(str, openb.typical())),
    }
    cluster = Cluster(
        "gang",
        "predicates",
        PluginOption(plugin.name, arguments, flags={}),
        makers={plugin.name: plugin},
    )
    for node in openb.shuffled_nodes(seed):
        cluster.node(
            node.name,
            cpu=node.cpu / 1000,
            memory=node.memory / GIB,
            pods=1000,
            labels={MODEL: node.model},
            resources={RESOURCE: WHOLE * node.gpus},
            devices={f"card/{card}": WHOLE for card in range(node.gpus)},
        )
    for number, (demand, memory) in enumerate(pods):
        rules = {"affinity": ((Requirement(MODEL, "In", demand.models),),)}
        cluster.job(
            str(number),
            cpu=demand.cpu / 1000,
            memory=memory / GIB,
            resources={RESOURCE: demand.amount} if demand.cards else {},
            rules=rules if demand.models else {},
        )
    return cluster
