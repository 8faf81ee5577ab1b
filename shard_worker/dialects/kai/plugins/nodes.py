"""Plugins that rank nodes, on KAI's scale: a larger kind of reason always outweighs the smaller."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import (
    device_columns,
    fitting_devices,
    gpu_slots,
    request_of,
    wants_gpus,
)
from shard_worker.dialects.kai.mig import mig_slots, wants_mig
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Scores
from shard_worker.session_model.job import TaskInfo
from shared.model.gpu_request import ONE, WHOLE
from shared.policy.model import PluginOption, PolicyError
from shared.units.slots import CPU

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

PACKING = 9.0
KIND = 10.0
IDLE = 1e3
NOMINATED = 1e7


def node_availability(ssn: KaiSession) -> None:
    """nodeavailability: nodes with room now before those that only will have it."""
    ssn.add_batch_node_order_fn(_idle)


def resource_type(ssn: KaiSession) -> None:
    """resourcetype: tasks without GPUs on nodes without GPUs."""
    ssn.add_batch_node_order_fn(_kind)


def nominated_node(ssn: KaiSession) -> None:
    """nominatednode: the node that an earlier session nominated for the task."""
    ssn.add_batch_node_order_fn(_nominated)


class Strategy(Enum):
    BINPACK = "binpack"
    SPREAD = "spread"


class NodePlacement:
    """nodeplacement: the fullest node first (binpack), or the emptiest (spread); tasks with GPUs by
    GPUs, the others by cores."""

    name = "nodeplacement"

    def __init__(self, option: PluginOption) -> None:
        self._gpu = _strategy(option, "gpu")
        self._cpu = _strategy(option, "cpu")

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_batch_node_order_fn(self._score)

    def _score(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        with_gpus = wants_gpus(task, world)
        strategy = self._gpu if with_gpus else self._cpu
        if with_gpus:
            allocatable, free = _gpus(world, rows, shares=strategy is Strategy.SPREAD)
        else:
            allocatable, free = _amounts(world, [CPU], rows)
        match strategy:
            case Strategy.BINPACK:
                return _packed(allocatable, free)
            case Strategy.SPREAD:
                return np.where(allocatable > 0, free / np.maximum(allocatable, 1), 0.0)


def _strategy(option: PluginOption, resource: str) -> Strategy:
    try:
        return Strategy(option.text(resource) or "binpack")
    except ValueError:
        raise PolicyError(
            f"nodeplacement: {resource}: {option.text(resource)!r} is none of binpack, spread"
        ) from None


def _packed(there: Scores, free: Scores) -> Scores:
    """The less is free, the better, on the range of the nodes that have the resource at all."""
    having = there > 0
    scores = np.zeros(len(there), np.float64)
    if not having.any():
        return scores
    least, most = float(free[having].min()), float(free[having].max())
    if most <= 0:
        return scores
    if least == most:
        scores[having] = PACKING
    else:
        scores[having] = PACKING * (1 - (free[having] - least) / (most - least))
    return scores


def _amounts(world: World, slots: list[int], rows: NDArray[np.intp]) -> tuple[Scores, Scores]:
    """(what each row has, what nobody holds of it, what is leaving included)."""
    allocatable = _summed(lambda slot: world.view.column("allocatable", slot), slots, rows)
    return allocatable, _summed(world.future_idle, slots, rows)


def _gpus(world: World, rows: NDArray[np.intp], *, shares: bool) -> tuple[Scores, Scores]:
    """As :func:`_amounts`, of GPUs: devices that nobody will be on; with ``shares`` also what is
    free of those in use."""
    allocatable, free = _amounts(world, gpu_slots(world), rows)
    columns = device_columns(world)
    declared = columns.declared[rows] > 0
    parts = columns.free_parts[rows] // (WHOLE // ONE)
    by_device = parts if shares else columns.whole_later[rows] * ONE
    return allocatable, np.where(declared, by_device, free)


def _summed(
    column: Callable[[int], NDArray[np.int64]], slots: list[int], rows: NDArray[np.intp]
) -> Scores:
    total = np.zeros(len(rows), np.float64)
    for slot in slots:
        total += column(slot)[rows]
    return total


def _idle(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    fits = world.fits_idle(task.cls)
    request = request_of(task, world.view.slot_names)
    if request is not None:
        columns = device_columns(world)
        now = fitting_devices(request, columns, world, now=True) >= request.devices
        fits = fits & (now | (columns.declared == 0))
    return np.where(fits[rows], IDLE, 0.0)


def _kind(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    if wants_gpus(task, world) or wants_mig(task, world):
        return np.zeros(len(rows), np.float64)
    slots = [*gpu_slots(world), *(slot for slot, _ in mig_slots(world.view.slot_names))]
    allocatable = _summed(lambda slot: world.view.column("allocatable", slot), slots, rows)
    return np.where(allocatable > 0, 0.0, KIND)


def _nominated(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    del world
    return np.where(rows == task.nominated, NOMINATED, 0.0)
