"""KAI's extension points, beside the engine's, and how the answers of several plugins become one.

Filters, scores and events are asked at the engine's own points
(:mod:`shard_worker.framework.extension_points`), which both dialects share. Here are those whose
meaning is KAI's: orders, capacity, and the sets of nodes that a sub group is tried on. They have no
switches: KAI reads those of a tier's plugin, and never asks them. A rule about victims may have a
form over columns beside the one over objects: a search that reaches ten of 8,000 jobs makes objects
of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shard_worker.framework.extension_points import Combine, Half, Point, Rank

if TYPE_CHECKING:
    from shard_worker.dialects.kai.evictions import Generator, Proposal
    from shard_worker.dialects.kai.model import KaiJob, Member
    from shard_worker.dialects.kai.rules.amounts import Amounts
    from shard_worker.dialects.kai.rules.capacity import OverCapacity
    from shard_worker.dialects.kai.rules.devices import Score
    from shard_worker.dialects.kai.rules.queue_order import Candidate
    from shard_worker.dialects.kai.search.resident_columns import ResidentColumns
    from shard_worker.dialects.kai.search.unread_jobs import RankColumn
    from shard_worker.framework.rules import Mask
    from shard_worker.session_model.job import TaskInfo

    NodeSets = Callable[[KaiJob, Member, Sequence[TaskInfo], Mask], list[Mask]]
    VictimFilter = Callable[[KaiJob, KaiJob], bool]
    VictimFilterColumn = Callable[[KaiJob, ResidentColumns], Mask]
    Capacity = Callable[[KaiJob, Amounts], OverCapacity | None]

KAI_POINTS: dict[str, Point[Any, Any]] = {}


def _point(name: str, half: Half, combine: Combine) -> Point[Any, Any]:
    point: Point[Any, Any] = Point(name, None, half, combine)
    KAI_POINTS[name] = point
    return point


JOB_ORDER: Point[RankColumn | None, Callable[[KaiJob], Rank]] = _point(
    "JobOrder", Half.BOTH, Combine.FIRST_NONZERO
)
TASK_ORDER: Point[Callable[[TaskInfo], Rank], None] = _point(
    "TaskOrder", Half.BOTH, Combine.FIRST_NONZERO
)
QUEUE_ORDER: Point[Callable[[Sequence[Candidate]], int], None] = _point(
    "QueueOrder", Half.BOTH, Combine.FIRST_ANSWER
)
JOB_OVER_CAPACITY: Point[Capacity, None] = _point(
    "IsJobOverCapacity", Half.BOTH, Combine.FIRST_ANSWER
)
GPU_ORDER: Point[Score, None] = _point("GPUOrder", Half.PLACE, Combine.SUM)
SUBSET_NODES: Point[None, NodeSets] = _point("SubsetNodes", Half.PLACE, Combine.EACH)

CAN_RECLAIM: Point[Callable[[KaiJob, Amounts], bool], None] = _point(
    "CanReclaimResources", Half.BOTH, Combine.FIRST_ANSWER
)
RECLAIM_VICTIM: Point[VictimFilterColumn | None, VictimFilter] = _point(
    "ReclaimVictimFilter", Half.BOTH, Combine.ALL
)
PREEMPT_VICTIM: Point[VictimFilterColumn | None, VictimFilter] = _point(
    "PreemptVictimFilter", Half.BOTH, Combine.ALL
)
RECLAIM_VALIDATOR: Point[Callable[[Proposal], bool], None] = _point(
    "ReclaimScenarioValidator", Half.PLACE, Combine.ALL
)
RECLAIM_COST: Point[Callable[[KaiJob, Amounts], bool], None] = _point(
    "ReclaimCost", Half.PLACE, Combine.ALL
)
PREEMPT_VALIDATOR: Point[Callable[[Proposal], bool], None] = _point(
    "PreemptScenarioValidator", Half.PLACE, Combine.ALL
)
OVER_QUOTA: Point[Capacity, None] = _point(
    "IsNonPreemptibleJobOverQueueQuota", Half.BOTH, Combine.FIRST_ANSWER
)
SOLUTION_START: Point[Callable[[], None], None] = _point(
    "OnJobSolutionStart", Half.PLACE, Combine.EACH
)
SCENARIO_GENERATOR: Point[tuple[str, Generator], None] = _point(
    "ScenarioGenerator", Half.PLACE, Combine.EACH
)
