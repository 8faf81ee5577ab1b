"""Places what a tree of Kubernetes' own groups asks for, by a bounded search.

KAI tries the sub groups one after the other, and once one has its place the next ones go where
room is left; kube-scheduler does the same by the time of creation. Then a group that may run
anywhere spreads over both racks, and its sibling, which needs one of them whole, finds none. Here
the groups with the narrowest domains are placed first, and where a later one finds no place, those
before it try their other domains; where the minimum of a set of groups can be met by others, those
are tried too. All of it is one statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from shard_worker.dialects.kai.model import KaiJob, Member, constraint_of
from shard_worker.dialects.kai.placing import Placing
from shard_worker.dialects.kai.rules.groups import PodSet, SubGroupSet, tasks_of
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask
from shard_worker.session_model.job import TaskInfo

MOST_FAILURES = 200
"""Sets of nodes that may fail in one turn: a group's try takes some 0.2 ms for ten pods."""
MOST_SELECTIONS = 30
"""Selections of groups that are tried in one turn."""


@dataclass(slots=True)
class _Part:
    """A group that is to be placed on these rows."""

    group: Member
    tasks: Sequence[TaskInfo]
    within: Mask


class TreeSearch:
    def __init__(self, ssn: KaiSession, placing: Placing, job: KaiJob) -> None:
        self._ssn = ssn
        self._placing = placing
        self._job = job
        self._failures = 0

    def selections(self) -> Iterator[list[TaskInfo]]:
        """What the tree may ask for next, each all or none; what KAI asks for comes first."""
        return islice(self._of(self._job.root), MOST_SELECTIONS)

    def place(self, tasks: Sequence[TaskInfo], within: Mask) -> bool:
        """Place these tasks, all of them or none."""
        return self._go_on([_Part(self._job.root, tasks, within)])

    # --- which groups -----------------------------------------------------------------------------

    def _of(self, group: Member) -> Iterator[list[TaskInfo]]:
        if isinstance(group, PodSet):
            if tasks := tasks_of(group):
                yield tasks
            return
        missing = group.least - group.satisfied_members
        if missing <= 0:
            for member in group.ordered():
                yield from self._of(member)
            return
        able = [m for m in group.ordered() if not m.satisfied and next(self._of(m), None)]
        yield from self._of_each(able[:missing], missing)
        if len(able) > missing:
            # What has no place even alone is left out before all others are combined.
            able = [member for member in able if self._fits_alone(member)]
            for members in combinations(able, missing):
                yield from self._of_each(members, missing)

    def _of_each(self, members: Sequence[Member], missing: int) -> Iterator[list[TaskInfo]]:
        if len(members) < missing:
            return
        parts = (list(islice(self._of(member), MOST_SELECTIONS)) for member in members)
        for chosen in product(*parts):
            yield [task for tasks in chosen for task in tasks]

    def _fits_alone(self, member: Member) -> bool:
        statement = self._placing.statement
        checkpoint = statement.checkpoint
        fits = any(
            self._go_on([_Part(member, tasks, self._ssn.rows())])
            for tasks in islice(self._of(member), MOST_SELECTIONS)
        )
        statement.rollback(checkpoint)
        return fits

    # --- where ------------------------------------------------------------------------------------

    def _go_on(self, parts: Sequence[_Part]) -> bool:
        """Place all parts, the narrowest first; where that fails, try its other sets of nodes."""
        if not parts:
            return True
        first = min(parts, key=lambda part: self._width(part.group, part.within))
        others = [part for part in parts if part is not first]
        statement = self._placing.statement
        for nodes in self._ssn.node_sets(self._job, first.group, first.tasks, first.within):
            checkpoint = statement.checkpoint
            if isinstance(first.group, SubGroupSet):
                done = self._go_on([*others, *_below(first.group, first.tasks, nodes)])
            else:
                done = self._placing.put_all(first.tasks, nodes) and self._go_on(others)
            if done:
                return True
            statement.rollback(checkpoint)
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                return False
        return False

    def _width(self, group: Member, within: Mask) -> float:
        """The rows of the narrowest domain that the group, or one below it, needs; on average."""
        rows = int(within.sum())
        constraint = constraint_of(self._job, group)
        width = float(rows)
        if constraint is not None:
            world = self._ssn.world
            codes = world.view.label(constraint.required).codes[: world.size][within]
            width = rows / max(len(np.unique(codes[codes >= 0])), 1)
        if isinstance(group, SubGroupSet):
            if constraint is None:
                return -1.0  # it chooses nothing: its members are what is to be placed
            width = min([width, *(self._width(member, within) for member in group.members)])
        return width


def _below(group: SubGroupSet[TaskInfo], tasks: Sequence[TaskInfo], nodes: Mask) -> list[_Part]:
    parts = []
    for member in group.members:
        own = {id(task) for pod_set in member.pod_sets() for task in pod_set.tasks}
        if its_tasks := [task for task in tasks if id(task) in own]:
            parts.append(_Part(member, its_tasks, nodes))
    return parts
