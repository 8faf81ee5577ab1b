"""Five of the paper's policies as plugins: the score of a node, and which of its cards is shared.

Scores are whole numbers from 0 to 100, as in the authors' simulator: what is cut off makes equals,
and of equals the first node is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laboratory.papers.fgd.cards import BEST, WHOLE, CardPlugin, Demand, Room, best_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laboratory.papers.fgd.cards import Floats, Ints
    from shard_worker.framework.plugin import PluginOption, TaskInfo, World
    from shared.units.things import Things

MOST_CPU = 128_000
MOST_CARDS = 8 * WHOLE
"""Amounts of the largest node, by which scores are divided."""
SIZES = 10
"""Kinds of pods that clustering tells apart: a part of a card, 1 card, 2 cards, and so on."""


class Random(CardPlugin):
    """Any node, and any of its cards; the numbers come from the argument ``seed``."""

    name = "fgd-random"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._seed = option.whole("seed", 1)

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        return np.zeros_like(room.cores), np.zeros_like(room.cores)

    def order(self, task: TaskInfo, rows: NDArray[np.intp], _: World) -> Floats:
        return self._drawn(task, 0, len(rows))

    def take(self, task: TaskInfo, row: int, world: World) -> Things:
        known = self.known(task)
        if known.demand.part:
            room = np.flatnonzero(self.cards.room.free[:, row] >= known.demand.milli)
            known.card[row] = room[int(self._drawn(task, 1, 1)[0] * len(room))]
        return super().take(task, row, world)

    def _drawn(self, task: TaskInfo, purpose: int, count: int) -> Floats:
        """The same for the same task whenever it is asked for, so that a run repeats."""
        return np.random.default_rng([self._seed, purpose, task.job.job.jid]).random(count)


class BestFit(CardPlugin):
    """The node with the least left."""

    name = "fgd-best-fit"

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        cores = (room.cores - demand.cpu) / MOST_CPU
        cards = (room.free.sum(axis=0) - demand.amount) / MOST_CARDS
        return (BEST * (1 - (cores + cards) / 2)).astype(np.int64), best_fit(demand, room)

    def order(self, task: TaskInfo, rows: NDArray[np.intp], _: World) -> Floats:
        """Spread over 0 to 100 among the feasible nodes."""
        score = self.known(task).score[rows]
        low, high = int(score.min()), int(score.max())
        return ((score - low) * BEST // max(high - low, 1)).astype(np.float64)


class DotProduct(CardPlugin):
    """The node whose free amounts have the smallest dot product with the request (Tetris)."""

    name = "fgd-dot-product"

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        cores = room.cores * demand.cpu / MOST_CPU**2
        cards = room.free.sum(axis=0) * demand.amount / MOST_CARDS**2
        return (BEST * (1 - (cores + cards) / 2)).astype(np.int64), best_fit(demand, room)


class Packing(CardPlugin):
    """Shared cards before free cards of used nodes, and those before free nodes."""

    name = "fgd-packing"

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        card = best_fit(demand, room)
        if not demand.cards:
            return np.zeros_like(room.cores), card
        free = (room.free == WHOLE).sum(axis=0)
        left = np.take_along_axis(room.free, card[np.newaxis], axis=0)[0]
        shared = demand.part & (left < WHOLE)
        used_node = np.where(
            shared,
            BEST - left * BEST // WHOLE // 10,
            max(BEST // 2 - demand.cards, BEST // 3),
        )
        free_node = np.maximum(BEST // 3 - free, free)
        return np.where(free == room.cards, free_node, used_node), card


class Clustering(CardPlugin):
    """Nodes that have pods of the same size alone, then beside others, then empty ones."""

    name = "fgd-clustering"

    def enter(self, world: World) -> None:
        super().enter(world)
        self._pods = np.zeros((SIZES, world.size), dtype=np.int64)

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        card = best_fit(demand, room)
        if not demand.cards:
            return np.zeros_like(room.cores), card
        used = BEST // 4 * (MOST_CARDS - room.free.sum(axis=0)) // MOST_CARDS
        there = self._pods[:, room.rows] > 0
        kinds, same = there.sum(axis=0), there[_size(demand)]
        among = np.select([same & (kinds == 1), same, kinds == 0], [75, 50, 25], 0)
        return used + among, card

    def allocated(self, task: TaskInfo) -> None:
        self._count(task, 1)
        super().allocated(task)

    def deallocated(self, task: TaskInfo) -> None:
        self._count(task, -1)
        super().deallocated(task)

    def _count(self, task: TaskInfo, change: int) -> None:
        demand = self._class(task).demand
        if demand.cards:
            self._pods[_size(demand), task.row] += change


def _size(demand: Demand) -> int:
    return 0 if demand.part else demand.cards
