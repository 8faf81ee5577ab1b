"""GPUs of all nodes as devices: named things of a node, ``kai-gpu/0`` and so on, of a thousand
parts each. Whole requests take them, too, so that no device is ever given twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.rules.devices import DeviceChoice, DeviceRoom, Score, choose
from shard_worker.framework.rules import Check, Mask
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shard_worker.view.node_reasons import NO_DEVICE
from shared.model.gpu_request import WHOLE, GpuRequest, gpu_request
from shared.model.kai_devices import LEAST_MEMORY, MEMORY_LABEL, PREFIX, memory_of
from shared.units.things import Things


class DeviceColumns(NamedTuple):
    """``[device][row]``."""

    names: list[str]
    there: NDArray[np.bool_]
    """Whether the row has such a device."""
    idle: NDArray[np.int64]
    future: NDArray[np.int64]

    def room(self, at: int, row: int) -> DeviceRoom:
        return DeviceRoom(int(self.idle[at, row]), int(self.future[at, row]))

    @property
    def whole_now(self) -> NDArray[np.int64]:
        """Devices of each row that nobody is on."""
        return _counted(self.there & (self.idle >= WHOLE))

    @property
    def whole_later(self) -> NDArray[np.int64]:
        """Devices of each row that nobody will be on."""
        return _counted(self.there & (self.future >= WHOLE))

    def free_parts(self) -> NDArray[np.int64]:
        """What will be free on each row's devices, in thousandths."""
        free: NDArray[np.int64] = np.where(self.there, self.future, 0).sum(axis=0)
        return free

    @property
    def declared(self) -> Mask:
        """Rows that declare devices."""
        return _counted(self.there) > 0


def _counted(marks: Mask) -> NDArray[np.int64]:
    """How many devices of each row are marked."""
    count: NDArray[np.int64] = marks.sum(axis=0)
    return count


def request_of(task: TaskInfo, names: Sequence[str]) -> GpuRequest | None:
    """What a task asks of GPUs; None for nothing. ``names``: of slots."""
    if task.cls.gpu_share is not None:
        return task.cls.gpu_share
    gpus = sum(
        amount
        for slot, amount in task.requests
        if slot < len(names) and names[slot].endswith("gpu")
    )
    return gpu_request(dict(task.role.annotations), gpus // WHOLE)


FEW_ROWS = 32
"""Up to so many changed rows are read one by one; reading all costs about as much (500 nodes)."""


class _Kept(NamedTuple):
    """Columns as they were read last."""

    columns: DeviceColumns
    cursor: int
    revision: int


def device_columns(world: World) -> DeviceColumns:
    """The devices as they stand now, with what the session has done. Not to be changed, nor kept,
    by the caller: the arrays are those of the next call."""
    view = world.view
    kept = world.derived.get(PREFIX)
    if isinstance(kept, _Kept) and kept.revision == view.revision:
        rows = view.changes.since(kept.cursor)
        if rows is not None and len(changed := set(rows)) <= FEW_ROWS:
            for row in changed:
                _read_row(world, kept.columns, row)
            world.derived[PREFIX] = kept._replace(cursor=view.changes.end)
            return kept.columns
    columns = _read_columns(world)
    world.derived[PREFIX] = _Kept(columns, view.changes.end, view.revision)
    return columns


def _read_row(world: World, columns: DeviceColumns, row: int) -> None:
    things = world.view.things
    for at, name in enumerate(columns.names):
        is_there = things.at(name, 1, row)[0][0] > 0
        future, idle = things.count_at(((name, (1,)),), row) if is_there else (0, 0)
        columns.there[at, row], columns.idle[at, row] = is_there, idle
        columns.future[at, row] = future


def _read_columns(world: World) -> DeviceColumns:
    things, size = world.view.things, world.size
    names = things.names(PREFIX)
    there = np.zeros((len(names), size), np.bool_)
    idle = np.zeros((len(names), size), np.int64)
    future = np.zeros((len(names), size), np.int64)
    for at, name in enumerate(names):
        there[at] = things.offered(name, 1, size)[0] > 0
        for _, room in things.rooms(((name, (1,)),)):
            idle[at] = room.over(size, room.idle)
            future[at] = room.over(size, room.future)
    return DeviceColumns(names, there, np.where(there, idle, 0), np.where(there, future, 0))


def device_memory(world: World) -> NDArray[np.int64]:
    """MiB of a device, by row."""
    column = world.view.label(MEMORY_LABEL)
    memory = [memory_of(value) for value in column.values]
    found = np.full(world.size, LEAST_MEMORY, np.int64)
    codes = column.codes[: world.size]
    known = codes >= 0
    found[known] = np.array(memory, np.int64)[codes[known]] if memory else LEAST_MEMORY
    return found


def parts(request: GpuRequest, world: World) -> NDArray[np.int64]:
    """The share of each device that a request comes to, by row."""
    if not request.memory:
        return np.full(world.size, request.part, np.int64)
    return np.array([request.part_of(int(memory)) for memory in device_memory(world)], np.int64)


def fitting_devices(
    columns: DeviceColumns, part: NDArray[np.int64], *, now: bool
) -> NDArray[np.int64]:
    """How many devices of each row take such a share."""
    fits = columns.there & (columns.future >= part)
    if now:
        only_promised = (columns.future < WHOLE) & (columns.idle >= WHOLE)
        fits &= (columns.idle >= part) & ~only_promised
    return _counted(fits)


def device_checks(task: TaskInfo, world: World) -> Sequence[Check]:
    """Rows with room for the task on their devices. Of a row that declares none, whole devices are
    counted by amount alone, and no share is taken."""
    request = request_of(task, world.view.slot_names)
    if request is None:
        return ()
    columns = device_columns(world)
    fits = fitting_devices(columns, parts(request, world), now=False) >= request.devices
    if request.part == WHOLE:
        fits |= ~columns.declared
    return [Check(NO_DEVICE, fits)]


def choice_at(task: TaskInfo, row: int, world: World, score: Score) -> DeviceChoice | None:
    """The devices that a task takes of a node; None for none."""
    request = request_of(task, world.view.slot_names)
    if request is None:
        return None
    columns = device_columns(world)
    mine = [at for at in range(len(columns.names)) if columns.there[at, row]]
    part = int(parts(request, world)[row])
    choice = choose([columns.room(at, row) for at in mine], part, request.devices, score)
    if choice is None:
        return None
    return DeviceChoice(tuple(mine[at] for at in choice.devices), choice.now)


def things_of(task: TaskInfo, row: int, world: World, score: Score) -> Things:
    """What a task takes of the devices of a node, as things."""
    choice, request = (
        choice_at(task, row, world, score),
        request_of(task, world.view.slot_names),
    )
    if choice is None or request is None:
        return ()
    names, part = world.view.things.names(PREFIX), int(parts(request, world)[row])
    return tuple((names[at], (part,)) for at in choice.devices)
