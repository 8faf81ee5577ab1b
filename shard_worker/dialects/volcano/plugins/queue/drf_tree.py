"""Dominant resource fairness in a tree of queues (H-DRF).

Annotations of the queues describe the tree: ``volcano.sh/hierarchy`` (root/eng/prod) and
``volcano.sh/hierarchy-weights`` (1/2/8). Leaves are jobs. An inner node's amounts are the sum over
its children, each scaled down to the smallest dominant share among the children that can still
grow. So a child with much of one resource does not keep its siblings from theirs. Children that
cannot grow (saturated) count in full. Resources that are used up do not count in the share of an
inner node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shard_worker.session_model.workload import ClusterInfo, JobInfo, QueueInfo
from shared.model.model import Requests
from shared.units.bounded_numbers import finite_number
from shared.units.resources import Amounts, share

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"


@dataclass(slots=True, eq=False)
class TreeNode:
    """A queue's path element, from the root down, or a job at its end."""

    weight: float = 1.0
    children: dict[str, TreeNode] = field(default_factory=dict)
    jobs: dict[int, Leaf] = field(default_factory=dict)
    allocated: dict[int, float] = field(default_factory=dict)
    share: float = 0.0
    saturated: bool = False


@dataclass(slots=True, eq=False)
class Leaf:
    """A job. ``asks``: amounts that it holds plus those it waits for."""

    allocated: dict[int, float]
    asks: dict[int, float]
    share: float = 0.0
    saturated: bool = False


class FairTree:
    """The tree of the cluster's queues and jobs; :meth:`trying` evaluates a hypothetical change."""

    def __init__(self, cluster: ClusterInfo) -> None:
        self._total = cluster.total
        self._used: dict[int, float] = {}
        self._root = TreeNode()
        self._ways: dict[int, list[TreeNode]] = {}
        """Queue -> the nodes on its path, from the root down."""
        for qid, info in cluster.queues.items():
            self._ways[qid] = self._plant(info)
        for job in cluster.every_job():
            if job.qid in self._ways:
                self._plant_job(job)
        self._share_out()

    def _plant(self, info: QueueInfo) -> list[TreeNode]:
        marks = dict(info.queue.annotations)
        steps = marks.get(HIERARCHY, f"root/{info.queue.name}").split("/")[1:]
        weights = marks.get(WEIGHTS, "").split("/")[1:]
        way = [self._root]
        for i, step in enumerate(steps):
            node = way[-1].children.get(step)
            if node is None:
                weight = _weight(weights[i]) if i < len(weights) else 1.0
                node = way[-1].children[step] = TreeNode(weight=weight)
            way.append(node)
        return way

    def _plant_job(self, info: JobInfo) -> None:
        allocated: dict[int, float] = dict(info.allocated)
        for slot, amount in info.nominated.items():
            allocated[slot] = allocated.get(slot, 0) + amount
        asks = dict(allocated)
        for slot, amount in info.requested.items():
            asks[slot] = asks.get(slot, 0) + amount
        for slot, held_of_it in allocated.items():
            self._used[slot] = self._used.get(slot, 0) + held_of_it
        self._ways[info.qid][-1].jobs[info.job.jid] = Leaf(allocated, asks)

    # --- shares -------------------------------------------------------------------------------

    def _share_out(self) -> None:
        """Recompute every share, from the leaves up."""
        growing = {slot for slot, total in self._total.items() if self._used.get(slot, 0) < total}
        todo, nodes = [self._root], []
        while todo:
            node = todo.pop()
            nodes.append(node)
            todo += node.children.values()
        # Anew after each change and not by differences: one leaf may change the smallest share, and
        # with it the scale of all its siblings (decision 0035).
        for node in reversed(nodes):
            self._sum_up(node, growing)

    def _sum_up(self, node: TreeNode, growing: set[int]) -> None:
        for leaf in node.jobs.values():
            leaf.share = self._dominant(leaf.allocated, self._total)
            leaf.saturated = self._saturated(leaf, growing)
        below: list[TreeNode | Leaf] = [*node.children.values(), *node.jobs.values()]
        node.saturated = all(child.saturated for child in below)
        holding = [child for child in below if child.share > 0]
        # H-DRF's rescaling: the sum of a node must not grow by what only one of its children can
        # use.
        least = min((child.share for child in holding if not child.saturated), default=1.0)
        least = min(least, 1.0)
        node.allocated = {}
        for child in holding:
            scale = 1.0 if child.saturated else least / child.share
            for slot, amount in child.allocated.items():
                node.allocated[slot] = node.allocated.get(slot, 0.0) + amount * scale
        node.share = self._dominant(node.allocated, growing)

    def _dominant(self, amounts: Amounts, slots: Iterable[int]) -> float:
        return max((share(amounts.get(s, 0), self._total[s]) for s in slots), default=0.0)

    def _saturated(self, leaf: Leaf, growing: set[int]) -> bool:
        """Whether the job holds all that it asks for of some resource, or asks for one that is used
        up."""
        return any(
            amount > 0 and (leaf.allocated.get(slot, 0) >= amount or slot not in growing)
            for slot, amount in leaf.asks.items()
            if slot in self._total
        )

    # --- questions ----------------------------------------------------------------------------

    def compare(self, left: int, right: int) -> float:
        """Negative if the left queue goes first; 0 if the tree does not order the two."""
        for left_node, right_node in zip(self._ways[left], self._ways[right], strict=False):
            if left_node.saturated != right_node.saturated:
                return 1.0 if left_node.saturated else -1.0
            difference = left_node.share / left_node.weight - right_node.share / right_node.weight
            if difference:
                return difference
        return 0.0

    @contextmanager
    def trying(self, info: JobInfo, requests: Requests, times: int) -> Iterator[None]:
        """Inside the block the job's amounts include the requests ``times`` times; negative
        subtracts."""
        self._give(info, requests, times)
        try:
            yield
        finally:
            self._give(info, requests, -times)

    def _give(self, info: JobInfo, requests: Requests, times: int) -> None:
        leaf = self._ways[info.qid][-1].jobs.get(info.job.jid)
        if leaf is None:
            return  # a job that the session does not know has no share to lose
        for into in (leaf.allocated, self._used):
            for slot, amount in requests:
                into[slot] = into.get(slot, 0) + amount * times
        self._share_out()


def _weight(text: str) -> float:
    """The weight; 1 if the text is not a number, or is below 1."""
    return max(finite_number(text) or 1.0, 1.0)
