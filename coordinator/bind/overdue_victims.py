"""Victims that the cluster has on their nodes yet although they were to leave, by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from coordinator.cluster.overdue import OverdueObstacle, OverduePod

_Sign = tuple[tuple[int, int], OverdueObstacle]


class OverdueVictims:
    def __init__(self) -> None:
        self._on: dict[int, list[OverduePod]] = {}
        """Row of a node -> its pods."""
        self._reported: set[_Sign] = set()

    def update(self, pods: Iterable[OverduePod], rows: Mapping[str, int]) -> list[OverduePod]:
        """Take all that are overdue now; returns those to report: new ones, and those that
        something else keeps than before. ``rows``: node name -> row."""
        self._on, signs, fresh = {}, set[_Sign](), list[OverduePod]()
        for pod in pods:
            self._on.setdefault(rows.get(pod.node, -1), []).append(pod)
            sign = pod.task, pod.obstacle
            signs.add(sign)
            if sign not in self._reported:
                fresh.append(pod)
        self._reported = signs
        return fresh

    def on(self, rows: Iterable[int]) -> list[OverduePod]:
        """Overdue pods on these nodes."""
        return [pod for row in rows for pod in self._on.get(row, ())]

    def rows(self) -> Iterable[int]:
        """The nodes that they are on."""
        return self._on.keys()

    def counts(self) -> Counter[OverdueObstacle]:
        return Counter(pod.obstacle for pods in self._on.values() for pod in pods)
