"""A turn of a worker over a small cluster: its own job, and everybody else in a table of
residents."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.service.turn_session import TurnSession, run_for_job
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import SessionJob, TaskInfo, open_session_job
from shard_worker.session_model.other_jobs import JobReadCache, OtherJobs
from shard_worker.session_model.status import STATUS_OF
from shard_worker.session_model.workload import QueueInfo
from shard_worker.session_model.world import World
from shard_worker.view.resident_table import ResidentTable
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.ledger.residents import DeviceCodes, Residents
from shared.messages.messages import TaskState
from shared.model.model import Job, Queue
from shared.records.specs_jobs import encode_job

STATE_OF = {status: state for state, status in reversed(STATUS_OF.items())}


def table_of(
    session: KaiSession,
    specs: dict[int, Job],
    qids: dict[str, int],
    state_of: Callable[[TaskInfo], TaskState],
) -> ResidentTable:
    """The jobs of a whole session as a worker's table has them."""
    codes, table = DeviceCodes(), ResidentTable()
    tasks = [
        (task.job.job.jid, task.tix, state, max(task.row, 0), task.cid, codes.code(task.devices))
        for task in session.world.tasks()
        if (state := state_of(task)) is not TaskState.PENDING
    ]
    jobs = [(jid, qids.get(job.queue, -1), False, encode_job(job)) for jid, job in specs.items()]
    table.load(Residents(np.array(tasks, np.int64).reshape(-1, 6).T, jobs, codes))
    return table


def turn_over(
    whole: KaiSession,
    name: str,
    *,
    by_columns: bool = True,
    spec: Callable[[Job], Job] = lambda job: job,
    state_of: Callable[[TaskInfo], TaskState] = lambda task: STATE_OF[task.status],
    prepare: Callable[[View], None] = lambda view: None,
    spared: Collection[int] = (),
    gone: Collection[int] = (),
    linked: Collection[int] = (),
    starts: dict[int, float] | None = None,
    reading: JobReadCache | None = None,
    now: float = 0.0,
    session: TurnSession | None = None,
) -> tuple[TurnSession, SessionJob]:
    """The session of a turn of the job ``name`` over the nodes, queues and jobs of a session over
    everything, which is not used any more. ``spec`` changes the jobs' specifications,
    ``state_of`` says the states of tasks in the table, ``prepare`` changes the view; ``linked``
    come with the turn. ``session``: is entered for it, instead of a new one."""
    view, objects = whole.world.view, whole.world.objects
    qids = {queue: qid for qid, queue in enumerate(objects.kai_queues)}
    infos = {queue: QueueInfo(Queue(qid, queue)) for queue, qid in qids.items()}
    groups = {job.job.job.jid: job.queue.record.name for job in whole.kai_jobs.values()}
    specs = {
        job.job.jid: spec(replace(job.job, queue=groups.get(job.job.jid, "")))
        for job in whole.world.session_jobs()
    }
    view.residents = table_of(whole, specs, qids, state_of)
    for jid in gone:
        view.residents.jobs.leave(jid)
    prepare(view)
    world = World(
        total=whole.world.total,
        view=view,
        whole=False,
        now=now,
        objects=objects,
        queues={info.queue.qid: info for info in infos.values()},
        job_starts=starts or {},
    )
    reading = reading or JobReadCache()
    world.lasting = reading.derived
    others = OtherJobs(view.residents, view=view, queues=infos, reading=reading, spared=spared)
    world.others = others
    own = next(jid for jid, job in specs.items() if job.name == name)
    for jid in (own, *sorted(set(linked) - {own})):
        world.add_linked(_linked(whole.world.session_job(jid), specs[jid], infos))
    ssn = session or TurnSession(whole.policy)
    ssn.reads_columns = by_columns
    if session is None:
        open_kai_session(whole.policy, ssn)
    ssn.enter(world)
    for queue, state in whole.queues.items():  # as the coordinator would tell them
        mine = ssn.queues[queue]
        mine.allocated, mine.non_preemptible = state.allocated, state.non_preemptible
        mine.fair_share = state.fair_share
    return ssn, world.session_job(own)


def _linked(job: SessionJob, spec: Job, queues: dict[str, QueueInfo]) -> SessionJob:
    classes = {task.cid: task.cls for task in job.tasks}
    opened = open_session_job(
        spec,
        queue=queues.get(spec.queue),
        classes=classes,
        states=[task.status for task in job.tasks],
        rows=[task.row for task in job.tasks],
    )
    for mine, task in zip(opened.tasks, job.tasks, strict=True):
        mine.devices = task.devices
    return opened


def did(ssn: TurnSession, job: SessionJob, action: str) -> object:
    """Give the job its turn: what the session committed, operation by operation, what it says of
    it, and how much its search tried."""
    run_for_job(ssn, job, action)
    figures = ssn.searches
    return (
        [(op.kind, _name(op.task), op.row, op.taking.things) for op in ssn.committed],
        [(_name(task), task.status, task.row, task.devices) for task in job.tasks],
        ssn.skipped.get(job.job.jid),
        (figures.searches, figures.simulated, figures.ruled_out, dict(figures.ended)),
    )


def _name(task: TaskInfo) -> tuple[int, int]:
    return task.job.job.jid, task.tix
