"""Policy choices for turns without a session, beside filters and scores: how own and idle nodes
rank, and which devices of a node a task takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shard_worker.framework.rules import NodeColumns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shard_worker.view.view import View
    from shared.model.model import TaskClass
    from shared.units.things import Things


class LevelScores(NamedTuple):
    """Weight of idle room, and of a node of the own shard, where one sum of scores decides (KAI)
    and not one level after the other (Volcano)."""

    idle: float
    own: float


class DeviceRule(Protocol):
    """Which devices of a node a task takes, for turns without a session: by its class alone."""

    def concerns(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Whether tasks of the class take any."""
        ...

    def counts(self, cls: TaskClass, view: View) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(how many tasks the devices of each row take in the future, how many now)"""
        ...

    def rooms(self, view: View, row: int) -> tuple[tuple[str, int, int], ...]:
        """(device, free now, free in the future) of one row."""
        ...

    def count_at(
        self, cls: TaskClass, view: View, row: int, rooms: Sequence[tuple[str, int, int]]
    ) -> tuple[int, int]:
        """``counts`` of one row, from its rooms."""
        ...

    def choose(
        self, cls: TaskClass, view: View, row: int, *, promised: bool = False
    ) -> tuple[Things, bool] | None:
        """(what a task takes there, whether there is room for it now); None where there is none.
        ``promised``: it has the promise of a place there."""
        ...


@dataclass(slots=True)
class FlatRules:
    """None: one level goes after the other, and no task takes devices."""

    levels: LevelScores | None = None
    devices: DeviceRule | None = None
    goes_on: bool = True
    """Whether the others of a gang are tried after a task that found no node (Volcano); KAI ends
    the turn there."""
