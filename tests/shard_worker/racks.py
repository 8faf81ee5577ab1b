"""Clusters of racks and rows for tests of domains."""

from __future__ import annotations

from typing import Any

from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.view.hyper_tree import HyperTree
from shared.model.topology import HyperNode, Topology

TIER_1 = Topology(hard=True, highest_tier=1)
TIER_2 = Topology(hard=True, highest_tier=2)
SOFT = Topology(hard=False)
NTA = "network-topology-aware"


def racks(
    *sizes: int, cpu: float = 1, per_row: int = 2, plugins: tuple[Any, ...] = ("nodeorder",)
) -> Cluster:
    """Racks ``r0``, ``r1``... (tier 1) with that many nodes (``r0-0``, ...), ``per_row`` of them in
    a row ``row0``, ... (tier 2)."""
    cluster = Cluster("gang", "predicates", NTA, *plugins)
    names = [f"r{i}" for i in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        nodes = tuple(f"{name}-{i}" for i in range(size))
        for node in nodes:
            cluster.node(node, cpu=cpu)
        cluster.hyper_node(HyperNode.of(name, 1, nodes))
    for i in range(0, len(names), per_row):
        row = tuple(names[i : i + per_row])
        cluster.hyper_node(HyperNode.of(f"row{i // per_row}", 2, (), row))
    return cluster


def job_of(ssn: Session, name: str) -> SessionJob:
    return next(job for job in ssn.world.session_jobs() if job.job.name == name)


def tree_of(ssn: Session) -> HyperTree:
    assert ssn.world.tree is not None
    return ssn.world.tree


def racks_of(binds: dict[str, str], name: str) -> list[str]:
    """The rack of each task of a job that was bound, sorted."""
    mine = [node for task, node in binds.items() if task.startswith(f"default/{name}-")]
    return sorted(node.rpartition("-")[0] for node in mine)
