"""Plain task classes in a session: the best node of all, kept up by the rows that changed.

A class is plain where all that it asks for of a node follows from the class and that one node. What
others ask for (their anti-affinity) is checked for the row that was found. Then the fast path's
judgement (:class:`~shard_worker.task_class.Compiled`) serves a session too, and a task costs the
row that the one before it took, not all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.gradient import pick
from shard_worker.task_class import Classes

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.tasks import TaskInfo
    from shard_worker.view import View
    from shared.messages import Level
    from shared.model import TaskClass

KEPT = 16
"""Classes kept at a time."""
SHARED = "plain classes"


class PlainClasses:
    """Of one session over one view."""

    def __init__(self, ssn: Session) -> None:
        world = ssn.world
        self.view: View = world.view
        self._ssn = ssn
        self._classes = Classes(
            view=world.view, session=ssn, mode=world.mode, seed=ssn.seed, limit=KEPT
        )
        self._plain: dict[int, bool] = {}

    def choose(self, task: TaskInfo) -> tuple[int, Level] | None:
        """The best row of all, as :func:`shard_worker.candidates.choose` has it; None where the
        class is not plain, no row takes it, or what others ask for or prefer speaks against it."""
        ssn = self._ssn
        if is_marked(ssn, task) or not self._is_plain(task):
            return None
        choice = pick(self._classes.get(task.cid))
        if choice is None or self._others_prefer(task):
            return None
        checks = (
            check
            for hook in ssn.hooks["LivePredicate"]
            if hook.symmetric
            for check in hook.scalar(task, ssn.world)
        )
        return choice if all(check.mask[choice[0]] for check in checks) else None

    def _others_prefer(self, task: TaskInfo) -> bool:
        """Do the wishes of others tell nodes apart for the task?"""
        hooks = [hook for hook in self._ssn.hooks["BatchNodeOrder"] if hook.symmetric]
        rows = np.arange(self.view.size)
        return any(hook.scalar(task, rows, self._ssn.world).any() for hook in hooks)

    def _is_plain(self, task: TaskInfo) -> bool:
        plain = self._plain.get(task.cid)
        if plain is None:
            known = self.view.classes.get(task.cid) == task.cls
            plain = self._plain[task.cid] = known and is_plain(self._ssn, task.cls)
        return plain


def is_marked(ssn: Session, task: TaskInfo) -> bool:
    """Has the task, or its job, an annotation that some rule looks at?"""
    if not ssn.reads:
        return False
    return any(
        key in ssn.reads
        for pairs in (task.role.annotations, task.job.job.annotations)
        for key, _ in pairs
    )


def is_plain(ssn: Session, cls: TaskClass) -> bool:
    """Does no rule look at more than the class and one node, for this class's own sake?"""
    hooks = ssn.hooks
    if hooks["NodeMap"] or hooks["BestNode"] or not ssn.scores_node_locally:
        return False
    return not any(
        hook.fn(cls) for point in ("LivePredicate", "BatchNodeOrder") for hook in hooks[point]
    )


def plain_classes(ssn: Session) -> PlainClasses:
    """The session's own, made anew for another view."""
    found = ssn.shared.get(SHARED)
    if not isinstance(found, PlainClasses) or found.view is not ssn.world.view:
        found = ssn.shared[SHARED] = PlainClasses(ssn)
    return found
