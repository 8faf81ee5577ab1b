"""The scorer by preferred node affinity: the sum of the weights of the terms that a node meets.

Volcano adds the plain sum, times the scorer's weight; it does not scale it to 100 as
kube-scheduler does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Coded, NodeColumns, Rows, Scores
from shard_worker.kube_scheduler.filters.node_checks import requirements_mask
from shared.model.constraints import Requirement
from shared.model.model import TaskClass

HOSTNAME = "kubernetes.io/hostname"
REMEMBERED = 256
"""Classes whose scores are kept; each costs 8 bytes a node."""

Wishes = tuple[tuple[int, tuple[Requirement, ...]], ...]


class PreferredNodes:
    node_local = True

    def __init__(self, *, weight: int) -> None:
        self._weight = weight
        self._known: dict[Wishes, tuple[list[Coded[str]], list[int], Scores]] = {}
        """Wishes -> the label columns that they look at, their revisions, the score of each row."""

    def by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Do nodes that look alike score alike? Not where names count."""
        del view
        return not any(
            requirement.field or requirement.key == HOSTNAME
            for _, requirements in _wishes(cls)
            for requirement in requirements
        )

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        wishes = _wishes(cls)
        if not wishes:
            return np.zeros(length(rows, view.size))
        return self._scores(wishes, view)[rows]

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        wishes = _wishes(cls)
        return float(self._scores(wishes, view).item(row)) if wishes else 0.0

    def _scores(self, wishes: Wishes, view: NodeColumns) -> Scores:
        """Of every row."""
        columns = [view.label(r.key) for _, term in wishes for r in term] or [view.label(HOSTNAME)]
        revisions = [column.revision for column in columns]
        entry = self._known.get(wishes)
        if (
            entry is not None
            and entry[1] == revisions
            and all(a is b for a, b in zip(entry[0], columns, strict=True))
        ):
            return entry[2]
        total = np.zeros(view.size)
        for weight, term in wishes:
            if term:
                total += requirements_mask(term, view) * float(weight * self._weight)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[wishes] = (columns, revisions, total)
        return total


def _wishes(cls: TaskClass) -> Wishes:
    return () if cls.constraints is None else cls.constraints.preferred_nodes


def length(rows: Rows, size: int) -> int:
    return len(range(*rows.indices(size))) if isinstance(rows, slice) else len(rows)
