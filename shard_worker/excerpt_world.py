"""A world over a worker's live view, opened from the excerpt that came with a turn.

The view is shared with everything else the worker does: what a session does in this world is taken
back from it by :mod:`shard_worker.session_turn`, before it becomes a statement.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shard_worker.queue_totals import figures, link
from shard_worker.session_job import SessionJob, open_session_job
from shard_worker.task_class import Mode
from shard_worker.tasks import STATUS_OF
from shard_worker.view import View
from shard_worker.workload import QueueInfo
from shard_worker.world import World
from shared.excerpt import TOTALS, Excerpt, JobExcerpt, QueueExcerpt
from shared.messages import HOLDING, TaskState
from shared.model import Job
from shared.specs import decode_job, decode_queue

REMEMBERED = 4096
"""Specifications that are kept decoded: jobs come as neighbours and victims again and again."""

_STATUSES = tuple(STATUS_OF[state] for state in TaskState)
_HOLDS = frozenset(int(state) for state in HOLDING)


class Decoded:
    """Jobs by their encoded specifications, the last ones that were asked for."""

    def __init__(
        self, limit: int = REMEMBERED, *, numbers: Mapping[int, int] | None = None
    ) -> None:
        """``numbers``: what classes are called here, by what they are called in jobs."""
        self._limit = limit
        self._numbers = numbers or {}
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()

    def job(self, spec: bytes) -> Job:
        """Errors: Malformed."""
        found = self._jobs.get(spec)
        if found is None:
            found = self._jobs[spec] = self._renumbered(decode_job(spec))
            if len(self._jobs) > self._limit:
                self._jobs.popitem(last=False)
        else:
            self._jobs.move_to_end(spec)
        return found

    def _renumbered(self, job: Job) -> Job:
        if not self._numbers:
            return job
        roles = (replace(r, cid=self._numbers.get(r.cid, r.cid)) for r in job.roles)
        return replace(job, roles=tuple(roles))


@dataclass(slots=True)
class Opened:
    """A world, and what of its excerpt is no part of it."""

    world: World
    versions: dict[str, int]
    keys: dict[int, list[str]] = field(default_factory=dict)
    """Of each job: the version keys that move with its tasks."""
    missing: set[int] = field(default_factory=set)
    """Jobs of which the view does not know a class yet."""


def open_world(excerpt: Excerpt, *, view: View, mode: Mode, now: float, decoded: Decoded) -> Opened:
    """Errors: Malformed, where a specification in the excerpt is."""
    view.known.objects.usage = {
        node: {name: used for name, used in zip(("cpu", "memory"), told, strict=True) if used >= 0}
        for node, told in excerpt.usage.items()
    }
    world = World(
        total=excerpt.total,
        free=excerpt.free,
        promised=excerpt.promised,
        view=view,
        mode=mode,
        whole=False,
        now=now,
        tree=view.known.tree(view.nodes),
        objects=view.known.objects,
        priority_classes=view.known.priority_classes,
    )
    names: dict[str, QueueInfo] = {}
    for told in excerpt.queues:
        info = _queue(told)
        world.queues[info.queue.qid] = info
        names[info.queue.name] = info
    link(world.queues)
    opened = Opened(world, excerpt.versions)
    for told_job in excerpt.jobs:
        job = decoded.job(told_job.spec)
        opened.keys[job.jid] = told_job.keys
        if any(role.cid not in view.classes for role in job.roles):
            opened.missing.add(job.jid)
        else:
            world.add_job(_job(job, told_job, names.get(job.queue), view))
    return opened


def _queue(told: QueueExcerpt) -> QueueInfo:
    info = QueueInfo(queue=decode_queue(told.spec), jobs=told.jobs)
    for name, total in zip(TOTALS, told.totals, strict=True):
        setattr(info, name, total)
    return info


def _job(job: Job, told: JobExcerpt, queue: QueueInfo | None, view: View) -> SessionJob:
    rows = array("i", told.rows)
    for tix, state in enumerate(told.states):
        if state not in _HOLDS or rows[tix] >= view.size:
            rows[tix] = -1
    made = open_session_job(
        job,
        queue=queue,
        classes=view.classes,
        states=[_STATUSES[state] for state in told.states],
        rows=rows,
    )
    made.phase = told.phase
    made.figures = figures(made)  # the totals count it already
    for tix, row in told.nominated.items():
        made.tasks[tix].nominated = row
    for tix, started in told.started.items():
        made.tasks[tix].started = started
    return made
