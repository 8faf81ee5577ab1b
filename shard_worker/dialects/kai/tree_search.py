"""Places what a tree of Kubernetes' own groups asks for, by a bounded search.

KAI tries the sub groups one after the other, and once one has its place the next ones go where
room is left; kube-scheduler does the same by the time of creation. Then a group that may run
anywhere spreads over both racks, and its sibling, which needs one of them whole, finds none. Here
the groups with the narrowest domains are placed first, and where a later one finds no place, those
before it try their other domains; where the minimum of a set of groups can be met by others, those
are tried too. All of it is one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


MORE_TRIES = 1_000
"""Pods that are tried in one turn beyond one try of each, at up to 1 ms a pod."""


@dataclass(slots=True)
class _Part:
    """A group that is to be placed on these rows."""

    group: Member
    tasks: list[TaskInfo]
    within: Mask


@dataclass(frozen=True, slots=True)
class _Rest:
    """A list of parts that are still to be placed, in this order. Choices share its end, so that
    going back costs nothing."""

    part: _Part
    after: _Rest | None


@dataclass(slots=True)
class _Choice:
    part: _Part
    after: _Rest | None
    sets: Iterator[Mask]
    """The sets of nodes that were not tried yet."""
    checkpoint: int
    """Length of the statement before the choice: going back undoes the rest."""
    follows: _Rest | None = None
    """The parts to place once a set of nodes was taken."""


class TreeSearch:
    def __init__(self, ssn: KaiSession, placing: Placing, job: KaiJob) -> None:
        self._ssn = ssn
        self._placing = placing
        self._job = job
        self._failures = 0
        self._tries = MORE_TRIES + sum(len(each.tasks) for each in job.root.pod_sets())
        """Pods that may still be tried."""

    def selections(self) -> Iterator[list[TaskInfo]]:
        """What the tree may ask for next, each all or none; what KAI asks for comes first."""
        return islice(self._of(self._job.root), MOST_SELECTIONS)

    def place(self, tasks: Sequence[TaskInfo], within: Mask) -> bool:
        """Place these tasks, all of them or none."""
        return self._place([_Part(self._job.root, list(tasks), within)])

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
            self._place([_Part(member, tasks, self._ssn.rows())])
            for tasks in islice(self._of(member), MOST_SELECTIONS)
        )
        statement.rollback(checkpoint)
        return fits

    # --- where ------------------------------------------------------------------------------------

    def _place(self, parts: Iterable[_Part]) -> bool:
        """Place all parts, or none, depth first: a group that has chosen its nodes is placed in
        them before the next one chooses. Where a group finds no place, the one that chose last
        tries its next set of nodes."""
        statement, base = self._placing.statement, self._placing.statement.checkpoint
        rest, choices = self._before(parts, None), list[_Choice]()
        while rest is not None:
            part = rest.part
            sets = self._ssn.node_sets(self._job, part.group, part.tasks, part.within)
            choices.append(_Choice(part, rest.after, iter(sets), statement.checkpoint))
            if not self._choose(choices):
                statement.rollback(base)
                return False
            rest = choices[-1].follows
        return True

    def _choose(self, choices: list[_Choice]) -> bool:
        """Take the next set of nodes that serves, of the last choice that has one; later choices
        are gone then."""
        statement = self._placing.statement
        while choices and self._tries > 0 and self._failures < MOST_FAILURES:
            last = choices[-1]
            statement.rollback(last.checkpoint)
            nodes = next(last.sets, None)
            if nodes is None:
                choices.pop()
                continue
            group, tasks = last.part.group, last.part.tasks
            if isinstance(group, SubGroupSet):
                last.follows = self._before(_below(group, tasks, nodes), last.after)
                return True
            self._tries -= len(tasks)
            if self._placing.put_all(tasks, nodes):
                last.follows = last.after
                return True
            self._failures += 1
        return False

    def _before(self, parts: Iterable[_Part], after: _Rest | None) -> _Rest | None:
        """The parts, the narrowest first, and then the others. A group that chooses nothing stands
        for those below it."""
        chosen, open_parts = list[tuple[float, int, _Part]](), list(parts)
        while open_parts:
            part = open_parts.pop()
            if isinstance(part.group, SubGroupSet) and self._chooses_nothing(part.group):
                open_parts += _below(part.group, part.tasks, part.within)
            else:
                chosen.append((self._width(part.group, part.within), len(chosen), part))
        for _, _, part in sorted(chosen, key=lambda one: (-one[0], one[1])):
            after = _Rest(part, after)
        return after

    def _chooses_nothing(self, group: Member) -> bool:
        return group is not self._job.root and constraint_of(self._job, group) is None

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
            width = min([width, *(self._width(member, within) for member in group.members)])
        return width


def _below(group: SubGroupSet[TaskInfo], tasks: Sequence[TaskInfo], nodes: Mask) -> list[_Part]:
    member_of = {
        id(task): at
        for at, member in enumerate(group.members)
        for pod_set in member.pod_sets()
        for task in pod_set.tasks
    }
    parts = [_Part(member, list[TaskInfo](), nodes) for member in group.members]
    for task in tasks:
        parts[member_of[id(task)]].tasks.append(task)
    return [part for part in parts if part.tasks]
