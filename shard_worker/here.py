"""Why a task is where it is: the nodes it could be on now, with what each plugin gives for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.candidates import feasible, levels
from shard_worker.findings import Candidate, Here

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard_worker.session import Session
    from shard_worker.tasks import TaskInfo

TOP = 5
"""Nodes told beside the one where the task is."""
SCORED = 4096
"""Nodes of a level that are scored at most, those of the lowest rows: what a question may cost."""


def why_here(ssn: Session, task: TaskInfo, row: int) -> Here:
    """``row``: where the task is, -1 for where it would be put. The world has it nowhere."""
    mask = feasible(ssn, task).mask
    if ssn.pre_predicate(task) is not None:
        mask = np.zeros_like(mask)
    found = levels(ssn, task, mask)
    best: list[Candidate] = []
    plugins: list[str] = []
    for level, rows in found:
        if len(rows) and len(best) < TOP:
            plugins, some = _scored(ssn, task, _some(rows, row), int(level))
            best += some[: TOP - len(best)]
            if row < 0:
                row = best[0].row
            elif row in rows and all(one.row != row for one in best):
                best += [one for one in some if one.row == row]
    if row >= 0 and all(one.row != row for one in best):
        at = next((int(level) for level, rows in found if row in rows), 0)
        plugins, alone = _scored(ssn, task, np.array([row], np.intp), at)
        best += alone
    return Here(task.tix, row, plugins, [len(rows) for _, rows in found], best)


def _some(rows: NDArray[np.intp], row: int) -> NDArray[np.intp]:
    if len(rows) <= SCORED:
        return rows
    some = rows[:SCORED]
    return some if row not in rows or row in some else np.append(some, np.intp(row))


def _scored(
    ssn: Session, task: TaskInfo, rows: NDArray[np.intp], level: int
) -> tuple[list[str], list[Candidate]]:
    """(plugins, candidates), best first; of equals the first row."""
    parts = ssn.score_parts(task, rows)
    total = sum(parts.values(), np.zeros(len(rows)))
    order = np.argsort(-total, kind="stable")
    return list(parts), [
        Candidate(int(rows[i]), level, [float(part[i]) for part in parts.values()]) for i in order
    ]
