"""Why a task is on its node: the nodes it could run on now, with their scores from each plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.inquiry.findings import NodeCandidate, PlacementScores
from shard_worker.placement.candidates import feasible, levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo

TOP = 5
"""Nodes reported besides the one that the task is on."""
SCORED = 4096
"""Maximum number of nodes of a level that are scored, lowest rows first; bounds an inquiry's
cost."""


def why_here(ssn: Session, task: TaskInfo, row: int) -> PlacementScores:
    """Score the nodes that the task could run on. ``row``: the node it is on; -1 asks for the node
    it would get. In the session's world the task is not placed."""
    mask = feasible(ssn, task).mask
    if ssn.pre_predicate(task) is not None:
        mask = np.zeros_like(mask)
    by_level = levels(ssn, task, mask)
    best: list[NodeCandidate] = []
    plugins: list[str] = []
    for level, rows in by_level:
        if len(rows) and len(best) < TOP:
            plugins, some = _scored(ssn, task, _some(rows, row), int(level))
            best += some[: TOP - len(best)]
            if row < 0:
                row = best[0].row
            elif row in rows and all(candidate.row != row for candidate in best):
                best += [candidate for candidate in some if candidate.row == row]
    if row >= 0 and all(candidate.row != row for candidate in best):
        at = next((int(level) for level, rows in by_level if row in rows), 0)
        plugins, alone = _scored(ssn, task, np.array([row], np.intp), at)
        best += alone
    return PlacementScores(task.tix, row, plugins, [len(rows) for _, rows in by_level], best)


def _some(rows: NDArray[np.intp], row: int) -> NDArray[np.intp]:
    if len(rows) <= SCORED:
        return rows
    some = rows[:SCORED]
    return some if row not in rows or row in some else np.append(some, np.intp(row))


def _scored(
    ssn: Session, task: TaskInfo, rows: NDArray[np.intp], level: int
) -> tuple[list[str], list[NodeCandidate]]:
    """(plugins, candidates): the best first; ties by the lower row."""
    parts = ssn.score_parts(task, rows)
    total = sum(parts.values(), np.zeros(len(rows)))
    order = np.argsort(-total, kind="stable")
    return list(parts), [
        NodeCandidate(int(rows[i]), level, [float(part[i]) for part in parts.values()])
        for i in order
    ]
