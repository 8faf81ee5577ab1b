"""Dominant resource fairness down a tree of queues (H-DRF).

The tree is described by annotations of the queues: ``volcano.sh/hierarchy`` (root/eng/prod) and
``volcano.sh/hierarchy-weights`` (1/2/8). Leaves are jobs. What an inner node has is the sum over
its children, each scaled down to the smallest dominant share among those that can still grow: so
a child that has much of one resource does not keep its siblings from theirs. Children that cannot
grow (saturated) count in full. Of resources that are used up, no inner node has a share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shard_worker.workload import ClusterInfo, JobInfo, QueueInfo
from shared.model import Requests
from shared.resources import Amounts, share

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"


@dataclass(slots=True, eq=False)
class Node:
    """A step on the way from the root to a queue, or a job at its end."""

    weight: float = 1.0
    children: dict[str, Node] = field(default_factory=dict)
    jobs: dict[int, Leaf] = field(default_factory=dict)
    allocated: dict[int, float] = field(default_factory=dict)
    share: float = 0.0
    saturated: bool = False


@dataclass(slots=True, eq=False)
class Leaf:
    """A job. ``asks``: what it holds and waits for together."""

    allocated: dict[int, float]
    asks: dict[int, float]
    share: float = 0.0
    saturated: bool = False


class FairTree:
    """Built from the cluster's queues and jobs as they stand; see :meth:`trying` for what if."""

    def __init__(self, cluster: ClusterInfo) -> None:
        self._total = cluster.total
        self._used: dict[int, float] = {}
        self._root = Node()
        self._ways: dict[int, list[Node]] = {}
        """Queue -> its nodes from the root down."""
        for qid, info in cluster.queues.items():
            self._ways[qid] = self._plant(info)
        for job in cluster.jobs.values():
            if job.qid in self._ways:
                self._plant_job(job)
        self._share_out()

    def _plant(self, info: QueueInfo) -> list[Node]:
        marks = dict(info.queue.annotations)
        steps = marks.get(HIERARCHY, f"root/{info.queue.name}").split("/")[1:]
        weights = marks.get(WEIGHTS, "").split("/")[1:]
        way = [self._root]
        for i, step in enumerate(steps):
            node = way[-1].children.get(step)
            if node is None:
                weight = _weight(weights[i]) if i < len(weights) else 1.0
                node = way[-1].children[step] = Node(weight=weight)
            way.append(node)
        return way

    def _plant_job(self, info: JobInfo) -> None:
        held: dict[int, float] = dict(info.allocated)
        for slot, amount in info.nominated.items():
            held[slot] = held.get(slot, 0) + amount
        asks = dict(held)
        for slot, amount in info.requested.items():
            asks[slot] = asks.get(slot, 0) + amount
        for slot, held_of_it in held.items():
            self._used[slot] = self._used.get(slot, 0) + held_of_it
        self._ways[info.qid][-1].jobs[info.job.jid] = Leaf(held, asks)

    # --- shares -------------------------------------------------------------------------------

    def _share_out(self) -> None:
        """Compute every share anew, from the leaves up."""
        growing = {slot for slot, total in self._total.items() if self._used.get(slot, 0) < total}
        todo, found = [self._root], []
        while todo:
            node = todo.pop()
            found.append(node)
            todo += node.children.values()
        for node in reversed(found):
            self._sum_up(node, growing)

    def _sum_up(self, node: Node, growing: set[int]) -> None:
        for leaf in node.jobs.values():
            leaf.share = self._dominant(leaf.allocated, self._total)
            leaf.saturated = self._saturated(leaf, growing)
        below: list[Node | Leaf] = [*node.children.values(), *node.jobs.values()]
        node.saturated = all(child.saturated for child in below)
        holding = [child for child in below if child.share > 0]
        least = min((child.share for child in holding if not child.saturated), default=1.0)
        least = min(least, 1.0)
        node.allocated = {}
        for child in holding:
            scale = 1.0 if child.saturated else least / child.share
            for slot, amount in child.allocated.items():
                node.allocated[slot] = node.allocated.get(slot, 0.0) + amount * scale
        node.share = self._dominant(node.allocated, growing)

    def _dominant(self, held: Amounts, slots: Iterable[int]) -> float:
        return max((share(held.get(s, 0), self._total[s]) for s in slots), default=0.0)

    def _saturated(self, leaf: Leaf, growing: set[int]) -> bool:
        """It has all that it asks for of something, or asks for something that is used up."""
        return any(
            amount > 0 and (leaf.allocated.get(slot, 0) >= amount or slot not in growing)
            for slot, amount in leaf.asks.items()
            if slot in self._total
        )

    # --- questions ----------------------------------------------------------------------------

    def compare(self, left: int, right: int) -> float:
        """Negative where the left queue goes first, 0 where the tree does not tell them apart."""
        for one, other in zip(self._ways[left], self._ways[right], strict=False):
            if one.saturated != other.saturated:
                return 1.0 if one.saturated else -1.0
            found = one.share / one.weight - other.share / other.weight
            if found:
                return found
        return 0.0

    @contextmanager
    def trying(self, info: JobInfo, requests: Requests, times: int) -> Iterator[None]:
        """What if the job held a request more, or less?"""
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
    """As written; what is no number, or below 1, counts as 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
