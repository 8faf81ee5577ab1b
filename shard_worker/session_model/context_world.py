"""A world over a worker's live view, built from the turn context that came with a turn.

The view is shared with everything else the worker does: the effects of a session in this world are
undone on it by :mod:`shard_worker.turns.session_turn`, before they become a statement.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from shard_worker.session_model.decoded_jobs import Decoded
from shard_worker.session_model.job import SessionJob, open_session_job
from shard_worker.session_model.other_jobs import JobReadCache, OtherJobs
from shard_worker.session_model.queue_totals import figures, link
from shard_worker.session_model.status import STATUS_OF
from shard_worker.session_model.workload import QueueInfo
from shard_worker.session_model.world import World
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.messages.messages import HOLDING, TaskState
from shared.messages.turn_context import TOTALS, JobContext, QueueContext, TurnContext
from shared.model.model import Job
from shared.records.specs import decode_queue

_STATUSES = tuple(STATUS_OF[state] for state in TaskState)
_HOLDS = frozenset(int(state) for state in HOLDING)


@dataclass(slots=True)
class ContextWorld:
    """A world, and the parts of its turn context that are not in it."""

    world: World
    versions: dict[str, int]
    keys: dict[int, list[str]] = field(default_factory=dict)
    """Job -> the version keys that its tasks' changes increment."""
    missing: set[int] = field(default_factory=set)
    """Jobs with a class that the view does not know yet."""


def open_world(
    context: TurnContext,
    *,
    view: View,
    mode: Mode,
    now: float,
    decoded: Decoded,
    reading: JobReadCache,
    backfills: bool = True,
) -> ContextWorld:
    """``decoded``: jobs of turn contexts. ``reading``: of the view's table. ``backfills``: whether
    best-effort tasks are left to the action backfill.

    Errors: Malformed, for an invalid specification in the turn context.
    """
    view.known.objects.usage = {
        node: {
            name: used for name, used in zip(("cpu", "memory"), percents, strict=True) if used >= 0
        }
        for node, percents in context.usage.items()
    }
    world = World(
        total=context.total,
        free=context.free,
        promised=dict(context.promised),
        view=view,
        mode=mode,
        whole=False,
        now=now,
        tree=view.known.tree(view.nodes),
        objects=view.known.objects,
        priority_classes=view.known.priority_classes,
        queue_shares=context.shares,
        job_starts=context.starts,
    )
    names: dict[str, QueueInfo] = {}
    for queue_context in context.queues:
        info = _queue(queue_context)
        world.queues[info.queue.qid] = info
        names[info.queue.name] = info
    link(world.queues)
    world.lasting = reading.derived
    if view.residents is not None:
        world.others = OtherJobs(
            view.residents,
            view=view,
            queues=names,
            reading=reading,
            backfills=backfills,
            spared=frozenset(context.spared),
        )
    opened = ContextWorld(world, context.versions)
    for job_context in context.jobs:
        job = decoded.job(job_context.spec)
        opened.keys[job.jid] = job_context.keys
        if any(role.cid not in view.classes for role in job.roles):
            opened.missing.add(job.jid)
        else:
            queue = names.get(job.queue)
            world.add_linked(_job(job, job_context, queue, view, backfilled=backfills))
    return opened


def _queue(context: QueueContext) -> QueueInfo:
    info = QueueInfo(queue=decode_queue(context.spec), jobs=context.jobs)
    for name, total in zip(TOTALS, context.totals, strict=True):
        setattr(info, name, dict(total))  # a turn may open several sessions from one turn context
    return info


def _job(
    job: Job, context: JobContext, queue: QueueInfo | None, view: View, *, backfilled: bool
) -> SessionJob:
    rows = array("i", context.rows)
    for tix, state in enumerate(context.states):
        # A node that this view has not read yet: context and view are of two moments.
        if state not in _HOLDS or rows[tix] >= view.size:
            rows[tix] = -1
    session_job = open_session_job(
        job,
        queue=queue,
        classes=view.classes,
        states=[_STATUSES[state] for state in context.states],
        rows=rows,
        backfilled=backfilled,
    )
    session_job.phase = context.phase
    session_job.figures = figures(session_job)  # the totals count it already
    for tix, row in context.nominated.items():
        session_job.tasks[tix].nominated = row
    for tix, started in context.started.items():
        session_job.tasks[tix].started = started
    for tix, devices in context.devices.items():
        if rows[tix] >= 0:
            session_job.tasks[tix].devices = devices
    return session_job
