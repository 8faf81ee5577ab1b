"""Plain task classes in a session: the best node, maintained by the rows that changed.

A class is plain if a node's suitability depends on the class and that one node alone. The
anti-affinity of other pods is checked for the chosen row only. Then the evaluation of turns without
a session (:class:`~shard_worker.placement.task_class.Compiled`) serves a session too, and a task
costs only the row that the previous one changed, not all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import (
    BATCH_NODE_ORDER,
    BEST_NODE,
    LIVE_PREDICATE,
    NODE_MAP,
)
from shard_worker.placement.gradient import pick
from shard_worker.placement.task_class import Compiled, CompiledClasses

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.view.view import View
    from shared.messages.messages import Level
    from shared.model.model import TaskClass

KEPT = 16
"""Plain classes kept at a time."""
SHARED = "plain classes"


class PlainClasses:
    """The plain classes of one session over one view."""

    def __init__(self, ssn: Session) -> None:
        world = ssn.world
        self.view: View = world.view
        self._ssn = ssn
        self._classes = CompiledClasses(
            view=world.view, session=ssn, mode=world.mode, seed=ssn.seed, limit=KEPT
        )
        self._plain: dict[int, bool] = {}

    def choose(
        self, task: TaskInfo, rows: NDArray[np.intp] | None = None
    ) -> tuple[int, Level] | None:
        """The best row of all, or of ``rows`` (ascending, at least one), as
        :func:`shard_worker.placement.candidates.choose` gives it; None if the class is not plain,
        no row takes it, or other pods' terms speak against it."""
        ssn, compiled = self._ssn, self.compiled(task)
        choice = None if compiled is None else pick(compiled, rows)
        if choice is None or self._others_prefer(task):
            return None
        checks = (
            check
            for hook in ssn.rules(LIVE_PREDICATE)
            if hook.symmetric
            for check in hook.scalar(task, ssn.world)
        )
        return choice if all(check.mask[choice[0]] for check in checks) else None

    def compiled(self, task: TaskInfo) -> Compiled | None:
        """The task's class, up to date; None if it is not plain."""
        # A class says what a task asks for; an annotation may make two tasks of one class differ
        # for a rule.
        if is_marked(self._ssn, task) or not self._is_plain(task):
            return None
        return self._classes.get(task.cid)

    def _others_prefer(self, task: TaskInfo) -> bool:
        """Whether preferences of other pods rank nodes differently for the task."""
        hooks = [hook for hook in self._ssn.rules(BATCH_NODE_ORDER) if hook.symmetric]
        rows = np.arange(self.view.size)
        return any(hook.scalar(task, rows, self._ssn.world).any() for hook in hooks)

    def _is_plain(self, task: TaskInfo) -> bool:
        plain = self._plain.get(task.cid)
        if plain is None:
            # A session's task may be of a class that the view knows under another number, or not at
            # all.
            is_current = self.view.classes.get(task.cid) == task.cls
            plain = self._plain[task.cid] = is_current and is_plain(self._ssn, task.cls)
        return plain


def is_marked(ssn: Session, task: TaskInfo) -> bool:
    """Whether the task, or its job, has an annotation that some rule reads."""
    if not ssn.reads:
        return False
    return any(
        key in ssn.reads
        for pairs in (task.role.annotations, task.job.job.annotations)
        for key, _ in pairs
    )


def is_plain(ssn: Session, cls: TaskClass) -> bool:
    """Whether every rule depends on the class and one node alone, as far as this class is
    concerned."""
    if ssn.has(NODE_MAP) or ssn.has(BEST_NODE) or not ssn.scores_node_locally:
        return False
    concerning: list[Callable[[TaskClass], bool]] = [
        *(rule.fn for rule in ssn.rules(LIVE_PREDICATE)),
        *(rule.fn for rule in ssn.rules(BATCH_NODE_ORDER)),
    ]
    return not any(concerns(cls) for concerns in concerning)


def forget_plain_classes(ssn: Session) -> None:
    """Compile them anew: a rule raised while rows of one were evaluated."""
    ssn.shared.pop(SHARED, None)


def plain_classes(ssn: Session) -> PlainClasses:
    """The session's plain classes, created anew for another view."""
    classes = ssn.shared.get(SHARED)
    if not isinstance(classes, PlainClasses) or classes.view is not ssn.world.view:
        classes = ssn.shared[SHARED] = PlainClasses(ssn)
    return classes
