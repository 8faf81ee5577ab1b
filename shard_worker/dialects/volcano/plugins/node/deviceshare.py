"""deviceshare: parts of GPUs, judged device by device and not by the node's sums.

Three ways to ask, each switched on by an argument: memory of one GPU (``volcano.sh/gpu-memory``),
whole GPUs (``volcano.sh/gpu-number``), and virtual GPUs (``volcano.sh/vgpu-number`` of them, each
with ``vgpu-memory`` and ``vgpu-cores``, on as many different devices).

In a worker the ledger says what is free of each device, and which devices a task takes travels with
its placement. In a session over everything a pod's annotation says which device it has; for tasks
without it the choice is made again in the order in which they came, which gives the same result by
the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import LIVE_PREDICATE
from shard_worker.framework.rules import Check, Mask, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Demand
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.model.model import TaskClass
from shared.model.named_devices import GPU, VGPU
from shared.model.node_devices import (
    ALL_CORES,
    ASSIGNED,
    CORES,
    DIMENSIONS,
    GPU_MEMORY,
    GPU_NUMBER,
    MEMORY,
    SHARES,
    UNIT,
    node_devices,
)
from shared.policy.model import PluginOption, PolicyError
from shared.units.things import Things

VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_CORES = "volcano.sh/vgpu-cores"
FULL = 100.0
NO_DEVICE = "node(s) had no GPU with enough left"
BINPACK, SPREAD = "binpack", "spread"


@dataclass(slots=True)
class SharedGpu:
    """A GPU and what tasks use of it."""

    name: str
    """Name of the thing in the ledger."""
    id: str
    shares: int
    """Maximum number of tasks that share it."""
    memory: int
    users: int = 0
    used_memory: int = 0
    used_cores: int = 0

    def takes(self, ask: GpuShareRequest) -> bool:
        if self.users >= self.shares or self.used_cores >= ALL_CORES:
            return False
        if self.users + self.share(ask) > self.shares:
            return False
        return (
            self.used_memory + self.need(ask) <= self.memory
            and self.used_cores + ask.cores <= ALL_CORES
        )

    def need(self, ask: GpuShareRequest) -> int:
        """Memory of this device that the request takes: what it asks for, else all of it."""
        return self.memory if ask.memory is None else ask.memory

    def share(self, ask: GpuShareRequest) -> int:
        """How many of the device's places for tasks the request uses: all of them if it asks for
        all cores."""
        return self.shares if ask.cores == ALL_CORES else 1

    def part(self, ask: GpuShareRequest) -> tuple[str, tuple[int, int, int]]:
        """Share, memory and cores that the request takes of the device."""
        return self.name, (self.share(ask), self.need(ask), ask.cores)

    def give(self, ask: GpuShareRequest, times: int = 1) -> None:
        self.users += times * self.share(ask)
        self.used_memory += times * self.need(ask)
        self.used_cores += times * ask.cores


@dataclass(frozen=True, slots=True)
class GpuShareRequest:
    """A task's request: a number of devices, and the part of each that it takes."""

    devices: int
    memory: int | None
    """None: all memory of the device."""
    cores: int


