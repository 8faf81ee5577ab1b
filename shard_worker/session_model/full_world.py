"""A world of everything: every queue, every job with its tasks, over a view of all nodes.

The caller has the objects (``replay``, a test) and the placement of each task; amounts of the nodes
are in the view already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shard_worker.session_model.job import SessionJob, TaskInfo, open_session_job
from shard_worker.session_model.queue_totals import book, reserves
from shard_worker.session_model.status import Status
from shard_worker.session_model.workload import QueueInfo, add
from shard_worker.session_model.world import ON_NODE, World
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.model.model import Job, PriorityClass, Queue, TaskClass
from shared.model.objects import ClusterObjects
from shared.model.topology import HyperNode
from shared.units.things import Things


@dataclass(slots=True)
class PlacedJob:
    """A job and the placements of its tasks, by tix. A task without an entry is pending."""

    job: Job
    states: dict[int, Status] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    """The node each task is on; tasks without an entry are on no known node."""
    nominated: dict[int, int] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    """Seconds since 1970."""
    devices: dict[int, Things] = field(default_factory=dict)
    """Devices of their nodes that tasks take, for tasks that take any."""
    stuck: set[int] = field(default_factory=set)
    """Leaving tasks that have been so for too long: their room is promised to nobody."""
    foreign: bool = False
    """Whether another scheduler is responsible for it: its tasks only occupy their nodes."""


def build_world(
    view: View,
    *,
    classes: Mapping[int, TaskClass],
    queues: Iterable[Queue],
    placed_jobs: Iterable[PlacedJob],
    hyper_nodes: Iterable[HyperNode] = (),
    objects: ClusterObjects | None = None,
    priority_classes: Mapping[str, PriorityClass] | None = None,
    mode: Mode = Mode.NONE,
    now: float = 0.0,
) -> World:
    """``view`` has the nodes with their tasks' usage. Jobs of unknown queues are left out, as in
    Volcano's snapshot; their tasks are on their nodes still."""
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
    for placed_job in placed_jobs:
        _take_up(world, placed_job, by_name, classes)
    hyper_nodes = list(hyper_nodes)
    if hyper_nodes:
        from shard_worker.view.hyper_tree import build_tree

        world.tree = build_tree(hyper_nodes, view.nodes)
    return world


def _take_up(
    world: World,
    placed_job: PlacedJob,
    queues: Mapping[str, QueueInfo],
    classes: Mapping[int, TaskClass],
) -> None:
    queue = None if placed_job.foreign else queues.get(placed_job.job.queue)
    total = placed_job.job.tasks
    job = open_session_job(
        placed_job.job,
        queue=queue,
        classes=classes,
        states=[placed_job.states.get(tix, Status.PENDING) for tix in range(total)],
        rows=[placed_job.rows.get(tix, -1) for tix in range(total)],
    )
    for tix, row in placed_job.nominated.items():
        job.tasks[tix].nominated = row
    for tix, time in placed_job.started.items():
        job.tasks[tix].started = time
    for tix, devices in placed_job.devices.items():
        job.tasks[tix].devices = devices
    if queue is None:
        _settle(world, job.tasks)
        return
    world.add_job(job)
    take_up(world, queue, job)


def _settle(world: World, tasks: Iterable[TaskInfo]) -> None:
    """Put tasks on their nodes that belong to no job of the session."""
    for task in tasks:
        if task.row >= 0 and task.status & ON_NODE:
            world.resident.setdefault(task.row, []).append(task)


def take_up(world: World, queue: QueueInfo, job: SessionJob) -> None:
    """Add a job to the totals of its queue; :func:`link` adds up those of the ancestors."""
    book(world, queue, job)
    queue.jobs += 1
    add(queue.allocated, job.allocated.items(), 1)
    add(queue.requested, job.allocated.items(), 1)
    add(queue.requested, job.requested.items(), 1)
    for task in job.tasks:
        if task.status is Status.RELEASING and task.row >= 0:
            add(queue.releasing, task.charged, 1)
        elif task.status is Status.PENDING and reserves(task.role):
            add(queue.reserved, task.charged, 1)
