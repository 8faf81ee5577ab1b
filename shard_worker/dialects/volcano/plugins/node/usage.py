"""usage: really busy nodes take nothing, and the idler ones are preferred.

Usage comes from a metrics source that the coordinator asks; a node without figures passes, and
scores nothing. What the session placed since is estimated from its requests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check, Mask, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.policy.model import PluginOption, PolicyError
from shared.units.slots import CPU, MEMORY

PERCENT = 100.0
DEFAULT_THRESHOLD = 80.0
FRESH = Status.ALLOCATED | Status.BINDING
"""Tasks placed so recently that the metrics cannot include them."""
BUSY = {
    CPU: "node(s) use more of their CPU than the threshold allows",
    MEMORY: "node(s) use more of their memory than the threshold allows",
}
KEY = {CPU: "cpu", MEMORY: "memory"}


class Usage:
    """Arguments: ``usage.weight`` (5), ``cpu.weight`` (1), ``memory.weight`` (1), ``thresholds``
    ({cpu: 80, mem: 80}, percent), ``estimator`` ({request_ratio: 0.7})."""

    name = "usage"

    def __init__(self, option: PluginOption) -> None:
        self._weight = option.number("usage.weight", 5.0)
        self._parts = {
            CPU: option.number("cpu.weight", 1.0),
            MEMORY: option.number("memory.weight", 1.0),
        }
        thresholds = option.mapping("thresholds")
        self._most = {
            CPU: _percent(thresholds, "cpu"),
            MEMORY: _percent(thresholds, "mem"),
        }
        self._ratio = _number(option.mapping("estimator"), "request_ratio", 0.7)

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_live_predicate_fn(self._busy, scope=Scope.NODE, whole_pod=False)
        ssn.add_batch_node_order_fn(self._idler)

    def _busy(self, task: TaskInfo, world: World) -> list[Check]:
        return [
            # Written with a negation: a node without figures is NaN, and no comparison with it is
            # true.
            Check(BUSY[slot], ~(self._used(slot, world) > most), curable=False)
            for slot, most in self._most.items()
        ]

    def _idler(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        total = np.zeros(len(rows))
        for slot, weight in self._parts.items():
            used = self._used(slot, world)[rows]
            total += weight * np.where(np.isnan(used), 0.0, np.maximum(PERCENT - used, 0.0))
        scaled: Scores = total / (sum(self._parts.values()) or 1.0) * self._weight
        return scaled

    def _used(self, slot: int, world: World) -> NDArray[np.float64]:
        """Percent in use per row; NaN without metrics."""
        used = np.full(world.size, np.nan)
        for row, node in enumerate(world.view.nodes):
            figures = None if node is None else world.objects.usage.get(node.name)
            if figures is not None and KEY[slot] in figures:
                used[row] = figures[KEY[slot]]
        if self._ratio:
            used += self._estimated(slot, world)
        return used

    def _estimated(self, slot: int, world: World) -> NDArray[np.float64]:
        """Percent per row that tasks placed by this session are estimated to use."""
        more = np.zeros(world.size)
        for task in world.linked_residents():
            if task.status & FRESH:
                more[task.row] += dict(task.requests).get(slot, 0)
        offered: NDArray[np.int64] = world.view.column("allocatable", slot)
        has: Mask = offered > 0
        part: NDArray[np.float64] = np.where(has, more / np.maximum(offered, 1), 0.0)
        return part * self._ratio * PERCENT


def _percent(values: Mapping[str, object], name: str) -> float:
    most = _number(values, name, DEFAULT_THRESHOLD)
    if not 0 <= most <= PERCENT:
        raise PolicyError(f"plugin usage: thresholds.{name} {most:g} is not from 0 to 100")
    return most


def _number(values: Mapping[str, object], name: str, default: float) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"plugin usage: {name} {value!r} is not a number")
    return float(value)
