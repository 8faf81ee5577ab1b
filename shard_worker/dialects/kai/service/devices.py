"""Devices over columns, for flat jobs of a service: how many tasks of a class a node's devices
take, and which of them a task gets. The same rules as a session's
(:mod:`shard_worker.dialects.kai.devices`), for one class and one node at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import by_memory, parts_on
from shard_worker.dialects.kai.rules.devices import DeviceRoom, Score, choose
from shard_worker.framework.rules import NodeColumns
from shard_worker.view.view import View
from shared.model.gpu_request import ONE, WHOLE, GpuRequest
from shared.model.kai_devices import MEMORY_LABEL, PREFIX
from shared.model.model import TaskClass
from shared.units.things import Things

Column = NDArray[np.int64]
ENDLESS = np.iinfo(np.int64).max


class ServiceDevices:
    """See :class:`~shard_worker.framework.flat_rules.DeviceRule`."""

    def __init__(self, score: Score) -> None:
        """``score``: of a device, by what is used of it; None for a whole one."""
        self._score = score

    def request(self, cls: TaskClass, view: NodeColumns) -> GpuRequest | None:
        """GPU request of a task of the class; None for none."""
        if cls.gpu_share is not None:
            return cls.gpu_share
        names = view.slot_names
        gpus = sum(n for s, n in cls.requests if s < len(names) and names[s].endswith("gpu"))
        return GpuRequest(gpus // ONE, part=ONE) if gpus >= ONE else None

    def concerns(self, cls: TaskClass, view: NodeColumns) -> bool:
        return self.request(cls, view) is not None

    def counts(self, cls: TaskClass, view: View) -> tuple[Column, Column]:
        """(tasks that the devices of each row take in the future, now); the first may be too high,
        where a task takes several."""
        request, size = self.request(cls, view), view.size
        future, now = np.full(size, ENDLESS), np.full(size, ENDLESS)
        if request is None:
            return future, now
        columns = view.things.device_columns(PREFIX, size)
        declared = columns.there.any(axis=0)
        part = self.parts(request, view)
        later = np.where(columns.there, np.maximum(columns.future, 0), 0)
        takes = later >= part
        idle = takes & (columns.idle >= part) & ~((later < WHOLE) & (columns.idle >= WHOLE))
        enough = takes.sum(axis=0) >= request.devices
        most = np.where(enough, (later // part).sum(axis=0) // request.devices, 0)
        at_once = idle.sum(axis=0) // request.devices
        without = ENDLESS if request.is_whole else 0
        return np.where(declared, most, without), np.where(declared, at_once, without)

    def rooms(self, view: View, row: int) -> tuple[tuple[str, int, int], ...]:
        """(device, free now, free in the future) of one row."""
        return tuple(view.things.device_rooms(PREFIX, row))

    def count_at(
        self, cls: TaskClass, view: View, row: int, rooms: Sequence[tuple[str, int, int]]
    ) -> tuple[int, int]:
        """:meth:`counts` of one row."""
        request = self.request(cls, view)
        if request is None:
            return ENDLESS, ENDLESS
        if not rooms:
            return (ENDLESS, ENDLESS) if request.is_whole else (0, 0)
        part = self.part(request, view, row)
        takes = idle = most = 0
        for _, free, later in rooms:
            if later >= part:
                takes += 1
                most += later // part
                idle += free >= part and not (later < WHOLE and free >= WHOLE)
        if takes < request.devices:
            return 0, 0
        return most // request.devices, idle // request.devices

    def choose(
        self, cls: TaskClass, view: View, row: int, *, promised: bool = False
    ) -> tuple[Things, bool] | None:
        """(what a task takes of the row's devices, whether they have the room now); None where
        there are too few. ``promised``: it has the promise of a place there."""
        request = self.request(cls, view)
        rooms = self.rooms(view, row)
        if request is None or (not rooms and request.is_whole):
            return (), True
        part = self.part(request, view, row)
        devices = [DeviceRoom(free, later) for _, free, later in rooms]
        choice = choose(devices, part, request.devices, self._score, promised=promised)
        if choice is None:
            return None
        return tuple((rooms[at][0], (part,)) for at in choice.devices), choice.now

    def part(self, request: GpuRequest, view: View, row: int) -> int:
        """The parts of each device that a request comes to on a row."""
        if request.is_whole:
            return WHOLE
        node = view.nodes[row]
        return parts_on(request, "" if node is None else node.labels.get(MEMORY_LABEL, ""))

    def parts(self, request: GpuRequest, view: View) -> Column:
        """The same of every row."""
        if request.is_whole:
            return np.full(view.size, WHOLE, np.int64)
        return by_memory(request, view)
