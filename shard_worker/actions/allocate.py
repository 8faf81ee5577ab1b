"""allocate: place what waits, one turn of one job after the other.

The queue whose turn it is gives one job a turn; then its share is looked at anew. A turn places a
gang up to its minimum, or one more task of a job that is ready, so that jobs grow side by side. It
is kept where the job is ready. A job that is only pipelined keeps its tasks' places until the
session ends, without anything being bound. Else everything is undone.

The fast path (:mod:`shard_worker.placing`) places the same for flat jobs over columns.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from shard_worker.allocated_domains import (
    asks_for_domains,
    placed_by_domains,
    recover,
    tree_of,
)
from shard_worker.candidates import feasible
from shard_worker.domain_reasons import why_not
from shard_worker.domain_search import DomainSearch
from shard_worker.filling import Filled, Filling
from shard_worker.priority_queue import PriorityQueue
from shard_worker.worksheet import Sheet, sheet_of
from shard_worker.world_statement import WorldStatement

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob
    from shard_worker.workload import QueueInfo

PENDING = ("", "Pending")
"""Phases of a PodGroup that was not let in yet."""


class Outcome(Enum):
    """What came of a turn."""

    NOTHING = "everything was undone"
    PIPELINED = "tasks hold places, nothing is bound"
    COMMITTED = "the job is ready, and bound"


def execute(ssn: Session) -> None:
    """Turns until no queue has a job left that could get one."""
    sheets: dict[int, Sheet] = {}
    jobs: dict[int, PriorityQueue[SessionJob]] = {}
    queues = ssn.line_of_queues()
    for job in ssn.world.session_jobs():
        sheet = admitted(ssn, job)
        if sheet is None or job.queue is None:
            continue
        sheets[job.job.jid] = sheet
        if job.qid not in jobs:
            jobs[job.qid] = PriorityQueue(ssn.compare_jobs)
            queues.push(job.queue)
        jobs[job.qid].push(job)
    while queues:
        queue = queues.pop()
        waiting = jobs[queue.queue.qid]
        if ssn.queue_overused(queue):
            _passed_over(ssn, queue, waiting.drain())
            continue
        if not waiting:
            continue
        job = waiting.pop()
        sheet = sheets[job.job.jid]
        if turn(ssn, job, sheet) is Outcome.COMMITTED and len(sheet):
            waiting.push(job)
        queues.push(queue)


def allocate_job(ssn: Session, job: SessionJob) -> Outcome:
    """One turn of one job."""
    sheet = admitted(ssn, job)
    if sheet is None:
        return Outcome.NOTHING
    if job.queue is not None and ssn.queue_overused(job.queue):
        _passed_over(ssn, job.queue, [job])
        return Outcome.NOTHING
    return turn(ssn, job, sheet)


def admitted(ssn: Session, job: SessionJob) -> Sheet | None:
    """What there is to place of a job; None where it gets no turn in this session."""
    if not let_in(ssn, job):
        return None
    reason = ssn.job_valid(job, ssn.world)
    if reason is not None:
        ssn.skip(job, "NotEnoughTasks", reason)
        return None
    if job.queue is None:
        ssn.skip(job, "Misconfigured", f"queue {job.job.queue} does not exist")
        return None
    if asks_for_domains(job):
        tree = tree_of(ssn.world)
        if not tree.ready:
            ssn.skip(job, "TopologyPlacementFailed", tree.problem)
            return None
        recover(job, tree)
    sheet = sheet_of(ssn, job)
    return sheet if len(sheet) else None


def let_in(ssn: Session, job: SessionJob) -> bool:
    """May pods of the job be placed? Without the action enqueue every job is let in."""
    if job.phase in PENDING:
        if "enqueue" in ssn.policy.actions:
            return False
        job.phase = "Inqueue"
    return True


def turn(ssn: Session, job: SessionJob, sheet: Sheet) -> Outcome:
    """Place as much as one turn places."""
    if placed_by_domains(ssn.world, job):
        return _by_domains(ssn, job, sheet)
    statement = WorldStatement(ssn)
    filled = Filling(ssn, statement, sheet.subs[0]).run()
    _tell(ssn, job, filled)
    if not filled.kept:
        return Outcome.NOTHING
    outcome = _end(ssn, job, statement)
    if outcome is Outcome.COMMITTED:
        sheet.subs[0].sub.nominated_hyper_node = ""
    return outcome


def _by_domains(ssn: Session, job: SessionJob, sheet: Sheet) -> Outcome:
    tree = tree_of(ssn.world)
    search = DomainSearch(ssn, sheet, tree)
    if not search.run(tree.root):
        _no_domain(ssn, search)
        return Outcome.NOTHING
    outcome = _end(ssn, job, search.statement)
    if outcome is Outcome.COMMITTED:
        search.keep()
    return outcome


def _end(ssn: Session, job: SessionJob, statement: WorldStatement) -> Outcome:
    if ssn.ready(job):
        statement.commit()
        return Outcome.COMMITTED
    return Outcome.PIPELINED if statement.operations else Outcome.NOTHING


# --- why not ------------------------------------------------------------------------------------


def _passed_over(ssn: Session, queue: QueueInfo, jobs: list[SessionJob]) -> None:
    for job in jobs:
        ssn.skip(job, "WaitingForQuota", f"queue {queue.queue.name} has its share")


def _tell(ssn: Session, job: SessionJob, filled: Filled) -> bool:
    """Note why tasks had no place; True where that is the whole story."""
    if filled.reasons and not job.unschedulable:
        job.unschedulable, job.failed_role = filled.reasons, filled.role
    if filled.kept:
        return True
    if filled.over_quota:
        text = f"queue {job.job.queue} has no room for {filled.over_quota} of its tasks"
        ssn.skip(job, "WaitingForQuota", text)
        return True
    if filled.gated and not filled.reasons:
        ssn.skip(job, "Gated", f"tasks that wait for their gate: {filled.gated}")
        return True
    return False


def _no_domain(ssn: Session, search: DomainSearch) -> None:
    job = search.job
    told = search.filled is not None and _tell(ssn, job, search.filled)
    if not job.unschedulable:
        first = next(task for sub in search.sheet.queued for task in sub.left())
        found = feasible(ssn, first)
        if not found.mask.any():
            job.unschedulable, job.failed_role = found.reasons, first.role.name
    if not told:
        ssn.skip(job, *why_not(search))
