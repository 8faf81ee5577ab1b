"""A world of everything: every queue, every job with its tasks, over a view of all nodes.

Who has the objects (``replay``, a test) says where each task stands; amounts of the nodes are in
the view already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shard_worker.queue_totals import book, reserves
from shard_worker.session_job import SessionJob, open_session_job
from shard_worker.task_class import Mode
from shard_worker.tasks import Status, TaskInfo
from shard_worker.view import View
from shard_worker.workload import QueueInfo, add
from shard_worker.world import ON_NODE, World
from shared.model import HyperNode, Job, PriorityClass, Queue, TaskClass
from shared.objects import ClusterObjects


@dataclass(slots=True)
class Standing:
    """A job, and where its tasks stand, by tix. A task that is not named is pending."""

    job: Job
    states: dict[int, Status] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    """The node a task is on; none: it is on no node that is known."""
    nominated: dict[int, int] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    """Seconds since 1970."""
    foreign: bool = False
    """No scheduler here looks after it: it is on its nodes, and that is all."""


def build_world(
    view: View,
    *,
    classes: Mapping[int, TaskClass],
    queues: Iterable[Queue],
    standings: Iterable[Standing],
    hyper_nodes: Iterable[HyperNode] = (),
    objects: ClusterObjects | None = None,
    priority_classes: Mapping[str, PriorityClass] | None = None,
    mode: Mode = Mode.NONE,
    now: float = 0.0,
) -> World:
    """``view`` has the nodes with what their tasks use. Jobs whose queue does not exist are left
    out, as Volcano's snapshot leaves them out; their tasks are on their nodes still."""
    world = World(
        view=view,
        mode=mode,
        now=now,
        objects=objects or ClusterObjects(),
        priority_classes=dict(priority_classes or {}),
    )
    for node in view.nodes:
        if node is not None:
            add(world.total, node.allocatable, 1)
    world.queues = {queue.qid: QueueInfo(queue=queue) for queue in queues}
    by_name = {info.queue.name: info for info in world.queues.values()}
    for standing in standings:
        _take_up(world, standing, by_name, classes)
    hyper_nodes = list(hyper_nodes)
    if hyper_nodes:
        from shard_worker.hyper_tree import build_tree

        world.tree = build_tree(hyper_nodes, view.nodes)
    return world


def _take_up(
    world: World,
    standing: Standing,
    queues: Mapping[str, QueueInfo],
    classes: Mapping[int, TaskClass],
) -> None:
    queue = None if standing.foreign else queues.get(standing.job.queue)
    total = standing.job.tasks
    job = open_session_job(
        standing.job,
        queue=queue,
        classes=classes,
        states=[standing.states.get(tix, Status.PENDING) for tix in range(total)],
        rows=[standing.rows.get(tix, -1) for tix in range(total)],
    )
    for tix, row in standing.nominated.items():
        job.tasks[tix].nominated = row
    for tix, time in standing.started.items():
        job.tasks[tix].started = time
    if queue is None:
        _settle(world, job.tasks)
        return
    world.add_job(job)
    take_up(world, queue, job)


def _settle(world: World, tasks: Iterable[TaskInfo]) -> None:
    """They are there, and no job of the session has them."""
    for task in tasks:
        if task.row >= 0 and task.status & ON_NODE:
            world.resident.setdefault(task.row, []).append(task)


def take_up(world: World, queue: QueueInfo, job: SessionJob) -> None:
    """Count a job in the totals of its queue; those of queues above it are for ``link``."""
    book(world, queue, job)
    queue.jobs += 1
    add(queue.allocated, job.allocated.items(), 1)
    add(queue.requested, job.allocated.items(), 1)
    add(queue.requested, job.requested.items(), 1)
    for task in job.tasks:
        if task.status is Status.RELEASING and task.row >= 0:
            add(queue.releasing, task.requests, 1)
        elif task.status is Status.PENDING and reserves(task.role):
            add(queue.reserved, task.requests, 1)
