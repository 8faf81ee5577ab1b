"""Plugins that share the cards of nodes, in the form of ``docs/plugins.md``.

A pod asks for ``lab/gpu-milli``: a part of one card (up to 999), or whole cards (1000, 2000, ...).
Nodes declare their cards in ``quadrant.dev/devices``, and their model as a label. What all nodes
have left is kept as columns by the session's events, and each class of tasks keeps its own scores,
so that a task costs only the rows that have changed since the last one of its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shard_worker.framework.plugin import Check, EventHandler, Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard_worker.framework.plugin import PluginOption, Session, TaskInfo, World
    from shared.units.things import Things

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

RESOURCE = "lab/gpu-milli"
CARD = "card/"
MODEL = "lab/gpu-model"
"""Label of a node: the model of its cards."""
WHOLE = 1000
BEST = 100
"""Highest score of a node."""
NO_CARD = "node(s) had no card with enough left"


class Demand(NamedTuple):
    """The cards and cores that a pod asks for."""

    cpu: int
    """Thousandths of a core"""
    cards: int
    milli: int
    """Thousandths of each card"""
    models: tuple[str, ...]
    """Allowed models; (): all."""

    @property
    def amount(self) -> int:
        return self.cards * self.milli

    @property
    def part(self) -> bool:
        """Whether it shares a card."""
        return 0 < self.milli < WHOLE


@dataclass(frozen=True, slots=True)
class PodKind:
    """A kind of pod that is to be expected, and how often."""

    demand: Demand
    share: float

    @classmethod
    def parse(cls, text: str) -> PodKind:
        """Read ``CPU/CARDS/MILLI/MODEL|MODEL=SHARE``."""
        kind, _, share = text.partition("=")
        cpu, cards, milli, models = kind.split("/")
        allowed = tuple(models.split("|")) if models else ()
        return cls(Demand(int(cpu), int(cards), int(milli), allowed), float(share))

    def __str__(self) -> str:
        cpu, cards, milli, models = self.demand
        return f"{cpu}/{cards}/{milli}/{'|'.join(models)}={self.share!r}"


class Room(NamedTuple):
    """Free amounts of some nodes; a column for each of them."""

    rows: Ints
    free: Ints
    """[card][node], 0 where a node has no such card."""
    cores: Ints
    """Thousandths"""
    cards: Ints
    """Number of cards, whatever is left of them."""
    model: Ints
    """Number of the model."""

    def of(self, at: Ints) -> Room:
        return Room(self.rows[at], self.free[:, at], self.cores[at], self.cards[at], self.model[at])


@dataclass(slots=True)
class Cards:
    """The cards and cores of all nodes of a world, and the rows that have changed."""

    names: list[str]
    models: list[str]
    room: Room
    changed: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, world: World) -> Cards:
        devices = world.devices(CARD)
        labels = ["" if node is None else node.labels.get(MODEL, "") for node in world.view.nodes]
        models = sorted(set(labels))
        room = Room(
            rows=np.arange(world.size),
            free=devices.free.copy(),
            cores=world.idle(world.view.slot_names.index("cpu")).copy(),
            cards=(devices.offered > 0).sum(axis=0),
            model=np.array([models.index(label) for label in labels], dtype=np.int64),
        )
        return cls(devices.names, models, room)

    def shift(self, task: TaskInfo, demand: Demand, sign: int) -> None:
        """A task took its cards and cores (-1), or gave them back (1)."""
        for name, amounts in task.devices:
            if name.startswith(CARD):
                self.room.free[self.names.index(name), task.row] += sign * amounts[0]
        self.room.cores[task.row] += sign * demand.cpu
        self.changed.append(task.row)

    def allowed(self, demand: Demand) -> NDArray[np.bool_]:
        """Whether a pod may run on each model."""
        return np.array([not demand.models or model in demand.models for model in self.models])


@dataclass(slots=True)
class ClassScores:
    """Columns of one class of tasks, as the cards were after ``seen`` changes."""

    demand: Demand
    fits: NDArray[np.bool_]
    score: Ints
    card: Ints
    """The card that a task with a part of one would take."""
    seen: int = -1
    """-1: no row has been looked at."""


class CardPlugin(ABC):
    """Admits nodes with enough left on single cards, and chooses the cards. Subclasses say which
    nodes and cards are better."""

    name = ""
    cards: Cards
    """The cards of the session's world."""

    def __init__(self, option: PluginOption) -> None:
        self.option = option
        self._classes: dict[int, ClassScores] = {}

    def on_session_open(self, ssn: Session) -> None:
        ssn.entering.append(self.enter)
        ssn.add_live_predicate_fn(self.fits, scope=Scope.NODE)
        ssn.add_batch_node_order_fn(self.order)
        ssn.add_device_choice_fn(self.take)
        ssn.add_event_handler(EventHandler(self.allocated, self.deallocated))

    @abstractmethod
    def scores(self, demand: Demand, room: Room) -> tuple[Ints, Ints]:
        """(score of each node, its card that a part of one is taken of); anything where the pod
        does not fit."""

    # --- rules ------------------------------------------------------------------------------------

    def enter(self, world: World) -> None:
        self.cards = Cards.of(world)
        self._classes.clear()
        self._world = world

    def fits(self, task: TaskInfo, _: World) -> Sequence[Check]:
        return [Check(NO_CARD, self.known(task).fits)]

    def order(self, task: TaskInfo, rows: NDArray[np.intp], _: World) -> Floats:
        return self.known(task).score[rows].astype(np.float64)

    def take(self, task: TaskInfo, row: int, _: World) -> Things:
        known = self.known(task)
        demand = known.demand
        if demand.part:
            chosen = [int(known.card[row])]
        else:
            chosen = np.flatnonzero(self.cards.room.free[:, row] == WHOLE)[: demand.cards].tolist()
        return tuple((self.cards.names[card], (demand.milli,)) for card in chosen)

    def allocated(self, task: TaskInfo) -> None:
        self.cards.shift(task, self._class(task).demand, -1)

    def deallocated(self, task: TaskInfo) -> None:
        self.cards.shift(task, self._class(task).demand, 1)

    # --- columns of a class -----------------------------------------------------------------------

    def known(self, task: TaskInfo) -> ClassScores:
        """The columns of the task's class, up to date."""
        known, cards = self._class(task), self.cards
        if known.seen == len(cards.changed):
            return known
        if known.seen < 0:
            rows = cards.room.rows
        else:
            rows = np.array(sorted(set(cards.changed[known.seen :])))
        room = cards.room.of(rows)
        if known.demand.cards:
            enough = (room.free >= known.demand.milli).sum(axis=0)
            known.fits[rows] = enough >= known.demand.cards
        known.score[rows], known.card[rows] = self.scores(known.demand, room)
        known.seen = len(cards.changed)
        return known

    def _class(self, task: TaskInfo) -> ClassScores:
        known = self._classes.get(task.cid)
        if known is None:
            size = len(self.cards.room.rows)
            columns = np.ones(size, bool), np.zeros(size, np.int64), np.zeros(size, np.int64)
            known = self._classes[task.cid] = ClassScores(demand_of(task, self._world), *columns)
        return known


def demand_of(task: TaskInfo, world: World) -> Demand:
    amounts = {world.view.slot_name(slot): amount for slot, amount in task.requests}
    asked = amounts.get(RESOURCE, 0) // 1000  # amounts of resources are thousandths, too
    rules = [rule for term in task.cls.affinity or () for rule in term if rule.key == MODEL]
    models = rules[0].values if rules else ()
    return Demand(amounts.get("cpu", 0), -(-asked // WHOLE), min(asked, WHOLE), models)


def best_fit(demand: Demand, room: Room) -> Ints:
    """The card with the least left that is enough."""
    left = np.where(room.free >= demand.milli, room.free, WHOLE + 1)
    card: Ints = left.argmin(axis=0)
    return card
