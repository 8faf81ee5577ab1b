"""The scorer by preferred affinity between pods.

A node's raw score is, over the keys of all terms, the sum in its domain of the weights that the
task's own wishes give the pods there (anti-affinity: less), and that the wishes of pods there give
the task. The candidates' raw scores are spread from 0 for the lowest to 100 for the highest.

Required affinity of others counts nothing: Volcano leaves at 0 what kube-scheduler calls
``hardPodAffinityWeight``.
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
    """The terms that are wishes."""
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
        """Of every row; None where nobody wishes anything."""
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
    """From 0 for the lowest to 100 for the highest, rounded down; all 0 where they are equal."""
    low, high = int(raw.min()), int(raw.max())
    if low == high:
        return np.zeros(len(raw))
    scaled: Scores = np.floor(FULL * ((raw - low) / (high - low)))
    return scaled
