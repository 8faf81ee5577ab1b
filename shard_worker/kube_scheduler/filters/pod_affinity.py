"""Required affinity and anti-affinity between pods.

Three checks, as Kubernetes has them. Affinity: for each term's key, the node's domain has a pod
that all required terms of the task select together; the first pod of a group that selects itself
goes anywhere its keys exist. Anti-affinity: the domain has no pod that a term selects.
Anti-affinity of others: no pod in the domain has a term that selects the task. Evictions can cure
the last two.
"""

from __future__ import annotations

import numpy as np

from shard_worker.framework.rules import Check, Mask
from shard_worker.kube_scheduler.filters.pod_index import (
    Neighbours,
    PodQuestion,
    by_domain,
    has_label,
    label_term,
    on_rows,
)
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.constraints import PodTerm
from shared.model.model import TaskClass

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"


def required(cls: TaskClass) -> list[PodTerm]:
    """The required terms."""
    if cls.constraints is None:
        return []
    return [term for term in cls.constraints.pod_terms if not term.weight]


class InterPod:
    """The filter. It checks every task: anti-affinity of other pods concerns tasks without terms
    too."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def checks(self, task: TaskInfo, world: World) -> list[Check]:
        terms = required(task.cls)
        checks = []
        if near := [term for term in terms if not term.anti]:
            # Not curable: evicting takes neighbours away and never brings the one that is missing.
            checks.append(Check(AFFINITY, self._near(task, near, world), curable=False))
        if far := [term for term in terms if term.anti]:
            checks.append(Check(ANTI, self._far(task, far, world)))
        others = self._others(task, world)
        if others is not None:
            checks.append(Check(OTHERS, others))
        return checks

    def _near(self, task: TaskInfo, terms: list[PodTerm], world: World) -> Mask:
        space = task.job.job.namespace
        pod_terms = tuple(label_term(term, space) for term in terms)
        counts = self._neighbours.count(PodQuestion(pod_terms))
        columns = [world.view.label(term.topology_key) for term in terms]
        passes = has_label(columns, world.size)
        sums = [by_domain(column, counts) for column in columns]
        # kube-scheduler's exception: the first pod of a group would wait for a neighbour for ever.
        if not any(per_code.any() for per_code in sums):
            labels = dict(task.role.labels)
            first = all(pod_term.selects(space, labels) for pod_term in pod_terms)
            return passes if first else np.zeros(world.size, np.bool_)
        for column, per_code in zip(columns, sums, strict=True):
            passes &= on_rows(column, per_code) > 0
        return passes

    def _far(self, task: TaskInfo, terms: list[PodTerm], world: World) -> Mask:
        passes: Mask = np.ones(world.size, np.bool_)
        for term in terms:
            pod_term = label_term(term, task.job.job.namespace)
            counts = self._neighbours.count(PodQuestion((pod_term,)))
            column = world.view.label(term.topology_key)
            passes &= on_rows(column, by_domain(column, counts)) == 0
        return passes

    def _others(self, task: TaskInfo, world: World) -> Mask | None:
        """Rows without a pod whose anti-affinity selects the task; None if no such term exists."""
        against = [
            (term, counts)
            for term, counts in self._neighbours.holders(task)
            if term.anti and not term.weight
        ]
        if not against:
            return None
        passes: Mask = np.ones(world.size, np.bool_)
        for term, counts in against:
            column = world.view.label(term.topology_key)
            passes &= on_rows(column, by_domain(column, counts)) == 0
        return passes
