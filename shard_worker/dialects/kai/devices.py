"""GPUs of all nodes as devices: named things of a node, ``kai-gpu/0`` and so on, of
:data:`~shared.model.gpu_request.WHOLE` parts each. Whole requests take them, too, so that no device
is ever given twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.rules.devices import DeviceChoice, DeviceRoom, Score, choose
from shard_worker.framework.rules import Check, Mask, NodeColumns
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shard_worker.view.node_reasons import NO_DEVICE
from shared.byte_cache import MIB, byte_cache
from shared.model.gpu_request import ONE, WHOLE, GpuRequest, gpu_request
from shared.model.kai_devices import LEAST_MEMORY, MEMORY_LABEL, PREFIX, memory_of
from shared.model.model import Pairs, TaskClass
from shared.units.things import Things

Count = Callable[[Mask, NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
"""(there, idle, future), each ``[device][row]`` -> a number for each of these rows."""

NEVER = 2 * WHOLE
"""Parts that no device has."""
KEPT_COUNTS = 16
"""Counts that are kept at a time: those of a policy's scores, and of the shares that the jobs at
hand ask for. Each is eight bytes a row."""


@dataclass(slots=True)
class DeviceColumns:
    """``[device][row]``, and what was counted of them, which follows the rows that change: a task
    of a gang changes one row of thousands, and each of them asks for the same counts."""

    names: list[str]
    there: Mask
    """Whether the row has such a device."""
    idle: NDArray[np.int64]
    future: NDArray[np.int64]
    _counts: dict[object, tuple[Count, NDArray[np.int64]]] = field(default_factory=dict)

    def room(self, at: int, row: int) -> DeviceRoom:
        return DeviceRoom(int(self.idle[at, row]), int(self.future[at, row]))

    @property
    def whole_now(self) -> NDArray[np.int64]:
        """Devices of each row that nobody is on."""
        return self.counted("whole now", _whole_now)

    @property
    def whole_later(self) -> NDArray[np.int64]:
        """Devices of each row that nobody will be on."""
        return self.counted("whole later", _whole_later)

    @property
    def free_parts(self) -> NDArray[np.int64]:
        """Future idle parts of the devices of each row, together."""
        return self.counted("parts", _parts)

    @property
    def declared(self) -> NDArray[np.int64]:
        """How many devices each row declares."""
        return self.counted("there", _there)

    def counted(self, key: object, count: Count) -> NDArray[np.int64]:
        """Return ``count`` of each row, cached by ``key``; use one key for one rule."""
        cached = self._counts.get(key)
        if cached is None:
            if len(self._counts) == KEPT_COUNTS:
                del self._counts[next(iter(self._counts))]
            cached = self._counts[key] = count, count(self.there, self.idle, self.future)
        return cached[1]

    def recount(self, rows: list[int]) -> None:
        """Count again what these rows, which were read anew, have."""
        changed = self.there[:, rows], self.idle[:, rows], self.future[:, rows]
        for count, numbers in self._counts.values():
            numbers[rows] = count(*changed)


def _there(there: Mask, idle: NDArray[np.int64], future: NDArray[np.int64]) -> NDArray[np.int64]:
    del idle, future
    return _marked(there)


def _whole_now(
    there: Mask, idle: NDArray[np.int64], future: NDArray[np.int64]
) -> NDArray[np.int64]:
    del future
    return _marked(there & (idle >= WHOLE))


def _whole_later(
    there: Mask, idle: NDArray[np.int64], future: NDArray[np.int64]
) -> NDArray[np.int64]:
    del idle
    return _marked(there & (future >= WHOLE))


def _parts(there: Mask, idle: NDArray[np.int64], future: NDArray[np.int64]) -> NDArray[np.int64]:
    del idle
    free: NDArray[np.int64] = np.where(there, future, 0).sum(axis=0)
    return free


def _marked(marks: Mask) -> NDArray[np.int64]:
    """How many devices of each row are marked."""
    count: NDArray[np.int64] = marks.sum(axis=0)
    return count


def request_of(task: TaskInfo, names: Sequence[str]) -> GpuRequest | None:
    """GPU request of a task; None for none. ``names``: of slots."""
    return request_by(task.cls, task.role.annotations, names)


def request_by(cls: TaskClass, annotations: Pairs, names: Sequence[str]) -> GpuRequest | None:
    """GPU request of a task of this class with these annotations."""
    if cls.gpu_share is not None:
        return cls.gpu_share
    gpus = sum(
        amount for slot, amount in cls.requests if slot < len(names) and names[slot].endswith("gpu")
    )
    return _written(annotations, gpus // ONE)


@byte_cache("gpu-requests", 2 * MIB)
def _written(annotations: Pairs, whole: int) -> GpuRequest | None:
    """A placing asks a dozen times for each task, and jobs are like one another."""
    return gpu_request(dict(annotations), whole)


def wants_gpus(task: TaskInfo, world: World) -> bool:
    """Whether the task asks for GPUs, or for parts of them."""
    return request_of(task, world.view.slot_names) is not None


def gpu_slots(world: World) -> list[int]:
    """The slots of resources that are GPUs: their names end so."""
    return [slot for slot, name in enumerate(world.view.slot_names) if name.endswith("gpu")]


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
    cached = world.derived.get(PREFIX)
    if isinstance(cached, _Kept) and cached.revision == view.revision:
        rows = view.changes.since(cached.cursor)
        if rows is not None and len(changed := set(rows)) <= FEW_ROWS:
            for row in changed:
                _read_row(world, cached.columns, row)
            if changed:
                cached.columns.recount([*changed])
            world.derived[PREFIX] = cached._replace(cursor=view.changes.end)
            return cached.columns
    columns = _read_columns(world)
    world.derived[PREFIX] = _Kept(columns, view.changes.end, view.revision)
    return columns


def _read_row(world: World, columns: DeviceColumns, row: int) -> None:
    for each in (columns.there, columns.idle, columns.future):
        each[:, row] = 0
    for name, idle, future in world.view.things.device_rooms(PREFIX, row):
        at = columns.names.index(name)
        columns.there[at, row], columns.idle[at, row] = True, max(idle, 0)
        columns.future[at, row] = max(future, 0)


def _read_columns(world: World) -> DeviceColumns:
    names, exists, idle, future = world.view.things.device_columns(PREFIX, world.size)
    return DeviceColumns(names, exists, np.maximum(idle, 0), np.maximum(future, 0))


def device_memory(world: World) -> NDArray[np.int64]:
    """MiB of a device, by row."""
    column = world.view.label(MEMORY_LABEL)
    memory = [memory_of(value) for value in column.values]
    found = np.full(world.size, LEAST_MEMORY, np.int64)
    codes = column.codes[: world.size]
    has_label = codes >= 0
    found[has_label] = np.array(memory, np.int64)[codes[has_label]] if memory else LEAST_MEMORY
    return found


def known_memories(world: World) -> tuple[int, int]:
    """MiB of the smallest device of any node that says it, and of the largest; (0, 0) where none
    does."""
    memories = device_memory(world)[world.view.exists()]
    labelled = memories[memories > LEAST_MEMORY]
    return (int(labelled.min()), int(labelled.max())) if len(labelled) else (0, 0)


def parts(request: GpuRequest, world: World) -> NDArray[np.int64]:
    """The parts of each device that a request comes to, by row."""
    if request.is_whole:
        return np.full(world.size, WHOLE, np.int64)
    return by_memory(request, world.view)


def by_memory(request: GpuRequest, view: NodeColumns) -> NDArray[np.int64]:
    """The parts of each device that a share comes to, by row. Memory is asked for in vain where the
    node does not say how much its devices have."""
    column = view.label(MEMORY_LABEL)
    codes = column.codes[: view.size]
    of_label = [parts_on(request, value) for value in (*column.values, "")]
    memory: NDArray[np.int64] = np.array(of_label, np.int64)[codes]  # -1, no label: the last
    return memory


def parts_on(request: GpuRequest, label: str) -> int:
    """The parts of each device of a node whose label of memory says this; "" for none."""
    if request.memory and not label.isdecimal():
        return NEVER
    return request.parts_of(memory_of(label))


def part_at(request: GpuRequest, row: int, world: World) -> int:
    """:func:`parts` of one row."""
    return WHOLE if request.is_whole else int(parts(request, world)[row])


def fitting_devices(
    request: GpuRequest, columns: DeviceColumns, world: World, *, now: bool
) -> NDArray[np.int64]:
    """How many devices of each row take such a share. Not to be changed by the caller."""
    if request.is_whole:
        return columns.counted(("whole", now), partial(_fitting, WHOLE, now))
    shares = parts(request, world)
    return _fitting(shares, now, columns.there, columns.idle, columns.future)


def _fitting(
    part: int | NDArray[np.int64],
    now: bool,
    there: Mask,
    idle: NDArray[np.int64],
    future: NDArray[np.int64],
) -> NDArray[np.int64]:
    fits: Mask = there & (future >= part)
    if now:
        only_promised = (future < WHOLE) & (idle >= WHOLE)
        fits &= (idle >= part) & ~only_promised
    return _marked(fits)


def device_checks(task: TaskInfo, world: World) -> Sequence[Check]:
    """Rows with room for the task on their devices. Of a row that declares none, whole devices are
    counted by amount alone, and no share is taken."""
    request = request_of(task, world.view.slot_names)
    if request is None:
        return ()
    columns = device_columns(world)
    fits = fitting_devices(request, columns, world, now=False) >= request.devices
    if request.is_whole:
        fits |= columns.declared == 0
    return [Check(NO_DEVICE, fits)]


def choice_at(task: TaskInfo, row: int, world: World, score: Score) -> DeviceChoice | None:
    """The devices that a task takes of a node; None for none."""
    request = request_of(task, world.view.slot_names)
    if request is None:
        return None
    columns = device_columns(world)
    device_indices = [at for at in range(len(columns.names)) if columns.there[at, row]]
    part = part_at(request, row, world)
    rooms = [columns.room(at, row) for at in device_indices]
    promised = task.nominated == row
    choice = choose(rooms, part, request.devices, score, promised=promised)
    if choice is None:
        return None
    return DeviceChoice(tuple(device_indices[at] for at in choice.devices), choice.now)


def things_of(task: TaskInfo, row: int, world: World, score: Score) -> Things:
    """Devices of the row that the task takes, as things; none where it needs or finds none."""
    choice, request = (
        choice_at(task, row, world, score),
        request_of(task, world.view.slot_names),
    )
    if choice is None or request is None:
        return ()
    names, part = world.view.things.names(PREFIX), part_at(request, row, world)
    return tuple((names[at], (part,)) for at in choice.devices)
