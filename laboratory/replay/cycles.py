"""Several sessions in a row, with assumed progress of the cluster in between.

A bound task runs. An evicted task has left its node and is pending again, as if its controller
recreated it. A pipelined task is pending, and keeps its nomination for the next session to bind.
Tasks that were leaving when the record was taken are gone. Running tasks never end. PodGroups have
the phases that the session wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from laboratory.replay.outcome import ReplayResult, phase_of, result_of
from laboratory.replay.recorded import Recorded
from laboratory.replay.session import run_session
from laboratory.simulation.history import Notes
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import Status
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.policy.model import Policy

PERIOD = 1.0
"""Seconds between sessions, as Volcano's schedule period."""
ALLOCATED_HYPER_NODE = "volcano.sh/job-allocated-hypernode"


def run_cycles(
    policy: Policy,
    recorded: Recorded,
    *,
    name: str,
    cycles: int = 1,
    mode: Mode = Mode.NONE,
    own_rows: Sequence[int] | None = None,
    now: float = 0.0,
    notes: Callable[[], Notes | None] = lambda: None,
) -> Iterator[ReplayResult]:
    """Yield one result per session. ``notes`` makes what gets a session's history. Raises
    LedgerRefused."""
    memory: dict[str, float] = {}
    for _ in range(cycles):
        session = run_session(
            policy,
            recorded,
            mode=mode,
            own_rows=own_rows,
            now=now,
            memory=memory,
            notes=notes(),
        )
        yield result_of(name, session, recorded.placed_jobs)
        recorded, now = between(recorded, session, now), now + PERIOD


def between(recorded: Recorded, ssn: Session, now: float) -> Recorded:
    """The cluster at the start of the next session."""
    world = ssn.world
    evicted = {id(op.task) for op in ssn.committed if op.kind is OpKind.EVICT}
    placed_jobs = []
    for placed_job in recorded.placed_jobs:
        job_info = world.jobs.get(placed_job.job.jid)
        if job_info is None:
            placed_jobs.append(placed_job)
        else:
            placed_jobs.append(
                _after(ssn, world.session_job(job_info.job.jid), placed_job, evicted, now)
            )
    return replace(recorded, placed_jobs=placed_jobs)


def _after(
    ssn: Session, job: SessionJob, before: PlacedJob, evicted: set[int], now: float
) -> PlacedJob:
    marks = dict(job.job.annotations)
    if job.allocated_hyper_node:
        marks[ALLOCATED_HYPER_NODE] = job.allocated_hyper_node
    after = PlacedJob(
        replace(job.job, phase=phase_of(ssn, job), annotations=tuple(sorted(marks.items()))),
        started=dict(before.started),
    )
    for task in job.tasks:
        tix = task.tix
        match task.status:
            case Status.BINDING | Status.BOUND:
                after.states[tix], after.rows[tix] = Status.RUNNING, task.row
                after.started[tix] = now
                if task.devices:
                    after.devices[tix] = task.devices
            case Status.PIPELINED:
                after.nominated[tix] = task.row
            case Status.RELEASING if id(task) not in evicted:
                after.states[tix] = Status.FAILED
            case Status.RELEASING:
                after.started.pop(tix, None)
            case Status.PENDING | Status.ALLOCATED:
                pass
            case _:
                after.states[tix] = task.status
                if task.row >= 0:
                    after.rows[tix] = task.row
                    after.devices |= {tix: task.devices} if task.devices else {}
    return after
