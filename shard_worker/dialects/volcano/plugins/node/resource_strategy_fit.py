"""resource-strategy-fit: pack some resources, spread others, and keep scarce ones free.

Each resource that the policy lists has a way, MostAllocated (packed) or LeastAllocated (spread),
and a weight; a node's score is their weighted mean over the task's requests. ``sra`` keeps tasks
off nodes with scarce resources that they do not ask for: by score (``retention``), or by a check
that leaves idle as much of the rest as the scarce one is going to need (``proportional``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check, Mask, NodeColumns, Rows, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.model import TaskClass
from shared.policy.model import PluginOption, PolicyError

FULL = 100.0
MOST, LEAST = "MostAllocated", "LeastAllocated"
TYPE_MARK = "volcano.sh/resource-strategy-scoring-type"
WEIGHT_MARK = "volcano.sh/resource-strategy-weight"
"""Annotations of a pod: one strategy for all resources, and their weights as a JSON object."""
SHORT = "node(s) must keep idle what their scarce resources need"


@dataclass(frozen=True, slots=True)
class ResourceStrategy:
    """The strategy and weight of one resource."""

    most: bool
    weight: float


DEFAULT_WAYS = {"cpu": ResourceStrategy(False, 1.0), "memory": ResourceStrategy(False, 1.0)}


class ResourceStrategyFit:
    """Arguments: ``resourceStrategyFitWeight`` (10), ``resources`` ({name: {type, weight}}; a name
    may end in ``/*``), ``sra.policy``, ``sra.resources``, ``sra.retention.weight`` (1),
    ``sra.retention.<name>`` (1), ``sra.proportional.<name>.<other>``."""

    name = "resource-strategy-fit"

    def __init__(self, option: PluginOption) -> None:
        self._strategy = StrategyScorer(
            weight=option.number("resourceStrategyFitWeight", 10.0), ways=_ways(option)
        )
        listed = [part.strip() for part in option.text("sra.resources").split(",")]
        self._scarce = {
            name: option.number(f"sra.retention.{name}", 1.0) for name in listed if name
        }
        self._policy = option.text("sra.policy")
        if self._policy not in ("", "retention", "proportional"):
            raise PolicyError(
                f"plugin {self.name}: sra.policy {self._policy!r} is not known; "
                "write retention or proportional"
            )
        self._retention = option.number("sra.retention.weight", 1.0)
        self._shares = {
            (name, resource): option.number(f"sra.proportional.{name}.{resource}", 0.0)
            for name in self._scarce
            for resource in _others(option, name)
        }

    def on_session_open(self, ssn: Session) -> None:
        ssn.read_annotations(TYPE_MARK, WEIGHT_MARK)
        ssn.add_node_order_fn(scorer=self._strategy)
        ssn.add_batch_node_order_fn(self._by_annotation, concerns=lambda cls: False)
        if self._policy == "retention" and self._scarce:
            ssn.add_node_order_fn(scorer=Retention(weight=self._retention, scarce=self._scarce))
        if self._policy == "proportional" and self._shares:
            ssn.add_live_predicate_fn(self._keeps_idle, scope=Scope.NODE, whole_pod=False)

    def _by_annotation(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """The pod's own strategy minus the policy's, as a score: the sum with the policy's is the
        pod's."""
        strategy = self._strategy.overridden(dict(task.role.annotations))
        if strategy is None:
            return np.zeros(len(rows))
        # The policy's score is in the sum already, for every task alike.
        return strategy.rows(task.cls, world.view, rows) - self._strategy.rows(
            task.cls, world.view, rows
        )

    def _keeps_idle(self, task: TaskInfo, world: World) -> list[Check]:
        """Check that a task without scarce resources leaves idle what tasks with them need
        besides."""
        names = world.view.slot_names
        slots = {name: slot for slot, name in enumerate(names)}
        requested = dict(task.requests)
        if any(slots.get(name) in requested for name in self._scarce):
            return []
        passes: Mask = np.ones(world.size, np.bool_)
        for (scarce, resource), share in self._shares.items():
            if scarce not in slots or resource not in slots:
                continue
            # What is idle of the scarce resource, not what there is: tasks that use the rest have
            # their share already.
            reserve = world.idle(slots[scarce]) / 1000 * share * _unit(resource)
            has = world.view.column("allocatable", slots[scarce]) > 0
            remaining = world.idle(slots[resource]) - requested.get(slots[resource], 0)
            passes &= ~has | (remaining >= reserve)
        return [Check(SHORT, passes)]


class StrategyScorer:
    """The scorer by the strategy and weight of each resource."""

    node_local = True

    def __init__(self, *, weight: float, ways: Mapping[str, ResourceStrategy]) -> None:
        self._weight = weight
        self._ways = ways

    def overridden(self, marks: Mapping[str, str]) -> StrategyScorer | None:
        """This strategy with a pod's annotations applied; None if they change nothing."""
        kind, weights = marks.get(TYPE_MARK, ""), _weights(marks.get(WEIGHT_MARK, ""))
        if kind not in (MOST, LEAST) or not weights:
            return None
        ways = {name: ResourceStrategy(kind == MOST, weight) for name, weight in weights.items()}
        return StrategyScorer(weight=self._weight, ways=ways)

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Scores:
        total = np.zeros(len(view.column("used", 0)[rows]))
        weights = 0.0
        for slot, amount, way in self._counted(cls, view):
            capacity = view.column("allocatable", slot)[rows]
            after = view.column("used", slot)[rows] + amount
            fits = (capacity > 0) & (after <= capacity)
            part = np.where(fits, after / np.maximum(capacity, 1), 0.0 if way.most else 1.0)
            total += way.weight * (part if way.most else 1.0 - part)
            weights += way.weight
        return total / (weights or 1.0) * (FULL * self._weight)

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        total = weights = 0.0
        for slot, amount, way in self._counted(cls, view):
            capacity = view.column("allocatable", slot).item(row)
            after = view.column("used", slot).item(row) + amount
            part = after / capacity if 0 < capacity >= after else 0.0 if way.most else 1.0
            total += way.weight * (part if way.most else 1.0 - part)
            weights += way.weight
        return total / (weights or 1.0) * (FULL * self._weight)

    def _counted(
        self, cls: TaskClass, view: NodeColumns
    ) -> list[tuple[int, int, ResourceStrategy]]:
        """(slot, requested amount, strategy) of each requested resource that is listed."""
        names = view.slot_names
        counted = []
        for slot, amount in cls.requests:
            way = self._way(names[slot]) if slot < len(names) else None
            if way is not None:
                counted.append((slot, amount, way))
        return counted

    def _way(self, name: str) -> ResourceStrategy | None:
        """The entry of this exact name, else of the longest pattern that matches."""
        if name in self._ways:
            return self._ways[name]
        fits = [p for p in self._ways if p.endswith("*") and name.startswith(p[:-1])]
        return self._ways[max(fits, key=len)] if fits else None


class Retention:
    """Scores nodes without scarce resources higher; 0 if the request does not fit."""

    node_local = True

    def __init__(self, *, weight: float, scarce: Mapping[str, float]) -> None:
        self._best = FULL * weight
        self._scarce = scarce
        self._sum = sum(scarce.values()) or 1.0

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Scores:
        size = len(view.column("used", 0)[rows])
        fits = np.ones(size, np.bool_)
        for slot, amount in cls.requests:
            fits &= view.column("allocatable", slot)[rows] >= amount
        lacking = np.zeros(size)
        names = list(view.slot_names)
        for name, weight in self._scarce.items():
            if name in names:
                lacking += weight * (view.column("allocatable", names.index(name))[rows] <= 0)
            else:
                lacking += weight
        return np.where(fits, self._best * lacking / self._sum, 0.0)

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        return float(self.rows(cls, view, np.array([row]))[0])


def _ways(option: PluginOption) -> dict[str, ResourceStrategy]:
    written = option.mapping("resources")
    ways: dict[str, ResourceStrategy] = {}
    for name, entry in written.items():
        if not isinstance(entry, Mapping):
            raise PolicyError(
                f"plugin {option.name}: resources.{name} is not a mapping of type and weight"
            )
        kind, weight = entry.get("type", LEAST), entry.get("weight", 1)
        if kind not in (MOST, LEAST):
            raise PolicyError(
                f"plugin {option.name}: resources.{name}.type {kind!r} is not known; "
                f"write {MOST} or {LEAST}"
            )
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            raise PolicyError(
                f"plugin {option.name}: resources.{name}.weight {weight!r} is not a number from 0"
            )
        if "*" in name[:-1] or name == "*":
            raise PolicyError(
                f"plugin {option.name}: resources.{name}: only a name that ends in /* is a pattern"
            )
        ways[name] = ResourceStrategy(kind == MOST, float(weight))
    return ways or DEFAULT_WAYS


def _others(option: PluginOption, scarce: str) -> list[str]:
    start = f"sra.proportional.{scarce}."
    return [key.removeprefix(start) for key in option.arguments if key.startswith(start)]


def _weights(text: str) -> dict[str, float]:
    """The weights in an annotation: numbers of at least 0; empty if it is not a JSON object."""
    try:
        written = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(written, dict):
        return {}
    numbers = {n: w for n, w in written.items() if isinstance(w, int | float) and w >= 0}
    return {name: float(weight) for name, weight in numbers.items()}


def _unit(resource: str) -> int:
    """One unit of a resource as people count it (a core, a gigabyte), in the unit of its slot."""
    return 10**9 if resource == "memory" else 1000
