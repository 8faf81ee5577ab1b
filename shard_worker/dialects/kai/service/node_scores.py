"""KAI's scores of nodes over columns, for flat jobs of a service."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.mig import mig_slots
from shard_worker.dialects.kai.service.devices import ServiceDevices
from shard_worker.framework.rules import Mask, NodeColumns, Rows
from shard_worker.view.view import View
from shared.model.gpu_request import ONE, WHOLE
from shared.model.kai_devices import PREFIX
from shared.model.model import TaskClass
from shared.policy.model import PluginOption
from shared.units.slots import CPU

_PACKING = 9.0
_KIND = 10.0
_SHARING = 1e4


class NodePlacementScores:
    """nodeplacement over columns: tasks with GPUs by free GPUs, the others by free cores.

    KAI's score of a node depends on the fullest and the emptiest one. For the order of nodes only
    which is fuller counts, so that a score of the node alone does: it falls with what is free, and
    stays below the next larger kind of reason.
    """

    node_local = True

    def __init__(self, option: PluginOption, devices: ServiceDevices) -> None:
        self._spread = {kind: option.text(kind) == "spread" for kind in ("gpu", "cpu")}
        self._devices = devices

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        slots, spread = self._slots(cls, view)
        capacity = np.zeros(len(view.column("used", CPU)[rows]))
        used = capacity.copy()
        for slot in slots:
            capacity += view.column("allocatable", slot)[rows]
            # What is promised is taken already, as in a session (World.future_idle): else a gang's
            # second promise goes to the node that the first one filled.
            used += view.column("used", slot)[rows] + view.column("nominated", slot)[rows]
            used -= view.column("releasing", slot)[rows]
        free = np.maximum(capacity - used, 0.0)
        if slots != [CPU]:
            columns = _view(view).things.device_columns(PREFIX, view.size)
            by_device = columns.future.sum(axis=0) // (WHOLE // ONE)
            if not spread:
                by_device = (columns.there & (columns.future >= WHOLE)).sum(axis=0) * ONE
            declared: Mask = columns.there.sum(axis=0) > 0
            free = np.where(declared[rows], by_device[rows], free)
        score = free / np.maximum(capacity, 1.0) if spread else _PACKING / (1.0 + free)
        result: NDArray[np.float64] = np.where(capacity > 0, score, 0.0)
        return result

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        slots, spread = self._slots(cls, view)
        capacity = used = 0.0
        for slot in slots:
            capacity += view.column("allocatable", slot).item(row)
            used += view.column("used", slot).item(row) + view.column("nominated", slot).item(row)
            used -= view.column("releasing", slot).item(row)
        if capacity <= 0:
            return 0.0
        free = max(capacity - used, 0.0)
        if slots != [CPU] and (rooms := self._devices.rooms(_view(view), row)):
            later = [later for _, _, later in rooms]
            whole = ONE * sum(room >= WHOLE for room in later)
            free = sum(later) // (WHOLE // ONE) if spread else whole
        return free / max(capacity, 1.0) if spread else _PACKING / (1.0 + free)

    def _slots(self, cls: TaskClass, view: NodeColumns) -> tuple[list[int], bool]:
        """(the slots that count for the task, whether the emptiest node goes first)."""
        if wants_gpus(cls, view):
            return _gpus(view), self._spread["gpu"]
        return [CPU], self._spread["cpu"]


class KindOfNode:
    """resourcetype over columns: tasks without GPUs on nodes without GPUs."""

    node_local = True

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        there = np.zeros(len(view.column("used", CPU)[rows]))
        if _wants_any(cls, view):
            return there
        for slot in _any_gpus(view):
            there += view.column("allocatable", slot)[rows]
        result: NDArray[np.float64] = np.where(there > 0, 0.0, _KIND)
        return result

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        if _wants_any(cls, view):
            return 0.0
        slots = _any_gpus(view)
        return 0.0 if any(view.column("allocatable", s).item(row) for s in slots) else _KIND


class SharingOrder:
    """gpusharingorder over columns: nodes with a device in use that has room for the share."""

    node_local = True

    def __init__(self, devices: ServiceDevices) -> None:
        self._devices = devices

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        if cls.gpu_share is None:
            return np.zeros(len(view.column("used", CPU)[rows]))
        columns = _view(view).things.device_columns(PREFIX, view.size)
        part = self._devices.parts(cls.gpu_share, _view(view))
        in_use = columns.there & (columns.future < WHOLE) & (columns.future >= part)
        fits: Mask = in_use.sum(axis=0) > 0
        result: NDArray[np.float64] = np.where(fits[rows], _SHARING, 0.0)
        return result

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        if cls.gpu_share is None:
            return 0.0
        part = self._devices.part(cls.gpu_share, _view(view), row)
        rooms = self._devices.rooms(_view(view), row)
        return _SHARING if any(part <= later < WHOLE for _, _, later in rooms) else 0.0


def wants_gpus(cls: TaskClass, view: NodeColumns) -> bool:
    """Whether tasks of the class ask for GPUs, or parts of them."""
    gpus = _gpus(view)
    return cls.gpu_share is not None or any(slot in gpus for slot, _ in cls.requests)


def _gpus(view: NodeColumns) -> list[int]:
    return [slot for slot, name in enumerate(view.slot_names) if name.endswith("gpu")]


def _wants_any(cls: TaskClass, view: NodeColumns) -> bool:
    """Whether tasks of the class ask for GPUs, parts or instances of them."""
    slots = _any_gpus(view)
    return cls.gpu_share is not None or any(slot in slots for slot, _ in cls.requests)


def _any_gpus(view: NodeColumns) -> list[int]:
    return [*_gpus(view), *(slot for slot, _ in mig_slots(view.slot_names))]


def _view(view: NodeColumns) -> View:
    """The worker's own: plugins of others see less of it."""
    assert isinstance(view, View)
    return view
