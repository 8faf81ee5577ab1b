"""A cache per role: nodes that refused one task are skipped for the role's other tasks.

Volcano keys its cache by job and role, whatever else differs between the tasks: a role whose tasks
ask for different amounts is judged by the first one that fails on a node.
``predicateErrorCacheEnable: false`` among an action's arguments switches it off, and tasks without
a role never use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.framework.rules import Mask
from shard_worker.placement.candidates import Feasible, feasible

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo


class ErrorCache:
    """Valid for one turn of a job, for one task, or for the whole action, as the action decides."""

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
        """As :func:`shard_worker.placement.candidates.feasible`, without rows that refused the
        role."""
        key = task.job.job.jid, task.role.name
        if not self._on or not task.role.name:
            return feasible(self._ssn, task, within=within, fit=fit, cure=cure)
        exists = self._ssn.world.view.exists()
        looked = exists if within is None else within & exists
        refusals = self._failed.get(key)
        # Volcano's rule, also where it is too coarse: whoever compares our decisions with its own
        # must see the same ones. It can be switched off as there.
        rows = looked if refusals is None else looked & ~refusals.mask
        candidates = feasible(self._ssn, task, within=rows, fit=fit, cure=cure)
        refused = rows & ~candidates.mask
        if refusals is None:
            if refused.any():
                self._failed[key] = Feasible(refused, dict(candidates.reasons))
            return candidates
        np.logical_or(refusals.mask, refused, out=refusals.mask)
        _count(refusals.reasons, candidates.reasons)
        return Feasible(candidates.mask, dict(refusals.reasons))


def _count(into: dict[str, int], more: dict[str, int]) -> None:
    for reason, rows in more.items():
        into[reason] = into.get(reason, 0) + rows
