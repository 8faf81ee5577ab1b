"""The domain that a job, and each of its sub jobs, is in already.

A job's domain is stored as an annotation of its PodGroup; if that is missing or out of date, it
follows from the nodes of its tasks. It binds the tasks that come later: they stay below the widest
domain that its topology allows above it. If all waiting tasks have nominated nodes, those give a
promised domain.
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
    """The world's tree; one with nothing but the root if it has none."""
    if world.tree is None:
        world.tree = build_tree((), world.view.nodes)
    return world.tree


def asks_for_domains(job: SessionJob) -> bool:
    """Has the job, or any of its sub jobs, a topology?"""
    return any(sub.topology is not None for sub in job.subs.values()) or bool(job.job.topology)


def placed_by_domains(world: World, job: SessionJob) -> bool:
    """Is it placed domain by domain? Else it is flat: all nodes at once."""
    if job.has_sub_groups:
        return True
    if not asks_for_domains(job):
        return False
    return tree_of(world).highest(job.job.topology) is not None


def recover(job: SessionJob, tree: HyperTree) -> None:
    """Update a job's domains from where its tasks are."""
    for sub in job.subs.values():
        reached = _reached(sub.tasks, tree)
        if not reached or sub.allocated_hyper_node not in tree.domains:
            sub.allocated_hyper_node = reached if sub.topology is not None else ""
        sub.nominated_hyper_node = sub.nominated_hyper_node or _promised(job, sub, tree)
    reached = _reached(job.tasks, tree)
    if not reached or job.allocated_hyper_node not in tree.domains:
        job.allocated_hyper_node = reached if asks_for_domains(job) else ""


def _reached(tasks: Iterable[TaskInfo], tree: HyperTree) -> str:
    """The lowest domain that holds the nodes of all tasks that are placed."""
    rows = {task.row for task in tasks if task.row >= 0 and task.status & OCCUPYING}
    return reduce(tree.lca, map(tree.leaf_of, rows), "")


def _promised(job: SessionJob, sub: SubJob, tree: HyperTree) -> str:
    """The domain in which an earlier session promised a node to each of its tasks that wait."""
    rows = {task.nominated for task in sub.tasks if task.status is Status.PENDING}
    allowed = [tree.highest(topology) for topology in (sub.topology, job.job.topology)]
    if not rows or min(rows) < 0:
        return ""
    common = reduce(tree.lca, map(tree.leaf_of, rows), "")
    tier = tree.domains[common].tier
    return common if all(highest is None or tier <= highest for highest in allowed) else ""
