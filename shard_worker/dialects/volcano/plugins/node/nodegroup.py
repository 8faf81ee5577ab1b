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

from shard_worker.framework.extension_points import LIVE_PREDICATE
from shard_worker.framework.rules import Check, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Demand
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
"""Score of a node in a required group; a preferred group scores half of it."""
AVOIDED = -1.0


class NodeGroup:
    name = "nodegroup"

    def __init__(self, option: PluginOption) -> None:
        self._strict = option.switch("strict", True)
        self._ordered = option.switch("enablePreferredOrder", False)
        self._inherits = option.enabled("enableHierarchy")

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(Demand.NODE_GROUPS, at=LIVE_PREDICATE)
        ssn.add_live_predicate_fn(self.checks, scope=Scope.STATIC, whole_pod=False)
        ssn.add_batch_node_order_fn(self.scores)

    def checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        """Check that the task's queue may use the node's group."""
        affinity = self.affinity_of(task.job.queue, world)
        passes = {group: self.admits(affinity, group) for group in set(_groups(world))}
        if all(passes.values()):
            return []
        mask = np.array([passes[group] for group in _groups(world)], dtype=np.bool_)
        return [Check(REASON, mask, curable=False)]

    def admits(self, affinity: NodeGroupAffinity | None, group: str) -> bool:
        """Whether a queue with this affinity may use nodes of this group ("": nodes in no
        group)."""
        required = () if affinity is None else affinity.required
        if affinity is not None and group in affinity.anti_required:
            return False
        if not group:
            return not self._strict and not required
        return not required or group in required

    def scores(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """Higher for groups that the queue prefers or requires; low for those that it should
        avoid."""
        affinity = self.affinity_of(task.job.queue, world)
        if affinity is None:
            return np.zeros(len(rows))
        groups = _groups(world)
        return np.array([self.score(affinity, groups[row]) for row in rows.tolist()], np.float64)

    def score(self, affinity: NodeGroupAffinity, group: str) -> float:
        """The score of nodes in this group."""
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
        """The queue's affinity. With a hierarchy, that of the nearest ancestor if it has none
        itself."""
        if queue is None:
            return None
        way = [queue]
        if self._inherits:
            way += queue.above
            way += [info for info in world.queues.values() if info.queue.name == ROOT]
        return next((info.queue.affinity for info in way if info.queue.affinity is not None), None)


def _groups(world: World) -> list[str]:
    """The group of each row; "" for nodes in no group, and rows without a node."""
    return ["" if node is None else node.labels.get(LABEL, "") for node in world.view.nodes]
