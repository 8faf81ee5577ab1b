"""task-topology: roles of a job that talk to each other share nodes, others stay apart.

A job says so in annotations: ``affinity`` and ``anti-affinity`` list groups of roles
(``ps,worker;chief,evaluator``), ``task-order`` the order of roles. Its pending tasks are put into
*buckets*: a task joins the emptiest bucket that holds a task of its affinity and none to stay away
from, and opens a new one if there is none. Tasks are placed bucket by bucket, and a node is the
better the more of the task's bucket it has or could take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Preference
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import ON_NODE, World
from shared.policy.model import PluginOption

FULL = 100.0
AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
WITHOUT_BUCKET = 1 << 30
"""Sort key of tasks that no rule names: after all others."""

Together = dict[str, set[str]]
"""Role -> the roles that some rule names together with it."""


@dataclass(slots=True)
class Bucket:
    """Tasks that should share a node."""

    index: int
    tasks: list[TaskInfo] = field(default_factory=list)
    demand: int = 0
    """Sum of the tasks' requests over all slots; decides which of two buckets is emptier."""


@dataclass(slots=True)
class Layout:
    """The buckets and rules that the annotations of one job give for its tasks."""

    affinity: Together
    anti: Together
    rank: dict[str, int]
    """Role -> its position in the job's ``task-order``."""
    bucket: dict[TaskInfo, Bucket] = field(default_factory=dict)

    def apart(self, left: TaskInfo, right: TaskInfo) -> bool:
        """Whether the two tasks should be on different nodes."""
        return right.role.name in self.anti.get(left.role.name, ())

    def close(self, left: TaskInfo, right: TaskInfo) -> bool:
        return right.role.name in self.affinity.get(left.role.name, ())


class TaskTopology:
    """Argument: ``task-topology.weight`` (1)."""

    name = "task-topology"

    def __init__(self, option: PluginOption) -> None:
        self._weight = option.number("task-topology.weight", 1.0)
        self._world: World | None = None
        self._layouts: dict[int, Layout | None] = {}

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(Preference.TASK_TOPOLOGY)
        ssn.read_annotations(AFFINITY, ANTI_AFFINITY, TASK_ORDER)
        # Jobs with these annotations get a session; for all others the fast form says nothing.
        ssn.add_task_order_fn(self._task_order, key=lambda role: 0.0)
        ssn.add_batch_node_order_fn(self._node_order, concerns=lambda cls: False)

    def _task_order(self, left: TaskInfo, right: TaskInfo, world: World) -> float:
        layout = self._layout(left.job, world) if left.job is right.job else None
        if layout is None:
            return 0.0
        return float(_place(layout, left) > _place(layout, right)) - float(
            _place(layout, left) < _place(layout, right)
        )

    def _node_order(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        """Score nodes by how much of the task's bucket they have or could take; 0 next to tasks to
        avoid."""
        layout = self._layout(task.job, world)
        bucket = None if layout is None else layout.bucket.get(task)
        if layout is None or bucket is None:
            return np.zeros(len(rows))
        score = np.ones(len(rows))
        for i, row in enumerate(rows.tolist()):
            neighbours = [
                neighbour for neighbour in world.tasks_on(row) if neighbour.job is task.job
            ]
            if any(layout.apart(task, neighbour) for neighbour in neighbours):
                score[i] = 0.0
                continue
            score[i] += sum(layout.bucket.get(neighbour) is bucket for neighbour in neighbours)
            score[i] += _more(task, bucket, row, world)
        scaled: Scores = score / max(len(bucket.tasks), 1) * (FULL * self._weight)
        return scaled

    def _layout(self, job: SessionJob, world: World) -> Layout | None:
        """The job's layout, computed when the session first asks for it."""
        if self._world is not world:
            self._world, self._layouts = world, {}
        jid = job.job.jid
        if jid not in self._layouts:
            self._layouts[jid] = lay_out(job)
        return self._layouts[jid]


def lay_out(job: SessionJob) -> Layout | None:
    """Put a job's tasks into buckets; None if it has no such annotations."""
    marks = dict(job.job.annotations)
    affinity, anti = _groups(marks.get(AFFINITY, "")), _groups(marks.get(ANTI_AFFINITY, ""))
    listed = [name.strip() for name in marks.get(TASK_ORDER, "").split(",") if name.strip()]
    if not (affinity or anti or listed):
        return None
    layout = Layout(affinity, anti, {name: i for i, name in enumerate(listed)})
    buckets: list[Bucket] = []
    on: dict[int, Bucket] = {}
    named = [task for task in job.tasks if task.role.name in affinity or task.role.name in anti]
    for task in [task for task in named if task.row >= 0 and task.status & ON_NODE]:
        bucket = on.get(task.row)
        if bucket is None:
            bucket = on[task.row] = Bucket(len(buckets))
            buckets.append(bucket)
        _join(layout, bucket, task)
    pending = [task for task in named if task.status is Status.PENDING]
    # those that keep apart first: they decide how many buckets there are
    for task in sorted(pending, key=lambda task: (task.role.name not in anti, task.tix)):
        bucket = _choose(layout, buckets, task)
        if bucket is None:
            bucket = Bucket(len(buckets))
            buckets.append(bucket)
        _join(layout, bucket, task)
    return layout


def _choose(layout: Layout, buckets: Iterable[Bucket], task: TaskInfo) -> Bucket | None:
    """The emptiest bucket with a task of its affinity and none to stay away from. None: open a new
    one."""
    best: tuple[float, Bucket] | None = None
    for bucket in buckets:
        if any(layout.apart(task, member) for member in bucket.tasks):
            continue
        close = any(layout.close(task, member) for member in bucket.tasks)
        if close and (best is None or bucket.demand < best[0]):
            best = (bucket.demand, bucket)
    return None if best is None else best[1]


def _join(layout: Layout, bucket: Bucket, task: TaskInfo) -> None:
    bucket.tasks.append(task)
    bucket.demand += sum(amount for _, amount in task.requests)
    layout.bucket[task] = bucket


def _place(layout: Layout, task: TaskInfo) -> tuple[int, int]:
    bucket = layout.bucket.get(task)
    rank = layout.rank.get(task.role.name, len(layout.rank))
    return (rank, WITHOUT_BUCKET if bucket is None else bucket.index)


def _more(task: TaskInfo, bucket: Bucket, row: int, world: World) -> int:
    """How many further pending tasks of the bucket the node could take in addition to this one."""
    remaining: dict[int, int] = {}

    def takes(candidate: TaskInfo) -> bool:
        for slot, amount in candidate.requests:
            if slot not in remaining:
                remaining[slot] = int(world.idle(slot)[row])
            if remaining[slot] < amount:
                return False
        for slot, amount in candidate.requests:
            remaining[slot] -= amount
        return True

    if not takes(task):
        return 0
    waiting = (t for t in bucket.tasks if t is not task and t.status is Status.PENDING)
    return sum(takes(candidate) for candidate in waiting)


def _groups(text: str) -> Together:
    """``a,b;c`` -> each role with the roles named in its group. A group of one role names it with
    itself."""
    together: Together = {}
    for group in text.split(";"):
        names = [name.strip() for name in group.split(",") if name.strip()]
        for name in names:
            others = set(names) - {name} or {name}
            together.setdefault(name, set()).update(others)
    return together
