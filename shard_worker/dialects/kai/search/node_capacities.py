"""GPUs of the nodes that a search could empty: which few of them could hold what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import device_columns, gpu_slots
from shard_worker.dialects.kai.evictions import KaiEvictionUnit, Probe
from shard_worker.dialects.kai.mig import mig_slots
from shard_worker.session_model.world import World
from shared.model.gpu_request import ONE, WHOLE


def gpu_room(world: World) -> NDArray[np.int64]:
    """GPUs of each row that are idle or will be: thousandths, MIG instances by their slices."""
    columns = device_columns(world)
    room = np.zeros(world.size, np.int64)
    for slot in gpu_slots(world):
        room += np.maximum(world.future_idle(slot), 0)
    room = np.where(columns.declared > 0, columns.free_parts // (WHOLE // ONE), room)
    for slot, slices in mig_slots(world.view.slot_names):
        room += np.maximum(world.future_idle(slot), 0) * slices
    return room


def gpus_in_use(world: World) -> NDArray[np.int64]:
    """GPUs of each row that are in use and not about to leave: thousandths."""
    offered = np.zeros(world.size, np.int64)
    for slot in gpu_slots(world):
        offered += world.view.column("allocatable", slot)
    for slot, slices in mig_slots(world.view.slot_names):
        offered += world.view.column("allocatable", slot) * slices
    return offered - gpu_room(world)


class NodeCapacities:
    """Free GPUs of nodes after the evictions of the units added so far; grows unit by unit."""

    def __init__(self, probe: Probe) -> None:
        self._gpus_of = probe.gpus_of
        asks = [probe.gpus_of(task) for task in probe.tasks]
        self._demand, self._least = sum(asks), min(asks)
        self._free = probe.gpus.copy()
        for task in probe.recorded:
            self._free[task.row] += probe.gpus_of(task)
        self._elsewhere = int(self._free[probe.feasible].sum())
        """Free GPUs of rows without victims of the order."""
        self._feasible = probe.feasible
        self._freed: dict[int, int] = {}
        """Row -> what its victims hold, in the order of their first victims."""

    def add(self, unit: KaiEvictionUnit) -> None:
        """Take the victims of a unit off their nodes."""
        # Equals are ranked by their first victims, in task order.
        for task in unit.occupants if len(unit.occupants) == 1 else unit.tasks:
            row = task.row
            if row not in self._freed:
                self._freed[row] = 0
                if self._feasible[row]:
                    self._elsewhere -= int(self._free[row])
            self._freed[row] += self._gpus_of(task)

    def ranked(self) -> tuple[Sequence[int], int]:
        """(rows that could hold a task, the one with the least first; how many of them could hold
        what rows without victims cannot: one too many where all cannot)."""
        capacity = {row: int(self._free[row]) + freed for row, freed in self._freed.items()}
        rows = [row for row, amount in capacity.items() if amount >= self._least]
        rows.sort(key=capacity.__getitem__)  # stable: equals by their first victims
        missing = self._demand - self._elsewhere
        if missing <= 0:
            return rows, 0
        for number, row in enumerate(rows, start=1):
            missing -= capacity[row]
            if missing <= 0:
                return rows, number
        return rows, len(rows) + 1
