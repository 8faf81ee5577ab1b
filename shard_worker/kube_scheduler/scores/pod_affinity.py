"""The score for preferred affinity between pods.

A node's raw score sums, over the keys of all terms, weights of pods in its domain: of the task's
own preferences for those pods (anti-affinity subtracts), and of those pods' preferences for the
task. The candidates' raw scores are scaled linearly, the lowest to 0 and the highest to 100.
Required affinity of other pods does not count: Volcano leaves kube-scheduler's
``hardPodAffinityWeight`` at 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Scores
from shard_worker.kube_scheduler.filters.pod_index import (
    Counts,
    Neighbours,
    PodQuestion,
    by_domain,
    label_term,
    on_rows,
)
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.constraints import PodTerm
from shared.model.model import TaskClass

FULL = 100


def preferred(cls: TaskClass) -> list[PodTerm]:
    """The preferred terms, which have a weight."""
    if cls.constraints is None:
        return []
    return [term for term in cls.constraints.pod_terms if term.weight]


class PreferredPods:
    def __init__(self, neighbours: Neighbours, *, weight: int) -> None:
        self._neighbours = neighbours
        self._weight = weight

    def scores(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        raw = self.raw(task, world)
        if raw is None or not len(rows):
            return np.zeros(len(rows))
        return spread_out(raw[rows]) * float(self._weight)

    def raw(self, task: TaskInfo, world: World) -> Counts | None:
        """The raw score per row; None if no preference applies."""
        parts: list[tuple[str, int, Counts]] = []
        space = task.job.job.namespace
        for term in preferred(task.cls):
            question = PodQuestion((label_term(term, space),))
            sign = -term.weight if term.anti else term.weight
            parts.append((term.topology_key, sign, self._neighbours.count(question)))
        for held_term, counts in self._neighbours.holders(task):
            if held_term.weight:
                sign = -held_term.weight if held_term.anti else held_term.weight
                parts.append((held_term.topology_key, sign, counts))
        if not parts:
            return None
        total = np.zeros(world.size, np.int64)
        for key, sign, counts in parts:
            column = world.view.label(key)
            total += sign * on_rows(column, by_domain(column, counts))
        return total


def spread_out(raw: Counts) -> Scores:
    """Scale from 0 for the lowest to 100 for the highest, rounded down; all 0 if they are equal."""
    low, high = int(raw.min()), int(raw.max())
    if low == high:
        return np.zeros(len(raw))
    scaled: Scores = np.floor(FULL * ((raw - low) / (high - low)))
    return scaled
