"""The domain that a job, and each of its sub jobs, is already in.

A job's domain is stored as an annotation of its PodGroup. If that is missing or out of date, it is
the lowest domain that holds the nodes of all placed tasks. It constrains the tasks placed later:
they stay below the widest domain that the job's topology allows above it. If all waiting tasks have
nominated nodes, those give the nominated domain.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.view.hyper_tree import HyperTree, build_tree

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
    from shard_worker.session_model.world import World


def tree_of(world: World) -> HyperTree:
    """The world's tree of hyper nodes; one with only the root if the world has none."""
    if world.tree is None:
        world.tree = build_tree((), world.view.nodes)
    return world.tree


def asks_for_domains(job: SessionJob) -> bool:
    """Whether the job, or any of its sub jobs, has a topology."""
    return any(sub.topology is not None for sub in job.subs.values()) or bool(job.job.topology)


def placed_by_domains(world: World, job: SessionJob) -> bool:
    """Whether the job is placed domain by domain; otherwise all nodes are searched at once."""
    if job.has_sub_groups:
        return True
    if not asks_for_domains(job):
        return False
    return tree_of(world).highest(job.job.topology) is not None


def recover(job: SessionJob, tree: HyperTree) -> None:
    """Set the domains of a job and its sub jobs that are missing or deleted, from the nodes of the
    placed tasks; clear them where none is placed. Set missing nominated domains."""
    for sub in job.subs.values():
        reached = _reached(sub.tasks, tree)
        # The annotation may name a hyper node that was deleted, or a place that no task is on any
        # more.
        if not reached or sub.allocated_hyper_node not in tree.domains:
            sub.allocated_hyper_node = reached if sub.topology is not None else ""
        sub.nominated_hyper_node = sub.nominated_hyper_node or _promised(job, sub, tree)
    reached = _reached(job.tasks, tree)
    if not reached or job.allocated_hyper_node not in tree.domains:
        job.allocated_hyper_node = reached if asks_for_domains(job) else ""


def _reached(tasks: Iterable[TaskInfo], tree: HyperTree) -> str:
    """The lowest domain that holds the nodes of all tasks that are placed. A task on a node that
    the cluster does not have is in no domain and binds nobody to one, as in Volcano; counted at the
    root, it would keep a hard job from ever getting another task until it is lost with its node."""
    rows = {task.row for task in tasks if task.row >= 0 and task.status & OCCUPYING}
    return reduce(tree.lca, map(tree.leaf_of, rows), "")


def _promised(job: SessionJob, sub: SubJob, tree: HyperTree) -> str:
    """The lowest domain that holds all nominated nodes of its pending tasks; "" if one has no
    nomination, or the domain is of a higher tier than the topology allows."""
    rows = {task.nominated for task in sub.tasks if task.status is Status.PENDING}
    allowed = [tree.highest(topology) for topology in (sub.topology, job.job.topology)]
    if not rows or min(rows) < 0:
        return ""
    leaves = [tree.leaf_of(row) for row in rows]
    if not all(leaves):  # a nominated node is gone
        return ""
    common = reduce(tree.lca, leaves)
    tier = tree.domains[common].tier
    return common if all(highest is None or tier <= highest for highest in allowed) else ""
