"""nodegroup: queues keep to groups of nodes (label ``volcano.sh/nodegroup-name``).

A queue's affinity names the groups that its tasks must go to, should go to, must not, and should
not. With ``enableHierarchy`` a queue that says nothing takes over what the nearest queue above it
says.

Arguments: ``strict`` (true): nodes of no group are for no queue's tasks; false: they are for those
of queues that insist on no group. ``enablePreferredOrder`` (false): of the groups that tasks should
go to, the first is liked best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.queue_tree import ROOT
from shard_worker.session_model.workload import QueueInfo
from shared.model.model import NodeGroupAffinity
from shared.policy.model import PluginOption

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.session_model.world import World

LABEL = "volcano.sh/nodegroup-name"
REASON = "not in a node group of its queue"
BASE = 100.0
"""What a node of a required group scores; half of it one of a preferred group."""
AVOIDED = -1.0


class NodeGroup:
    name = "nodegroup"

    def __init__(self, option: PluginOption) -> None:
        self._strict = option.switch("strict", True)
        self._ordered = option.switch("enablePreferredOrder", False)
        self._inherits = option.enabled("enableHierarchy")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_live_predicate_fn(self.checks, scope=Scope.STATIC)
        ssn.add_batch_node_order_fn(self.scores)

    def checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        """Nodes whose group the queue of the task may use."""
        affinity = self.affinity_of(task.job.queue, world)
        passes = {group: self.admits(affinity, group) for group in set(_groups(world))}
        if all(passes.values()):
            return []
        mask = np.array([passes[group] for group in _groups(world)], dtype=np.bool_)
        return [Check(REASON, mask, curable=False)]

    def admits(self, affinity: NodeGroupAffinity | None, group: str) -> bool:
        """May tasks of a queue with this affinity run on nodes of this group ("" = of none)?"""
        required = () if affinity is None else affinity.required
        if affinity is not None and group in affinity.anti_required:
            return False
        if not group:
            return not self._strict and not required
        return not required or group in required

    def scores(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """More for groups that the queue wants; little for those that it wants to avoid."""
        affinity = self.affinity_of(task.job.queue, world)
        if affinity is None:
            return np.zeros(len(rows))
        groups = _groups(world)
        return np.array([self.score(affinity, groups[row]) for row in rows.tolist()], np.float64)

    def score(self, affinity: NodeGroupAffinity, group: str) -> float:
        """Of a node of this group."""
        if not group:
            return 0.0
        if group in affinity.anti_preferred:
            return AVOIDED
        total = BASE if group in affinity.required else 0.0
        if group in affinity.preferred:
            count = len(affinity.preferred)
            at = affinity.preferred.index(group) if self._ordered else 0
            total += 0.5 * BASE * (count - at) / count
        return total

    def affinity_of(self, queue: QueueInfo | None, world: World) -> NodeGroupAffinity | None:
        """The queue's affinity, or with a hierarchy that of the nearest queue above it that has
        one."""
        if queue is None:
            return None
        way = [queue]
        if self._inherits:
            way += queue.above
            way += [info for info in world.queues.values() if info.queue.name == ROOT]
        return next((info.queue.affinity for info in way if info.queue.affinity is not None), None)


def _groups(world: World) -> list[str]:
    """The group of each row; "" if the node is of no group, or there is no node."""
    return ["" if node is None else node.labels.get(LABEL, "") for node in world.view.nodes]
