"""New jobs of one pod that say the same but for their names: they join the books as one run.

What the rules say of a job follows from all that it says but its identity, so that it is asked once
for the run: whether the job is valid, in which line it stands and with which key. Each still has a
state and a place in its line of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.charges.gpu_memory import by_memory
from coordinator.jobs.state import JobState, SchedulingStatus
from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.session_model.workload import JobInfo, add
from shared.messages.messages import TaskState
from shared.model.model import Job, Role

_OF_JOB = attrgetter(
    *(name for name in Job.__struct_fields__ if name not in ("jid", "name", "uid", "roles"))
)
_OF_ROLE = attrgetter(*(name for name in Role.__struct_fields__ if name not in ("names", "uids")))


def runs_of(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """The jobs in their order: those of one pod that follow each other and say the same together,
    any other by itself."""
    for _, run in groupby(jobs, _shape):
        yield list(run)


def _shape(job: Job) -> tuple[object, ...]:
    """All that a job of one pod says but its identity; of another one its number."""
    if len(job.roles) != 1 or job.roles[0].count != 1 or job.annotations:
        return (job.jid,)
    return _OF_JOB(job), _OF_ROLE(job.roles[0])


def is_plain(state: JobState) -> bool:
    """Whether a new job of one pod stands in a line, and no book has more of it than its state, its
    place there and sums of its requests."""
    role, (cls,) = state.job.roles[0], state.info.classes
    return (
        state.status is SchedulingStatus.READY
        and state.line is not None
        and state.info.pending == 1
        and not waits_for_entry(state.info.phase)
        and not (role.gated or role.annotations or state.job.is_confined)
        and state.job.min_resources is None
        and cls.constraints is None
        and not by_memory(cls)
    )


def another(first: JobState, job: Job) -> JobState:
    """The state of a job that says the same as a new one, which :func:`is_plain`, and stands in the
    same line."""
    info = JobInfo(
        job=job,
        qid=first.info.qid,
        held=list(first.info.held),
        waiting=list(first.info.waiting),
        best_effort=list(first.info.best_effort),
        pending=1,
        requested=dict(first.info.requested),
        phase=first.info.phase,
        classes=first.info.classes,
    )
    return JobState(
        job=job,
        info=info,
        states=bytearray(1),
        status=first.status,
        reason=first.reason,
        line=first.line,
        need=first.need,
        slow=first.slow,
        rows=array("i", first.rows),
        stamp=first.stamp,
        counted=True,
        backfilled=first.backfilled,
    )


def admit_run(accounts: Accounts, run: Sequence[JobState]) -> None:
    """Count like jobs in their queue, as :meth:`Accounts.admit` does each."""
    first, count = run[0], len(run)
    accounts.cluster.jobs.update((state.job.jid, state.info) for state in run)
    queue = accounts.queue(first)
    queue.jobs += count
    add(queue.requested, first.info.requested.items(), count)
    accounts.tasks[TaskState.PENDING] += count
    accounts.dirty = True
