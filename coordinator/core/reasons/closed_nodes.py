"""Idle amounts of nodes that a job may not use: by their taints, or because they are cordoned.

The totals of the cluster count them, and a sentence about room must not. Their sums are kept for a
moment for each set of taints: a walk over all nodes takes a millisecond for 5,000.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from coordinator.core.coordinator import Coordinator
from shard_worker.kube_scheduler.filters.node_checks import REPELLING, tolerated
from shard_worker.session_model.workload import Amounts, add
from shared.model.constraints import Taint
from shared.model.model import Node, TaskClass

SUMS_SECONDS = 2.0
"""For so long sums are kept: idle amounts move with every placement, and the sentences that have
them are written at most once a second."""

_Closing = tuple[bool, tuple[Taint, ...]]
"""(cordoned, repelling taints)"""


@dataclass(slots=True)
class _Sums:
    at: float
    idle: dict[_Closing, Amounts] = field(default_factory=dict)


_kept: WeakKeyDictionary[Coordinator, _Sums] = WeakKeyDictionary()


def closed_idle(core: Coordinator, classes: Iterable[TaskClass]) -> Amounts:
    """Idle amounts, by slot, of the nodes that none of these classes may use."""
    closed, classes = Amounts(), list(classes)
    for (cordoned, taints), idle in _sums(core).items():
        if cordoned or not any(_bears(cls, taints) for cls in classes):
            add(closed, idle.items(), 1)
    return closed


def _bears(cls: TaskClass, taints: tuple[Taint, ...]) -> bool:
    return all(tolerated(taint, cls.tolerations) for taint in taints)


def _sums(core: Coordinator) -> dict[_Closing, Amounts]:
    kept, now = _kept.get(core), core.order.now
    if kept is None or not kept.at <= now < kept.at + SUMS_SECONDS:
        kept = _kept[core] = _Sums(now)
        for row, node in core.nodes.items():
            if closing := _closing(node):
                idle = {s: n for s, n in core.dispatcher.idle_of(row).items() if n > 0}
                add(kept.idle.setdefault(closing, {}), idle.items(), 1)
    return kept.idle


def _closing(node: Node) -> _Closing | None:
    """The cordon and taints that keep tasks off the node; None if there are none."""
    if not (node.taints or node.unschedulable):
        return None
    taints = tuple(taint for taint in node.taints if taint.effect in REPELLING)
    return (node.unschedulable, taints) if taints or node.unschedulable else None
