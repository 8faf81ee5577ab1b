"""The score for soft taints: the more PreferNoSchedule taints a class does not tolerate, the lower.

kube-scheduler scales the counts to 100 by the largest count among the candidate nodes. Here the
largest count of all taint sets that the view has met is used: so a score depends only on the class
and the node's own specification, and the order of nodes is the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Coded, NodeColumns, Rows
from shard_worker.kube_scheduler.filters.node_checks import tolerated
from shared.model.constraints import Taint
from shared.model.model import TaskClass

FULL = 100
SOFT = "PreferNoSchedule"
REMEMBERED = 1024
"""Maximum number of classes whose scores are cached; they are cheap to recompute."""


class SoftTaints:
    node_local = True

    def __init__(self, *, weight: int) -> None:
        self._weight = weight
        self._known: dict[TaskClass, tuple[Coded[tuple[Taint, ...]], int, NDArray[np.float64]]] = {}
        """Class -> taint column, number of its values, score per code."""

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        column = view.taints()
        return self._scores(cls, column)[column.codes[rows]]

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        column = view.taints()
        return float(self._scores(cls, column).item(column.codes.item(row)))

    def _scores(self, cls: TaskClass, column: Coded[tuple[Taint, ...]]) -> NDArray[np.float64]:
        """The score per code; the last element is for rows without a node (code -1)."""
        entry = self._known.get(cls)
        if entry is not None and entry[0] is column and entry[1] == len(column.values):
            return entry[2]
        counts = [_unborne(taints, cls) for taints in column.values]
        most = max([*counts, 1])
        scores = [float((FULL - FULL * count // most) * self._weight) for count in (*counts, 0)]
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[cls] = (column, len(counts), np.array(scores))
        return self._known[cls][2]


def _unborne(taints: tuple[Taint, ...], cls: TaskClass) -> int:
    return sum(t.effect == SOFT and not tolerated(t, cls.tolerations) for t in taints)
