"""rescheduling: move tasks from busy nodes to idle ones, by way of the action shuffle.

The one strategy is ``lowNodeUtilization``: nodes below every threshold can take more; nodes above
any target give tasks away, least important first, until they are at their targets or the idle nodes
are. Usage comes from a metrics source, else from the requests of the tasks there; Volcano needs the
metrics. When it ran last is kept by each worker from session to session (decision 0034).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Mask
from shard_worker.framework.session import Session
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.constraints import Requirement
from shared.model.label_selector import matches
from shared.policy.model import PluginOption, PolicyError
from shared.units.slots import CPU, MEMORY, PODS

INTERVAL = 300.0
LAST = "rescheduling: looked at"
FULL = 100.0
LOW_NODE_UTILIZATION = "lowNodeUtilization"
DIMENSIONS = {"cpu": CPU, "memory": MEMORY, "pods": PODS}
PARAMETERS = (
    "nodeFit",
    "numberOfNodes",
    "targetThresholds",
    "thresholdPriority",
    "thresholdPriorityClassName",
    "thresholds",
)
Amounts = dict[int, NDArray[np.float64]]
"""Slot -> a value per row."""


@dataclass(frozen=True, slots=True)
class LowNodeUtilization:
    """Percent of allocatable by slot; slots that are not named do not count."""

    low: dict[int, float]
    target: dict[int, float]
    node_fit: bool = True
    number_of_nodes: int = 0
    """Tasks are moved only if more nodes than this are idle."""
    priority: int | None = None
    """Tasks of this priority or above are not moved."""
    priority_class: str = ""


class Rescheduling:
    """Arguments: ``interval`` (5m), ``strategies`` (a list of names and params),
    ``queueSelector`` (a list of queues), ``labelSelector`` (labels of pods)."""

    name = "rescheduling"

    def __init__(self, option: PluginOption) -> None:
        self._interval = option.duration("interval", INTERVAL)
        option.duration("metricsPeriod", INTERVAL)  # how often to fetch is up to the coordinator
        self._queues = [str(name) for name in _list(option, "queueSelector")]
        self._selector = tuple(
            Requirement(key=key, operator="In", values=(str(value),))
            for key, value in option.mapping("labelSelector").items()
        )
        self._strategies = [_strategy(entry) for entry in _list(option, "strategies")]
        self._ssn: Session | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        ssn.add_victim_tasks_fn(self.victims)

    def victims(self, running: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
        """The tasks that each strategy moves; computed once per interval."""
        if self._ssn is None:
            return []
        memory = self._ssn.memory
        if world.now < memory.get(LAST, -np.inf) + self._interval:
            return []
        # Before anything is found: a look that finds nothing to move is not repeated in every
        # shuffle.
        memory[LAST] = world.now
        movable = [task for task in running if task.preemptable and self._selected(task)]
        named: dict[TaskInfo, None] = {}
        for strategy in self._strategies:
            named.update(dict.fromkeys(_Balance(self._ssn, strategy).victims(movable)))
        return list(named)

    def _selected(self, task: TaskInfo) -> bool:
        queue = task.job.queue
        if self._queues and (queue is None or queue.queue.name not in self._queues):
            return False
        return matches(self._selector, dict(task.role.labels))


class _Balance:
    """One run of the strategy over a world."""

    def __init__(self, ssn: Session, strategy: LowNodeUtilization) -> None:
        self._ssn = ssn
        self._strategy = strategy
        self._world = ssn.world
        slots = sorted({*strategy.low, *strategy.target})
        self._offered: Amounts = {
            slot: self._world.view.column("allocatable", slot).astype(np.float64) for slot in slots
        }
        self._used: Amounts = {slot: self._in_use(slot) for slot in slots}

    def victims(self, movable: Sequence[TaskInfo]) -> list[TaskInfo]:
        exists = self._world.in_reach()
        able = exists & ~self._world.view.unschedulable()
        busy = exists & ~self._below(self._strategy.target, reached=True)
        idle = able & ~busy & self._below(self._strategy.low)
        if not busy.any() or int(idle.sum()) <= self._strategy.number_of_nodes:
            return []
        room = {
            slot: float((self._goal(slot) - self._used[slot])[idle].sum()) for slot in self._used
        }
        chosen: list[TaskInfo] = []
        for row in self._busiest_first(np.flatnonzero(busy)):
            chosen += self._from(row, movable, idle, room)
        return chosen

    def _from(
        self, row: int, movable: Sequence[TaskInfo], idle: Mask, room: dict[int, float]
    ) -> list[TaskInfo]:
        """The tasks to move off one busy node; subtracts them from the ``room`` of the idle
        nodes."""
        residents = [task for task in movable if task.row == row and not self._stays(task)]
        leaving: list[TaskInfo] = []
        for task in sorted(residents, key=lambda task: (not task.best_effort, task.priority)):
            if all(self._used[slot][row] <= self._goal(slot)[row] for slot in self._used):
                break
            asks = {slot: amount for slot, amount in task.requests if slot in self._used}
            if any(room[slot] < amount for slot, amount in asks.items()):
                continue
            if self._strategy.node_fit and not feasible(self._ssn, task, within=idle).mask.any():
                continue
            for slot, amount in asks.items():
                room[slot] -= amount
                self._used[slot][row] -= amount
            leaving.append(task)
        return leaving

    def _stays(self, task: TaskInfo) -> bool:
        limit = self._strategy.priority
        named = self._world.priority_classes.get(self._strategy.priority_class)
        if limit is None and named is not None:
            limit = named.value
        return limit is not None and task.priority >= limit

    def _busiest_first(self, rows: NDArray[np.intp]) -> list[int]:
        share = np.zeros(self._world.size)
        for slot, used in self._used.items():
            share += used / np.maximum(self._offered[slot], 1.0)
        ordered: list[int] = rows[np.argsort(-share[rows], kind="stable")].tolist()
        return ordered

    def _below(self, limits: Mapping[int, float], *, reached: bool = False) -> Mask:
        """Rows where every amount is below its limit, or at it too with ``reached``."""
        below: Mask = np.ones(self._world.size, np.bool_)
        for slot, percent in limits.items():
            limit = self._offered[slot] * percent / 100
            below &= self._used[slot] <= limit if reached else self._used[slot] < limit
        return below

    def _goal(self, slot: int) -> NDArray[np.float64]:
        goal: NDArray[np.float64] = (
            self._offered[slot] * self._strategy.target.get(slot, FULL) / 100
        )
        return goal

    def _in_use(self, slot: int) -> NDArray[np.float64]:
        """Usage as reported by a metrics source; else the requests of the tasks that stay."""
        world = self._world
        staying = world.view.column("used", slot) - world.view.column("releasing", slot)
        used: NDArray[np.float64] = staying.astype(np.float64)
        name = {CPU: "cpu", MEMORY: "memory"}.get(slot, "")
        for row, node in enumerate(world.view.nodes):
            measured = {} if node is None else world.objects.usage.get(node.name, {})
            if name in measured:
                used[row] = measured[name] * self._offered[slot][row] / 100
        return used


def _list(option: PluginOption, argument: str) -> Sequence[object]:
    value = option.arguments.get(argument, [])
    if isinstance(value, list):
        return value
    raise PolicyError(f"plugin rescheduling: argument {argument} is not a list")


def _strategy(entry: object) -> LowNodeUtilization:
    if not isinstance(entry, Mapping) or entry.get("name") != LOW_NODE_UTILIZATION:
        raise PolicyError(
            f"plugin rescheduling: a strategy is {{name: {LOW_NODE_UTILIZATION}, params: ...}}; "
            "there is no other"
        )
    params = entry.get("params") or {}
    if not isinstance(params, Mapping):
        raise PolicyError("plugin rescheduling: params of a strategy are not a mapping")
    for name in params:
        if name not in PARAMETERS:
            raise PolicyError(
                f"plugin rescheduling: a strategy has no parameter {name!r}; "
                f"it has {', '.join(PARAMETERS)}"
            )
    priority = params.get("thresholdPriority")
    return LowNodeUtilization(
        low=_thresholds(params, "thresholds"),
        target=_thresholds(params, "targetThresholds"),
        node_fit=params.get("nodeFit", True) is True,
        number_of_nodes=_whole(params.get("numberOfNodes", 0), "numberOfNodes"),
        priority=None if priority is None else _whole(priority, "thresholdPriority"),
        priority_class=str(params.get("thresholdPriorityClassName", "")),
    )


def _whole(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PolicyError(f"plugin rescheduling: {name} is not a whole number")


def _thresholds(params: Mapping[str, object], name: str) -> dict[int, float]:
    """Percent by slot; a slot that is not named is 100."""
    written = params.get(name) or {}
    if not isinstance(written, Mapping):
        raise PolicyError(f"plugin rescheduling: {name} is not a mapping of percentages")
    limits = dict.fromkeys(DIMENSIONS.values(), FULL)
    for resource, percent in written.items():
        if resource not in DIMENSIONS or not isinstance(percent, int | float) or percent < 0:
            raise PolicyError(
                f"plugin rescheduling: {name} {resource}: {percent!r} is not a percentage of "
                f"{', '.join(DIMENSIONS)}"
            )
        limits[DIMENSIONS[resource]] = float(percent)
    return limits
