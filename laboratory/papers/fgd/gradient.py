"""FGD's own policy: fragmentation gradient descent, and the measure of fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laboratory.papers.fgd.cards import BEST, WHOLE, CardPlugin, Cards, Demand, PodKind, Room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laboratory.papers.fgd.cards import Floats, Ints
    from shard_worker.framework.plugin import PluginOption, World

ALIKE = 64
"""With more nodes than this, equal ones are scored once."""


class ExpectedPods:
    """The pods to be expected, as columns."""

    def __init__(self, kinds: Sequence[PodKind], cards: Cards) -> None:
        asking = [kind for kind in kinds if kind.demand.cards]
        self.parts, self._part = np.unique(
            [kind.demand.milli for kind in asking], return_inverse=True
        )
        self._count = np.array([[kind.demand.cards] for kind in asking])
        self._cpu = np.array([[kind.demand.cpu] for kind in asking])
        self._allowed = np.array([cards.allowed(kind.demand) for kind in asking])
        self._share = np.array([kind.share for kind in asking])
        self._others = 1.0 - float(self._share.sum())

    def fragments(self, free: Ints, cores: Ints, model: Ints) -> Floats:
        """Thousandths of cards that an expected pod cannot use, for each node.

        All that is free, if the pod asks for no card or does not fit; else what is left on cards
        with too little for it.
        """
        enough = free >= self.parts[:, np.newaxis, np.newaxis]  # [part][card][node]
        number = enough.sum(axis=1)
        small = np.where(enough, 0, free).sum(axis=1)
        idle = free.sum(axis=0)
        runs = number[self._part] >= self._count
        runs &= cores >= self._cpu
        runs &= self._allowed[:, model]
        lost = np.where(runs, small[self._part], idle)
        total: Floats = self._share @ lost + self._others * idle
        return total


class Fgd(CardPlugin):
    """The node, and the card, on which the fragments grow least.

    Argument ``workload``: the pods to be expected, as :class:`PodKind` writes them.
    """

    name = "fgd"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self.kinds = [PodKind.parse(text) for text in option.text("workload").split()]

    def enter(self, world: World) -> None:
        super().enter(world)
        self._expected = ExpectedPods(self.kinds, self.cards)
        # One number for what a node has left: sorting columns took a fifth of the time.
        mixing = np.random.default_rng(0)
        self._mixed = mixing.integers(2**40, size=len(self.cards.room.free) + 2)

    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        if len(room.rows) <= ALIKE:
            return self._scores(demand, room)
        columns = np.vstack([room.free, room.cores, room.model])
        _, first, same = np.unique(self._mixed @ columns, return_index=True, return_inverse=True)
        score, card = self._scores(demand, room.of(first))
        return score[same], card[same]

    def _scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        after = self._afterwards(demand, room)
        choices, cards, nodes = after.shape
        states = np.concatenate([room.free[np.newaxis], after])  # [before, choice...][card][node]
        cores = np.concatenate([room.cores, np.tile(room.cores - demand.cpu, choices)])
        lost = self._expected.fragments(
            states.transpose(1, 0, 2).reshape(cards, -1), cores, np.tile(room.model, choices + 1)
        ).reshape(choices + 1, nodes)
        grown = (lost[1:] - lost[0]) / WHOLE
        score = (BEST / (1 + np.exp(grown))).astype(np.int64)
        if demand.part:
            score[room.free < demand.milli] = -1
        card = score.argmax(axis=0)
        return np.take_along_axis(score, card[np.newaxis], axis=0)[0], card

    def _afterwards(self, demand: Demand, room: Room) -> Ints:
        """The amounts left on the cards after each choice of a card: [choice][card][node]. Of whole
        cards there is one choice, the first ones that are free."""
        if demand.part:
            taken = demand.milli * np.eye(len(room.free), dtype=np.int64)[:, :, np.newaxis]
            left: Ints = room.free[np.newaxis] - taken
            return left
        free = room.free == WHOLE
        whole = free & (free.cumsum(axis=0) <= demand.cards)
        rest: Ints = room.free - WHOLE * whole
        return rest[np.newaxis]
