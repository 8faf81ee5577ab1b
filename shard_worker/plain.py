"""Plain task classes in a session: the best node of all, kept up by the rows that changed.

A class is plain where all that the policy says of it and a node follows from the class and that one
node. Then the fast path's judgement (:class:`~shard_worker.task_class.Compiled`) serves a session
too, and a task costs the row that the one before it took, not all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.task_class import Classes, Compiled

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.tasks import TaskInfo
    from shard_worker.view import View
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

    def get(self, task: TaskInfo) -> Compiled | None:
        """The task's class, up to date with the view; None where it is not plain."""
        if is_marked(self._ssn, task):
            return None
        plain = self._plain.get(task.cid)
        if plain is None:
            known = self.view.classes.get(task.cid) == task.cls
            plain = self._plain[task.cid] = known and is_plain(self._ssn, task.cls)
        return self._classes.get(task.cid) if plain else None


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
    """Does no rule look at more than the class and one node?"""
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
