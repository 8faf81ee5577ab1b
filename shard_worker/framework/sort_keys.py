"""Sort keys of jobs and queues from the rules that order them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from shard_worker.framework.extension_points import Compare, Rank
from shard_worker.framework.registered import Registered, there
from shard_worker.session_model.workload import ClusterInfo, QueueInfo

T = TypeVar("T")
Key = tuple[Any, ...]
"""A sort key; the smaller key goes first."""
QueuePath = tuple[tuple[Hashable, Any], ...]
"""(branch, its rank among its siblings) of each branch of a tree in which a queue stands, from the
top down. Two queues compare by the ranks of the branches at which their paths part; a branch may
be in several paths, with one rank."""
Ranking = Registered[Callable[[T, ClusterInfo], Rank] | None, Compare[T] | None]


class QueuePlace(NamedTuple):
    """A queue's place in QueueOrder: by the path first, then by the key."""

    path: QueuePath
    key: Key


class _Compared:
    """A sort key for a rule that can only compare."""

    __slots__ = ("_cluster", "_compare", "_of")

    def __init__(self, compare: Callable[[Any, Any, Any], float], of: Any, cluster: Any) -> None:
        self._compare = compare
        self._of = of
        self._cluster = cluster

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compared) and not self._compare(
            self._of, other._of, self._cluster
        )

    def __lt__(self, other: _Compared) -> bool:
        return self._compare(self._of, other._of, self._cluster) < 0

    __hash__ = None  # type: ignore[assignment]


def sort_key(rules: Sequence[Ranking[T]], of: T, cluster: ClusterInfo) -> Key:
    """The key of something by all rules, the first rule first."""
    return tuple(
        [
            _Compared(there(rule.scalar), of, cluster) if rule.fn is None else rule.fn(of, cluster)
            for rule in rules
        ]
    )


def queue_place(
    rules: Sequence[Ranking[QueueInfo]],
    paths: Mapping[str, Callable[[QueueInfo, ClusterInfo], QueuePath] | None],
    queue: QueueInfo,
    cluster: ClusterInfo,
) -> QueuePlace:
    """A queue's place by all rules. ``paths``: plugin -> the form of its comparison as a path."""
    for at, rule in enumerate(rules):
        if rule.fn is None and (path := paths.get(rule.plugin)) is not None:
            # A rule before it parts the queues as well, and one after it only where it is level.
            keys = enumerate(sort_key(rules[:at], queue, cluster))
            before = tuple((("rule", number, key), key) for number, key in keys)
            return QueuePlace(
                (*before, *path(queue, cluster)), sort_key(rules[at + 1 :], queue, cluster)
            )
    return QueuePlace((), sort_key(rules, queue, cluster))
