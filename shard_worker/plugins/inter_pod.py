"""Required affinity and anti-affinity between pods.

Three checks, as Kubernetes has them. Affinity: the node's domain has a pod that all required terms
of the task mean together, for each term's key; the first pod of a group that means itself goes
anywhere its keys exist. Anti-affinity: the domain has none that a term means. Anti-affinity of
others: none in the domain has a term that means the task. Evictions can cure the last two.
"""

from __future__ import annotations

import numpy as np

from shard_worker.plugins.neighbours import (
    Neighbours,
    Question,
    by_domain,
    has_label,
    means,
    on_rows,
    spaces_of,
)
from shard_worker.rules import Check, Mask
from shard_worker.tasks import TaskInfo
from shard_worker.world import World
from shared.model import PodTerm, TaskClass

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"


def required(cls: TaskClass) -> list[PodTerm]:
    """The terms that are conditions."""
    if cls.constraints is None:
        return []
    return [term for term in cls.constraints.pod_terms if not term.weight]


class InterPod:
    """``checks`` is asked of every task: what others ask for concerns those that ask nothing."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def checks(self, task: TaskInfo, world: World) -> list[Check]:
        terms = required(task.cls)
        found = []
        if near := [term for term in terms if not term.anti]:
            found.append(Check(AFFINITY, self._near(task, near, world), curable=False))
        if far := [term for term in terms if term.anti]:
            found.append(Check(ANTI, self._far(task, far, world)))
        others = self._others(task, world)
        if others is not None:
            found.append(Check(OTHERS, others))
        return found

    def _near(self, task: TaskInfo, terms: list[PodTerm], world: World) -> Mask:
        space = task.job.job.namespace
        asked = tuple((spaces_of(term, space), term.selector) for term in terms)
        counts = self._neighbours.count(Question(asked))
        columns = [world.view.label(term.topology_key) for term in terms]
        passes = has_label(columns, world.size)
        sums = [by_domain(column, counts) for column in columns]
        if not any(per_code.any() for per_code in sums):
            labels = dict(task.role.labels)
            first = all(means(*one, space, labels) for one in asked)
            return passes if first else np.zeros(world.size, np.bool_)
        for column, per_code in zip(columns, sums, strict=True):
            passes &= on_rows(column, per_code) > 0
        return passes

    def _far(self, task: TaskInfo, terms: list[PodTerm], world: World) -> Mask:
        passes: Mask = np.ones(world.size, np.bool_)
        for term in terms:
            spaces = spaces_of(term, task.job.job.namespace)
            counts = self._neighbours.count(Question(((spaces, term.selector),)))
            column = world.view.label(term.topology_key)
            passes &= on_rows(column, by_domain(column, counts)) == 0
        return passes

    def _others(self, task: TaskInfo, world: World) -> Mask | None:
        """None where nobody has such a term."""
        against = [
            (held, counts)
            for held, counts in self._neighbours.holders(task)
            if held.anti and not held.weight
        ]
        if not against:
            return None
        passes: Mask = np.ones(world.size, np.bool_)
        for held, counts in against:
            column = world.view.label(held.topology_key)
            passes &= on_rows(column, by_domain(column, counts)) == 0
        return passes
