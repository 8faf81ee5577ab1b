"""binpack: the fuller a node would be with the task on it, the better.

Score: 100 * weight * the weighted mean, over the resources the task asks for and the policy weighs,
of (used + asked) / allocatable. A resource that would overflow counts 0. Volcano's formula; what is
only promised on a node does not count as used here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import NodeColumns, Rows
from shard_worker.framework.session import Session
from shared.model.model import TaskClass
from shared.policy.model import PluginOption

FULL = 100
PREFIX = "binpack.resources."


class Binpack:
    name = "binpack"

    def __init__(self, option: PluginOption) -> None:
        self._weight = option.whole("binpack.weight", 1)
        self._unlisted: list[str] = []
        self._weights = self._resource_weights(option)

    def _resource_weights(self, option: PluginOption) -> dict[str, int]:
        """Resource name -> weight. Negative weights become 1, as in Volcano."""
        listed = [name.strip() for name in option.text("binpack.resources").split(",")]
        weights = {name: option.whole(f"{PREFIX}{name}", 1) for name in listed if name}
        self._unlisted = [
            argument
            for argument in option.arguments
            if argument.startswith(PREFIX) and argument.removeprefix(PREFIX) not in weights
        ]
        weights["cpu"] = option.whole("binpack.cpu", 1)
        weights["memory"] = option.whole("binpack.memory", 1)
        return {name: weight if weight >= 0 else 1 for name, weight in weights.items()}

    def on_session_open(self, ssn: Session) -> None:
        if self._weight:
            ssn.add_node_order_fn(scorer=Fullness(weight=self._weight, weights=self._weights))
        for argument in self._unlisted:
            ssn.warn(f"{argument}: has no effect until binpack.resources lists the resource")


class Fullness:
    """binpack's scorer. ``weights``: resource name -> weight."""

    node_local = True

    def __init__(self, *, weight: int, weights: dict[str, int]) -> None:
        self._best = float(FULL * weight)
        self._weights = weights

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        weighed = self._weighed(cls, view)
        total = np.zeros(len(view.column("used", 0)[rows]))
        for slot, request, weight in weighed:
            capacity = view.column("allocatable", slot)[rows]
            after = view.column("used", slot)[rows] + request
            fits = (after <= capacity) & (capacity > 0)
            total += np.where(fits, after * weight / np.maximum(capacity, 1), 0.0)
        sum_weights = sum(weight for _, _, weight in weighed)
        return total / (sum_weights or 1) * self._best

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        total = sum_weights = 0.0
        for slot, request, weight in self._weighed(cls, view):
            capacity = view.column("allocatable", slot).item(row)
            after = view.column("used", slot).item(row) + request
            if 0 < capacity >= after:
                total += after * weight / capacity
            sum_weights += weight
        return total / (sum_weights or 1) * self._best

    def _weighed(self, cls: TaskClass, view: NodeColumns) -> list[tuple[int, int, float]]:
        """(slot, requested amount, weight) of each requested resource that has a weight."""
        names, weights = view.slot_names, self._weights
        return [
            (slot, amount, float(weights[names[slot]]))
            for slot, amount in cls.requests
            if slot < len(names) and names[slot] in weights
        ]
