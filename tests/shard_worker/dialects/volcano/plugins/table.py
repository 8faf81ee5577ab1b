"""Nodes as columns, built from plain values: what plugins see of a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.view.coded_column import CodedColumn
from shared.model.constraints import Taint
from shared.model.model import Node, TaskClass
from shared.units.slots import CPU, MEMORY, PODS

GPU = 3
MI = 1 << 20
GI = 1 << 30


class Table:
    """Satisfies NodeColumns. ``amounts[kind][slot]`` holds one value per row."""

    def __init__(
        self,
        nodes: Sequence[Node | None],
        *,
        used: Sequence[Mapping[int, int]] = (),
        slot_names: Sequence[str] = ("cpu", "memory", "pods", "nvidia.com/gpu"),
    ) -> None:
        self.nodes = list(nodes)
        self.slot_names = list(slot_names)
        offered = [dict(node.allocatable) if node else {} for node in nodes]
        used_rows = [dict(row) for row in used] or [{} for _ in nodes]
        self._amounts = {"allocatable": offered, "used": used_rows}

    @property
    def size(self) -> int:
        return len(self.nodes)

    def column(self, kind: str, slot: int) -> NDArray[np.int64]:
        rows = self._amounts.get(kind) or [{} for _ in self.nodes]
        return np.array([row.get(slot, 0) for row in rows], dtype=np.int64)

    def label(self, key: str) -> CodedColumn[str]:
        return CodedColumn(lambda node: node.labels.get(key), self.nodes)

    def taints(self) -> CodedColumn[tuple[Taint, ...]]:
        return CodedColumn(lambda node: node.taints, self.nodes)

    def images(self) -> CodedColumn[tuple[tuple[str, int], ...]]:
        return CodedColumn(lambda node: node.images, self.nodes)

    def looks(self) -> CodedColumn[tuple[str, ...]]:
        return CodedColumn(lambda node: (node.name,), self.nodes)

    def unschedulable(self) -> NDArray[np.bool_]:
        return np.array([n is not None and n.unschedulable for n in self.nodes], dtype=np.bool_)


def node(
    row: int = 0,
    *,
    cpu: int = 4000,
    memory: int = 8 * GI,
    gpu: int = 0,
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    unschedulable: bool = False,
) -> Node:
    offers = ((CPU, cpu), (MEMORY, memory), (PODS, 110), (GPU, gpu))
    return Node(
        row=row,
        name=f"n{row}",
        allocatable=tuple((slot, amount) for slot, amount in offers if amount),
        labels=labels or {},
        taints=taints,
        unschedulable=unschedulable,
    )


def task(cpu: int = 0, memory: int = 0, gpu: int = 0, **rules: Any) -> TaskClass:
    asks = ((CPU, cpu), (MEMORY, memory), (PODS, 1), (GPU, gpu))
    requests = tuple((slot, amount) for slot, amount in asks if amount)
    return TaskClass(requests=requests, **rules)
