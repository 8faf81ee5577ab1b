"""Every extension point of a session, and how the answers of several plugins become one.

The table follows Volcano's extension points: a configuration file switches each of them per plugin
by its ``flag``, and plugins of one tier are asked together before those of the next. A point is
typed by the two forms of its rules: the one for turns without a session, over columns and counts,
and the one for sessions over a world, task by task. ``None`` marks a form that a point does not
have, or that a rule may lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from shard_worker.framework.rules import (
        ArrayScore,
        Check,
        ClassMasks,
        EventHandler,
        Mask,
        Purpose,
        Scorer,
        Votes,
    )
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
    from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
    from shard_worker.session_model.world import World
    from shard_worker.view.hyper_tree import HyperDomain
    from shared.model.model import Requests, Role, TaskClass
    from shared.units.things import Things

F_co = TypeVar("F_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")

Compare = Callable[[T, T, Any], float]
"""(left, right, cluster) -> negative where left goes first, positive where right does, else 0."""
Rank = float | tuple[float, ...]
"""A part of a sort key: the smaller one goes first."""


class Half(StrEnum):
    """Which part calls a point: Order with the cluster's totals, Place with one shard's view, or
    both."""

    ORDER = "order"
    PLACE = "place"
    BOTH = "both"


class Combine(StrEnum):
    """How the answers of several plugins become one; the text is the rule."""

    FIRST_NONZERO = "the first plugin, in tier order, that tells the two apart decides"
    ANY = "true as soon as one plugin says so"
    ALL = "true unless one plugin denies"
    VOTE = "a rejection is final; the first tier with a permission permits; no vote permits"
    FIRST_TIER_ALL = "the first tier with an opinion decides, all of it must agree; none: false"
    FIRST_FAILURE = "the first plugin that objects decides"
    FIRST_ANSWER = "the first plugin that answers decides"
    VICTIMS = "per tier the intersection of the answers; the first tier that names any decides"
    TIER_UNION = "per tier the union of the answers; the first tier that names any decides"
    SUM = "the answers are added"
    EACH = "every plugin is told"


@dataclass(frozen=True, slots=True, eq=False)
class Point(Generic[F_co, S_co]):
    """One extension point, typed by its rules' two forms."""

    name: str
    flag: str | None
    """The plugin's switch in the configuration file; None where the point has none."""
    half: Half
    combine: Combine


EXTENSION_POINTS: dict[str, Point[Any, Any]] = {}
"""Every point by its name. Points without a caller in this version accept registrations too, so
that a plugin is written once."""


def _point(name: str, flag: str | None, half: Half, combine: Combine) -> Point[Any, Any]:
    point: Point[Any, Any] = Point(name, flag, half, combine)
    EXTENSION_POINTS[name] = point
    return point


