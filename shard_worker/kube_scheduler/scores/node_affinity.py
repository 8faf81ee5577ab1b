"""The score for preferred node affinity: the sum of the weights of the terms that a node matches.

Volcano adds this sum times the scorer's weight; kube-scheduler would scale it to 100 first.
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
"""Maximum number of classes whose scores are cached, at 8 bytes per node each."""

Wishes = tuple[tuple[int, tuple[Requirement, ...]], ...]


class PreferredNodes:
    node_local = True

    def __init__(self, *, weight: int) -> None:
        self._weight = weight
        self._known: dict[Wishes, tuple[list[Coded[str]], list[int], Scores]] = {}
        """Preferences -> the label columns they read, their revisions, the score per row."""

    def by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Whether nodes that look alike score alike: not if preferences name nodes."""
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
        """The score of every row."""
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