class DeviceShare:
    """Arguments: ``deviceshare.GPUSharingEnable``, ``deviceshare.GPUNumberEnable``,
    ``deviceshare.VGPUEnable`` (all false), ``deviceshare.SchedulePolicy`` (binpack or spread),
    ``deviceshare.ScheduleWeight`` (0), ``deviceshare.NodeLockEnable`` (the ledger lets two tasks
    take one device's share as little with it as without)."""

    name = "deviceshare"

    def __init__(self, option: PluginOption) -> None:
        self._sharing = option.switch("deviceshare.GPUSharingEnable", False)
        self._number = option.switch("deviceshare.GPUNumberEnable", False)
        self._vgpu = option.switch("deviceshare.VGPUEnable", False)
        option.switch("deviceshare.NodeLockEnable", False)
        self._policy = option.text("deviceshare.SchedulePolicy") or BINPACK
        if self._policy not in (BINPACK, SPREAD):
            raise PolicyError(
                f"plugin deviceshare: deviceshare.SchedulePolicy {self._policy!r} is not known; "
                f"write {BINPACK} or {SPREAD}"
            )
        self._weight = option.number("deviceshare.ScheduleWeight", 0.0)
        self._prefix = VGPU if self._vgpu else GPU
        if self._sharing and self._number:
            raise PolicyError(
                "plugin deviceshare: GPUSharingEnable and GPUNumberEnable exclude one another; "
                "set one of them to false"
            )

    def on_session_open(self, ssn: Session) -> None:
        switches = {
            Demand.GPU_MEMORY: self._sharing,
            Demand.GPU_NUMBER: self._number,
            Demand.VGPU: self._vgpu,
        }
        ssn.serve(*(demand for demand, on in switches.items() if on), at=LIVE_PREDICATE)
        if not (self._sharing or self._number or self._vgpu):
            return
        ssn.add_live_predicate_fn(self._fits, scope=Scope.NODE, concerns=self._may_ask)
        if self._weight:
            ssn.add_batch_node_order_fn(self._score, concerns=self._may_ask)
        ssn.add_device_choice_fn(self._take, concerns=self._may_ask)
        ssn.add_devices_idle_fn(self._idle, concerns=self._may_ask)

    def _may_ask(self, cls: TaskClass) -> bool:
        """Whether tasks of the class may ask for devices: true for every class with more than cpu,
        memory and pods, since slots are not known by name here."""
        return any(slot > 2 for slot, _ in cls.requests)

    def _fits(self, task: TaskInfo, world: World) -> list[Check]:
        """Nodes whose devices have room once all that leaves has left. Volcano looks at what is
        on them now, and its preempt does not ask once more whether its victims made room."""
        ask = self.ask(task, world)
        return [] if ask is None else [Check(NO_DEVICE, self._rows(ask, world, later=True))]

    def _idle(self, task: TaskInfo, world: World) -> Mask:
        """Nodes whose devices have room now."""
        ask = self.ask(task, world)
        return world.view.exists() if ask is None else self._rows(ask, world, later=False)

    def _rows(self, ask: GpuShareRequest, world: World, *, later: bool) -> Mask:
        if not world.whole:
            return self._able(ask, world, later=later) >= ask.devices
        mask: Mask = np.ones(world.size, np.bool_)
        for row, node in enumerate(world.view.nodes):
            if node is not None:
                devices = self.devices(world, row, later=later)
                mask[row] = self._pick(devices, ask) is not None
        return mask

    def _able(self, ask: GpuShareRequest, world: World, *, later: bool) -> NDArray[np.int64]:
        """How many devices of each row take the request: :meth:`SharedGpu.takes` over all rows."""
        things, size = world.view.things, world.size
        able = np.zeros(size, np.int64)
        for name in things.names(self._prefix):
            offered = things.offered(name, DIMENSIONS, size)
            free = things.free(name, DIMENSIONS, size, later=later)
            memory = offered[MEMORY] if ask.memory is None else ask.memory
            shares = offered[SHARES] if ask.cores == ALL_CORES else 1
            fits = (free[SHARES] >= np.maximum(shares, 1)) & (free[MEMORY] >= memory)
            able += fits & (free[CORES] >= max(ask.cores, 1))
        return able

    def _take(self, task: TaskInfo, row: int, world: World) -> Things:
        """The devices that the task takes of a node it is placed on."""
        ask = self.ask(task, world)
        if ask is None:
            return ()
        return tuple(device.part(ask) for device in self._choose(task, world, row) or ())

    def _score(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """binpack: the fuller the chosen devices the higher; spread: the emptier the higher."""
        score = np.zeros(len(rows))
        ask = self.ask(task, world)
        if ask is None:
            return score
        for i, row in enumerate(rows.tolist()):
            chosen = self._choose(task, world, row)
            if chosen:
                used = [(d.used_memory + d.need(ask)) / (d.memory or 1) for d in chosen]
                part = sum(used) / len(used)
                score[i] = FULL * (part if self._policy == BINPACK else 1.0 - part)
        scaled: Scores = score * self._weight
        return scaled

    # --- devices ------------------------------------------------------------------------------

    def ask(self, task: TaskInfo, world: World) -> GpuShareRequest | None:
        """The task's device request; None if it uses none of the enabled ways to ask."""
        amounts = {
            world.view.slot_name(slot): amount // UNIT for slot, amount in task.requests if slot > 2
        }
        if self._vgpu and amounts.get(VGPU_NUMBER):
            memory = amounts.get(VGPU_MEMORY)
            return GpuShareRequest(amounts[VGPU_NUMBER], memory, amounts.get(VGPU_CORES, 0))
        if self._number and amounts.get(GPU_NUMBER):
            return GpuShareRequest(amounts[GPU_NUMBER], None, ALL_CORES)
        if self._sharing and amounts.get(GPU_MEMORY):
            return GpuShareRequest(1, amounts[GPU_MEMORY], 0)
        return None

    def _choose(self, task: TaskInfo, world: World, row: int) -> list[SharedGpu] | None:
        """The devices that the task gets on a node: free now, or else once all that leaves has
        left; None if the node cannot serve it."""
        ask = self.ask(task, world)
        if ask is None:
            return None
        now = self._pick(self.devices(world, row), ask)
        return self._pick(self.devices(world, row, later=True), ask) if now is None else now

    def _pick(self, devices: list[SharedGpu], ask: GpuShareRequest) -> list[SharedGpu] | None:
        sign = -1 if self._policy == BINPACK else 1
        able = [device for device in devices if device.takes(ask)]
        able.sort(key=lambda d: (sign * d.used_memory, sign * d.users))
        return able[: ask.devices] if len(able) >= ask.devices else None

    def devices(self, world: World, row: int, *, later: bool = False) -> list[SharedGpu]:
        """The node's devices, with their usage: of now, or once all that leaves has left and who
        was promised a device has it."""
        devices = [
            SharedGpu(device.name, device.id, device.capacity[SHARES], device.capacity[MEMORY])
            for device in node_devices(world.node(row), world.view.slot_names)
            if device.name.startswith(self._prefix)
        ]
        if world.whole:
            self._count_residents(devices, world, row, later=later)
        else:
            for device in devices:
                _read_usage(device, world, row, later=later)
        return devices

    def _count_residents(
        self, devices: list[SharedGpu], world: World, row: int, *, later: bool
    ) -> None:
        """Add the usage of the tasks on the node, as they came. ``later``: then without those that
        leave, and with those that are promised a place."""
        leaving: list[tuple[SharedGpu, GpuShareRequest]] = []
        promised: list[tuple[TaskInfo, GpuShareRequest]] = []
        for resident in world.tasks_on(row):
            ask = self.ask(resident, world)
            if ask is None:
                continue
            if resident.status is Status.PIPELINED:
                promised.append((resident, ask))
                continue
            for device in self._taken(resident, ask, devices):
                device.give(ask)
                if resident.status is Status.RELEASING:
                    leaving.append((device, ask))
        if later:
            # After all who are there were counted: where no annotation says it, who leaves decides
            # which device the others are found on.
            for device, ask in leaving:
                device.give(ask, -1)
            for task, ask in promised:
                for device in self._taken(task, ask, devices):
                    device.give(ask)

    def _taken(
        self, task: TaskInfo, ask: GpuShareRequest, devices: list[SharedGpu]
    ) -> Sequence[SharedGpu]:
        """The devices of its node that a task has."""
        placed = {name for name, _ in task.devices}
        assigned = dict(task.role.annotations).get(ASSIGNED, "")
        chosen = [
            device
            for device in devices
            if device.name in placed or (device.id and device.id in assigned and not placed)
        ]
        return chosen or self._pick(devices, ask) or ()


def _read_usage(device: SharedGpu, world: World, row: int, *, later: bool) -> None:
    """Read the device's usage from the ledger: the node's present declaration may be ahead of
    it."""
    offered, free = world.view.things.at(device.name, DIMENSIONS, row, later=later)
    device.shares, device.memory = offered[SHARES], offered[MEMORY]
    device.users = device.shares - free[SHARES]
    device.used_memory = device.memory - free[MEMORY]
    device.used_cores = offered[CORES] - free[CORES]
