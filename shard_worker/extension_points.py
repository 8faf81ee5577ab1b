"""Every place of a session where a plugin may speak, and how the answers become one.

The table follows Volcano's extension points: a configuration file switches each of them per plugin
by its ``flag``, and plugins of one tier are asked together before those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Half(StrEnum):
    """Where a point is asked: over the cluster's totals, over one shard's view, or in both."""

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


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """``flag`` is the switch of the configuration file; None where a point has none."""

    flag: str | None
    half: Half
    combine: Combine


def _point(flag: str | None, half: Half, combine: Combine) -> ExtensionPoint:
    return ExtensionPoint(flag=flag, half=half, combine=combine)


EXTENSION_POINTS: dict[str, ExtensionPoint] = {
    "JobOrder": _point("enableJobOrder", Half.ORDER, Combine.FIRST_NONZERO),
    "QueueOrder": _point("enableQueueOrder", Half.ORDER, Combine.FIRST_NONZERO),
    "TaskOrder": _point("enableTaskOrder", Half.ORDER, Combine.FIRST_NONZERO),
    "SubJobOrder": _point("enabledSubJobOrder", Half.PLACE, Combine.FIRST_NONZERO),
    "ClusterOrder": _point("enabledClusterOrder", Half.ORDER, Combine.FIRST_NONZERO),
    "VictimQueueOrder": _point(None, Half.ORDER, Combine.FIRST_NONZERO),
    "Preemptable": _point("enablePreemptable", Half.PLACE, Combine.VICTIMS),
    "Reclaimable": _point("enableReclaimable", Half.PLACE, Combine.VICTIMS),
    "UnifiedEvictable": _point(None, Half.PLACE, Combine.VICTIMS),
    "Overused": _point("enabledOverused", Half.ORDER, Combine.ANY),
    "Preemptive": _point("enablePreemptive", Half.ORDER, Combine.ALL),
    "Allocatable": _point("enabledAllocatable", Half.ORDER, Combine.ALL),
    "JobReady": _point("enableJobReady", Half.BOTH, Combine.ALL),
    "SubJobReady": _point("enabledSubJobReady", Half.PLACE, Combine.ALL),
    "JobPipelined": _point("enableJobPipelined", Half.BOTH, Combine.VOTE),
    "SubJobPipelined": _point("enabledSubJobPipelined", Half.PLACE, Combine.VOTE),
    "JobEnqueueable": _point("enableJobEnqueued", Half.ORDER, Combine.VOTE),
    "JobEnqueued": _point("enableJobEnqueued", Half.ORDER, Combine.EACH),
    "JobStarving": _point("enableJobStarving", Half.BOTH, Combine.FIRST_TIER_ALL),
    "JobValid": _point(None, Half.ORDER, Combine.FIRST_FAILURE),
    "TargetJob": _point("enableTargetJob", Half.ORDER, Combine.FIRST_ANSWER),
    "VictimTasks": _point("enabledVictim", Half.PLACE, Combine.TIER_UNION),
    "ReservedNodes": _point("enableReservedNodes", Half.ORDER, Combine.EACH),
    "PrePredicate": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "Predicate": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "LivePredicate": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "SimulatePredicate": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "SimulateAddTask": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "SimulateRemoveTask": _point("enablePredicate", Half.PLACE, Combine.FIRST_FAILURE),
    "SimulateAllocatable": _point("enabledAllocatable", Half.ORDER, Combine.ALL),
    "BestNode": _point("enableBestNode", Half.PLACE, Combine.FIRST_ANSWER),
    "NodeOrder": _point("enableNodeOrder", Half.PLACE, Combine.SUM),
    "BatchNodeOrder": _point("enableNodeOrder", Half.PLACE, Combine.SUM),
    "NodeMap": _point("enableNodeOrder", Half.PLACE, Combine.SUM),
    "NodeReduce": _point("enableNodeOrder", Half.PLACE, Combine.SUM),
    "HyperNodeOrder": _point("enabledHyperNodeOrder", Half.PLACE, Combine.SUM),
    "HyperNodeGradientForJob": _point("enabledHyperNodeGradient", Half.PLACE, Combine.FIRST_ANSWER),
    "HyperNodeGradientForSubJob": _point(
        "enabledHyperNodeGradient", Half.PLACE, Combine.FIRST_ANSWER
    ),
    "EventHandler": _point(None, Half.BOTH, Combine.EACH),
}
"""Name of the point -> its flag, half and combination. A point without a caller in this version
takes registrations all the same, so that a plugin is written once."""
