"""What one task of a role found out counts for the others of it: nodes that refused are not asked
again.

Volcano keys its cache by job and role, whatever else tells the tasks apart: a role whose tasks ask
for different amounts is judged by the first one that fails on a node. ``predicateErrorCacheEnable:
false`` among an action's arguments switches it off, and tasks without a role never use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.candidates import Feasible, feasible
from shard_worker.rules import Mask

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.tasks import TaskInfo


class ErrorCache:
    """Lives as long as the action says: for one turn of a job, for one task, or throughout."""

    def __init__(self, ssn: Session, action: str) -> None:
        self._ssn = ssn
        arguments = ssn.policy.configurations.get(action, {})
        self._on = arguments.get("predicateErrorCacheEnable", True) is not False
        self._failed: dict[tuple[int, str], Feasible] = {}
        """Job and role -> rows that refused, and why."""

    def feasible(
        self,
        task: TaskInfo,
        *,
        within: Mask | None = None,
        fit: bool = True,
        cure: bool = False,
    ) -> Feasible:
        """As :func:`shard_worker.candidates.feasible`, without rows that refused the role."""
        key = task.job.job.jid, task.role.name
        if not self._on or not task.role.name:
            return feasible(self._ssn, task, within=within, fit=fit, cure=cure)
        exists = self._ssn.world.view.exists()
        looked = exists if within is None else within & exists
        known = self._failed.get(key)
        asked = looked if known is None else looked & ~known.mask
        found = feasible(self._ssn, task, within=asked, fit=fit, cure=cure)
        refused = asked & ~found.mask
        if known is None:
            if refused.any():
                self._failed[key] = Feasible(refused, dict(found.reasons))
            return found
        np.logical_or(known.mask, refused, out=known.mask)
        _count(known.reasons, found.reasons)
        return Feasible(found.mask, dict(known.reasons))


def _count(into: dict[str, int], more: dict[str, int]) -> None:
    for reason, rows in more.items():
        into[reason] = into.get(reason, 0) + rows
