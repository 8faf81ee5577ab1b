"""The scorer by soft topology spread: domains with fewer matching pods score higher.

For each ScheduleAnyway constraint a candidate's domain counts its pods, weighed by the logarithm of
how many domains the candidates make up, so that few large domains count less than many small ones.
Candidates without one of the keys score 0, the others from the raw score turned round, the lowest
being 100. Hosts are domains of their own and count what is on them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Mask, Scores
from shard_worker.kube_scheduler.filters.pod_index import Neighbours, by_domain, has_label, on_rows
from shard_worker.kube_scheduler.filters.topology_spread import included, spread_question
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.constraints import Spread
from shared.model.model import TaskClass

FULL = 100
HOSTNAME = "kubernetes.io/hostname"


def soft_spreads(cls: TaskClass) -> list[Spread]:
    if cls.constraints is None:
        return []
    return [spread for spread in cls.constraints.spreads if not spread.hard]


class SpreadOut:
    def __init__(self, neighbours: Neighbours, *, weight: int) -> None:
        self._neighbours = neighbours
        self._weight = weight

    def scores(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        spreads = soft_spreads(task.cls)
        if not spreads or not len(rows):
            return np.zeros(len(rows))
        labelled = has_label([world.view.label(s.topology_key) for s in spreads], world.size)
        judged = labelled[rows]
        raw = np.zeros(len(rows))
        for spread in spreads:
            raw += self._one(task, spread, rows, labelled, world)
        whole = np.floor(raw + 0.5).astype(np.int64)
        return _turned_round(whole, judged) * float(self._weight)

    def _one(
        self,
        task: TaskInfo,
        spread: Spread,
        rows: NDArray[np.intp],
        labelled: Mask,
        world: World,
    ) -> Scores:
        """One constraint's contribution to each candidate's raw score."""
        judged = rows[labelled[rows]]
        column = world.view.label(spread.topology_key)
        counts = self._neighbours.count(spread_question(task, spread))
        if spread.topology_key == HOSTNAME:
            domains = len(judged)
            raw = counts[rows]
        else:
            domains = len(np.unique(column.codes[judged]))
            counted = counts * (labelled & included(task.cls, spread, world))
            raw = on_rows(column, by_domain(column, counted))[rows]
        each = math.log(domains + 2)
        return raw.astype(np.float64) * each + float(spread.max_skew - 1)


def _turned_round(raw: NDArray[np.int64], judged: NDArray[np.bool_]) -> Scores:
    """Invert the raw scores: low ones are good. 0 for candidates that are not judged."""
    if not judged.any():
        return np.zeros(len(raw))
    low, high = int(raw[judged].min()), int(raw[judged].max())
    if high == 0:
        return np.where(judged, float(FULL), 0.0)
    return np.where(judged, (FULL * (high + low - raw) // high).astype(np.float64), 0.0)