JOB_ORDER: Point[Callable[[JobInfo, ClusterInfo], Rank] | None, Compare[JobInfo] | None] = _point(
    "JobOrder", "enableJobOrder", Half.ORDER, Combine.FIRST_NONZERO
)
QUEUE_ORDER: Point[Callable[[QueueInfo, ClusterInfo], Rank] | None, Compare[QueueInfo] | None] = (
    _point("QueueOrder", "enableQueueOrder", Half.ORDER, Combine.FIRST_NONZERO)
)
TASK_ORDER: Point[Callable[[Role], Rank] | None, Compare[TaskInfo] | None] = _point(
    "TaskOrder", "enableTaskOrder", Half.ORDER, Combine.FIRST_NONZERO
)
SUB_JOB_ORDER: Point[None, Compare[SubJob]] = _point(
    "SubJobOrder", "enabledSubJobOrder", Half.PLACE, Combine.FIRST_NONZERO
)
CLUSTER_ORDER: Point[None, Compare[Any]] = _point(
    "ClusterOrder", "enabledClusterOrder", Half.ORDER, Combine.FIRST_NONZERO
)
VICTIM_QUEUE_ORDER: Point[None, Callable[[QueueInfo, QueueInfo, QueueInfo, World], float]] = _point(
    "VictimQueueOrder", None, Half.ORDER, Combine.FIRST_NONZERO
)
PREEMPTABLE: Point[None, Votes] = _point(
    "Preemptable", "enablePreemptable", Half.PLACE, Combine.VICTIMS
)
RECLAIMABLE: Point[None, Votes] = _point(
    "Reclaimable", "enableReclaimable", Half.PLACE, Combine.VICTIMS
)
UNIFIED_EVICTABLE: Point[
    None, Callable[[SessionJob, Sequence[TaskInfo], Purpose, World], Sequence[TaskInfo] | None]
] = _point("UnifiedEvictable", None, Half.PLACE, Combine.VICTIMS)
OVERUSED: Point[Callable[[QueueInfo, ClusterInfo], bool], None] = _point(
    "Overused", "enabledOverused", Half.ORDER, Combine.ANY
)
PREEMPTIVE: Point[None, Callable[[QueueInfo, Sequence[TaskInfo], World], bool]] = _point(
    "Preemptive", "enablePreemptive", Half.ORDER, Combine.ALL
)
ALLOCATABLE: Point[
    Callable[[QueueInfo, Requests, ClusterInfo], bool] | None,
    Callable[[QueueInfo, TaskInfo, World], bool] | None,
] = _point("Allocatable", "enabledAllocatable", Half.ORDER, Combine.ALL)
JOB_READY: Point[Callable[[Progress], bool] | None, Callable[[SessionJob, World], bool] | None] = (
    _point("JobReady", "enableJobReady", Half.BOTH, Combine.ALL)
)
SUB_JOB_READY: Point[None, Callable[[SubJob, World], bool]] = _point(
    "SubJobReady", "enabledSubJobReady", Half.PLACE, Combine.ALL
)
JOB_PIPELINED: Point[
    Callable[[Progress], int] | None, Callable[[SessionJob, World], int] | None
] = _point("JobPipelined", "enableJobPipelined", Half.BOTH, Combine.VOTE)
SUB_JOB_PIPELINED: Point[None, Callable[[SubJob, World], int]] = _point(
    "SubJobPipelined", "enabledSubJobPipelined", Half.PLACE, Combine.VOTE
)
JOB_ENQUEUEABLE: Point[Callable[[JobInfo, ClusterInfo], int], None] = _point(
    "JobEnqueueable", "enableJobEnqueued", Half.ORDER, Combine.VOTE
)
JOB_ENQUEUED: Point[Callable[[JobInfo, ClusterInfo], None], None] = _point(
    "JobEnqueued", "enableJobEnqueued", Half.ORDER, Combine.EACH
)
JOB_STARVING: Point[Callable[[JobInfo], bool], None] = _point(
    "JobStarving", "enableJobStarving", Half.BOTH, Combine.FIRST_TIER_ALL
)
JOB_VALID: Point[Callable[[JobInfo, ClusterInfo], str | None], None] = _point(
    "JobValid", None, Half.ORDER, Combine.FIRST_FAILURE
)
TARGET_JOB: Point[Callable[[Sequence[JobInfo], ClusterInfo], JobInfo | None], None] = _point(
    "TargetJob", "enableTargetJob", Half.ORDER, Combine.FIRST_ANSWER
)
VICTIM_TASKS: Point[
    Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None,
    Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None,
] = _point("VictimTasks", "enabledVictim", Half.PLACE, Combine.TIER_UNION)
RESERVED_NODES: Point[None, Callable[[World], None]] = _point(
    "ReservedNodes", "enableReservedNodes", Half.ORDER, Combine.EACH
)
PRE_PREDICATE: Point[Callable[[TaskClass], bool], Callable[[TaskInfo, World], str | None]] = _point(
    "PrePredicate", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE
)
PREDICATE: Point[ClassMasks, None] = _point(
    "Predicate", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE
)
LIVE_PREDICATE: Point[Callable[[TaskClass], bool], Callable[[TaskInfo, World], Sequence[Check]]] = (
    _point("LivePredicate", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE)
)
SIMULATE_PREDICATE: Point[None, Callable[[TaskInfo, int, World], str | None]] = _point(
    "SimulatePredicate", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE
)
SIMULATE_ADD_TASK: Point[None, Callable[[TaskInfo, TaskInfo, int, World], str | None]] = _point(
    "SimulateAddTask", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE
)
SIMULATE_REMOVE_TASK: Point[None, Callable[[TaskInfo, TaskInfo, int, World], str | None]] = _point(
    "SimulateRemoveTask", "enablePredicate", Half.PLACE, Combine.FIRST_FAILURE
)
SIMULATE_ALLOCATABLE: Point[None, Callable[[QueueInfo, TaskInfo, World], bool]] = _point(
    "SimulateAllocatable", "enabledAllocatable", Half.ORDER, Combine.ALL
)
DEVICE_CHOICE: Point[Callable[[TaskClass], bool], Callable[[TaskInfo, int, World], Things]] = (
    _point("DeviceChoice", None, Half.PLACE, Combine.SUM)
)
DEVICES_IDLE: Point[Callable[[TaskClass], bool], Callable[[TaskInfo, World], Mask]] = _point(
    "DevicesIdle", None, Half.PLACE, Combine.ALL
)
BEST_NODE: Point[None, Callable[[TaskInfo, Any, Any, World], int | None]] = _point(
    "BestNode", "enableBestNode", Half.PLACE, Combine.FIRST_ANSWER
)
NODE_ORDER: Point[Scorer, None] = _point("NodeOrder", "enableNodeOrder", Half.PLACE, Combine.SUM)
BATCH_NODE_ORDER: Point[Callable[[TaskClass], bool], ArrayScore] = _point(
    "BatchNodeOrder", "enableNodeOrder", Half.PLACE, Combine.SUM
)
NODE_MAP: Point[None, Callable[[TaskInfo, int, World], float]] = _point(
    "NodeMap", "enableNodeOrder", Half.PLACE, Combine.SUM
)
NODE_REDUCE: Point[None, Callable[[TaskInfo, Any], Any]] = _point(
    "NodeReduce", "enableNodeOrder", Half.PLACE, Combine.SUM
)
HYPER_NODE_ORDER: Point[
    Callable[[SubJob], bool],
    Callable[[SubJob, Mapping[str, Sequence[int]], World], Mapping[str, float]],
] = _point("HyperNodeOrder", "enabledHyperNodeOrder", Half.PLACE, Combine.SUM)
HYPER_NODE_GRADIENT_FOR_JOB: Point[
    None, Callable[[SessionJob, HyperDomain, Purpose, World], list[list[HyperDomain]]]
] = _point("HyperNodeGradientForJob", "enabledHyperNodeGradient", Half.PLACE, Combine.FIRST_ANSWER)
HYPER_NODE_GRADIENT_FOR_SUB_JOB: Point[
    None, Callable[[SubJob, HyperDomain, Purpose, World], list[list[HyperDomain]]]
] = _point(
    "HyperNodeGradientForSubJob", "enabledHyperNodeGradient", Half.PLACE, Combine.FIRST_ANSWER
)
EVENT_HANDLER: Point[None, EventHandler] = _point("EventHandler", None, Half.BOTH, Combine.EACH)
