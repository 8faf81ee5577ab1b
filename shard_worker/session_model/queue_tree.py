"""The queues with capability, deserved amounts and guarantee of each: side by side, or as a tree.

Computed from specifications and the cluster's total alone; usage is read live. In a tree everything
is below ``root``, which exists whether a Queue of this name was submitted or not, and has the
cluster's total. Siblings share their parent's capability, so that no child needs to repeat a limit
of its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from shard_worker.session_model.queue_limits import (
    Limits,
    capability_of,
    guarantees,
    real_capability,
)
from shard_worker.session_model.workload import ClusterInfo
from shared.model.model import Queue
from shared.units.resources import EPSILON, Amount, MissingScalar, maximum, min_dimension

ROOT = "root"


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One queue at its place in the tree. Compared by identity: a tree has one of each."""

    queue: Queue
    real: Limits
    """The most it may have, by slot (Volcano's realCapability)."""
    deserved: Limits
    """At most ``real``, at least the guarantee; only slots that are specified or guaranteed."""
    above: tuple[Branch, ...] = ()
    """Its parent, that one's parent, and so on, without the root."""
    leaf: bool = True
    way: tuple[Branch, ...] = field(init=False)
    """From the top down to the queue itself."""
    written: tuple[tuple[int, Amount], ...] = field(init=False)
    """The slots and amounts of ``deserved`` that are not 0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "way", (*reversed(self.above), self))
        written = ((slot, most) for slot, most in self.deserved.items() if most >= EPSILON)
        object.__setattr__(self, "written", tuple(written))

    @property
    def qid(self) -> int:
        return self.queue.qid


@dataclass(frozen=True, slots=True)
class Tree:
    branches: Mapping[int, Branch] = field(default_factory=dict)
    """By queue; the root only where a Queue of this name exists."""
    root: Branch | None = None
    """None for queues side by side."""
    trouble: str = ""
    """Why the queues form no tree; then no queue may have anything."""


def side_by_side(cluster: ClusterInfo, unbounded: Iterable[int] = ()) -> Tree:
    """No queue is above another, whatever its specification says.

    ``unbounded``: slots without a total in the cluster, limited only by specifications.
    """
    total = _total(cluster, unbounded)
    guaranteed = guarantees(info.queue for info in cluster.queues.values())
    branches = {}
    for qid, info in cluster.queues.items():
        real = real_capability(total, guaranteed, info.queue)
        branches[qid] = Branch(info.queue, real, _deserved(info.queue, real))
    return Tree(branches)


def grow_tree(
    cluster: ClusterInfo, unbounded: Iterable[int] = (), *, root_as_written: bool = False
) -> Tree:
    """The queues below ``root``, with inherited limits.

    ``root_as_written``: root has its own capability, if it specifies one, instead of the cluster's
    total: for clusters that grow on demand.
    """
    queues = cluster.queues
    described = (info.queue for info in queues.values() if info.queue.name == ROOT)
    root = next(described, Queue(qid=-1, name=ROOT))
    children: dict[int, list[Queue]] = {}
    for queue in (info.queue for info in queues.values()):
        if queue is root:
            continue
        parent = queue.parent if queue.parent >= 0 else root.qid
        if parent not in queues and parent != root.qid:
            return Tree(trouble=f"queue {queue.name}: its parent does not exist")
        children.setdefault(parent, []).append(queue)
    top = _root(root, _total(cluster, unbounded), root_as_written, bool(children))
    branches: dict[int, Branch] = {root.qid: top} if root.qid >= 0 else {}
    _grow(top, (), children, branches)
    stray = sorted(info.queue.name for qid, info in queues.items() if qid not in branches)
    if stray:
        return Tree(trouble=f"queues {', '.join(stray)}: parents that go round in a circle")
    return Tree(branches, top)


def _total(cluster: ClusterInfo, unbounded: Iterable[int]) -> dict[int, Amount]:
    return {**cluster.total, **dict.fromkeys(unbounded, inf)}


def _root(queue: Queue, total: dict[int, Amount], as_written: bool, has_children: bool) -> Branch:
    capability = capability_of(queue)
    real = {**total, **capability} if as_written else total
    for slot, amount in capability.items():
        if real.get(slot) == inf:  # of what cannot be counted, what is written counts
            real[slot] = amount
    return Branch(queue, real, real, leaf=not has_children)


def _grow(
    parent: Branch,
    above: tuple[Branch, ...],
    children: Mapping[int, list[Queue]],
    branches: dict[int, Branch],
) -> None:
    """Add the queues below ``parent``, level by level; ``above``: the ancestors of its children.

    A queue inherits each limit that it does not specify, also from the root, which may have all of
    the cluster.
    """
    todo: list[tuple[Branch, tuple[Branch, ...], Limits]]
    todo = [(parent, above, capability_of(parent.queue))]
    while todo:
        parent, above, handed = todo.pop()
        siblings = children.get(parent.qid, [])
        guaranteed = guarantees(siblings)
        for queue in siblings:
            written = {**handed, **capability_of(queue)}
            real = real_capability(parent.real, guaranteed, queue, written)
            leaf = queue.qid not in children
            deserved = _deserved(queue, real)
            branch = Branch(queue, real, deserved, above, leaf)
            branches[branch.qid] = branch
            if not leaf:
                todo.append((branch, (branch, *above), written))


def _deserved(queue: Queue, real: Limits) -> Limits:
    """As specified, at most ``real``, at least the guarantee."""
    deserved = min_dimension(dict(queue.deserved), real, MissingScalar.INFINITY)
    return maximum(deserved, dict(queue.guarantee))


def parting(first: Branch, second: Branch) -> tuple[Branch, Branch]:
    """The two queues just below the lowest common ancestor. A queue that is an ancestor of the
    other stands for itself.
    """
    for a, b in zip(first.way, second.way, strict=False):
        if a is not b:
            return a, b
    return first, second


def kinship(first: Branch, second: Branch) -> int:
    """Number of common ancestors, counting one that is the other's ancestor: more means closer."""
    count = 0
    for a, b in zip(first.way, second.way, strict=False):
        if a is not b:
            break
        count += 1
    return count


def own_side(branch: Branch, relative: Branch) -> tuple[Branch, ...]:
    """The queue and its ancestors that are not above ``relative`` as well, nearest first."""
    way = (branch, *branch.above)
    return way[: len(way) - kinship(branch, relative)]


class CachedTree:
    """A tree that is rebuilt when the cluster's total or a queue's specification has changed."""

    __slots__ = ("_known", "_looked", "_tree")

    def __init__(self) -> None:
        self._known: object = None
        self._looked: tuple[ClusterInfo, int] | None = None
        self._tree = Tree()

    def of(self, cluster: ClusterInfo, grow: Callable[[ClusterInfo], Tree]) -> Tree:
        """The present tree; ``grow`` builds it. Not kept here: it is its plugin's, which has
        this."""
        looked = self._looked
        if looked is not None and looked[0] is cluster and looked[1] == cluster.revision:
            return self._tree
        queues = cluster.queues.values()
        inputs = (dict(cluster.total), [info.queue for info in queues])
        if inputs != self._known:
            self._tree = grow(cluster)
            self._known = inputs
        self._looked = (cluster, cluster.revision)
        return self._tree
