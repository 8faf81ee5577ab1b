"""Sort keys of jobs and queues from the rules that order them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from shard_worker.framework.extension_points import Compare, Rank
from shard_worker.framework.registered import Registered, there
from shard_worker.session_model.workload import ClusterInfo

T = TypeVar("T")
Key = tuple[Any, ...]
"""A sort key; the smaller key goes first."""
Ranking = Registered[Callable[[T, ClusterInfo], Rank] | None, Compare[T] | None]


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
