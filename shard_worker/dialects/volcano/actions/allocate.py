"""allocate: place pending tasks, one turn of one job at a time.

The queue that comes first gives one job a turn; then its share is recomputed. A turn places a gang
up to its minimum, or one more task of a job that is ready, so that jobs grow side by side. The turn
is committed if the job is ready. A job that is only pipelined keeps its tasks' places until the
session ends, with nothing bound. Otherwise everything is undone. The fast path
(:mod:`shard_worker.turns.flat_turn`) makes the same placements for flat jobs, over columns.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import feasible
from shard_worker.placement.task_loop import Filling, FillResult
from shard_worker.placement.worksheet import Sheet, sheet_of
from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.topology.allocated_domains import (
    asks_for_domains,
    placed_by_domains,
    recover,
    tree_of,
)
from shard_worker.topology.domain_reasons import why_not
from shard_worker.topology.domain_search import DomainSearch
from shard_worker.topology.label_domains import LabelSearch
from shared.messages.reason import Reason
from shared.messages.skips import read

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob
    from shard_worker.session_model.workload import QueueInfo


class AllocateResult(Enum):
    """The result of a turn."""

    NOTHING = "everything was undone"
    PIPELINED = "tasks hold places, nothing is bound"
    COMMITTED = "the job is ready, and bound"


def execute(ssn: Session) -> None:
    """Give turns until no queue has a job left to try."""
    sheets: dict[int, Sheet] = {}
    for job in ssn.world.session_jobs():
        if (sheet := admitted(ssn, job)) is not None:
            sheets[job.job.jid] = sheet
    jobs = ssn.jobs_by_queue(j for j in ssn.world.session_jobs() if j.job.jid in sheets)
    queues = ssn.line_of_queues(ssn.world.queues[qid] for qid in jobs)
    while queues:
        queue = queues.pop()
        waiting = jobs[queue.queue.qid]
        if ssn.queue_overused(queue):
            # Volcano's rule: dropped for the rest of the action, and not put back. What the service
            # gives beyond shares is for Order to decide (decision 0010).
            _passed_over(ssn, queue, waiting.drain())
            continue
        if not waiting:
            continue
        job = waiting.pop()
        sheet = sheets[job.job.jid]
        # Only a job that was committed gets another turn: one that was undone would fail again on
        # the same nodes, one that is pipelined holds all it needs.
        if turn(ssn, job, sheet) is AllocateResult.COMMITTED and len(sheet):
            waiting.push(job)
        # Put back after the turn, not before: its place in line follows from the share that it has
        # now.
        queues.push(queue)


def allocate_job(ssn: Session, job: SessionJob) -> AllocateResult:
    """One turn of one job."""
    sheet = admitted(ssn, job)
    if sheet is None:
        return AllocateResult.NOTHING
    if job.queue is not None and ssn.queue_overused(job.queue):
        _passed_over(ssn, job.queue, [job])
        return AllocateResult.NOTHING
    return turn(ssn, job, sheet)


def admitted(ssn: Session, job: SessionJob) -> Sheet | None:
    """The worksheet of a job; None if it gets no turn in this session."""
    if not may_place(ssn, job):
        return None
    reason = ssn.job_valid(job, ssn.world)
    if reason is not None:
        ssn.skip(job, *(read([reason]) or (Reason.NOT_ENOUGH_TASKS, reason)))
        return None
    if job.queue is None:
        ssn.skip(job, Reason.MISCONFIGURED, f"queue {job.job.queue} does not exist")
        return None
    if asks_for_domains(job):
        tree = tree_of(ssn.world)
        if not tree.ready:
            ssn.skip(job, Reason.TOPOLOGY_PLACEMENT_FAILED, tree.problem)
            return None
        recover(job, tree)
    sheet = sheet_of(ssn, job)
    return sheet if len(sheet) else None


def may_place(ssn: Session, job: SessionJob) -> bool:
    """Whether pods of the job may be placed. Without the action enqueue every job is admitted."""
    if waits_for_entry(job.phase):
        if "enqueue" in ssn.policy.actions:
            return False
        job.phase = "Inqueue"
    return True


def turn(ssn: Session, job: SessionJob, sheet: Sheet) -> AllocateResult:
    """Place as much as one turn may place."""
    if job.job.topology_key:
        return _by_label(ssn, job, sheet)
    if placed_by_domains(ssn.world, job):
        return _by_domains(ssn, job, sheet)
    statement = WorldStatement(ssn)
    filled = Filling(ssn, statement, sheet.subs[0]).run()
    _tell(ssn, job, filled)
    if not filled.accepted:
        return AllocateResult.NOTHING
    if filled.over_quota and not statement.operations:
        _no_quota(ssn, job, filled)  # ready as it is: it needs no member, or has them
    outcome = _end(ssn, job, statement)
    if outcome is AllocateResult.COMMITTED:
        sheet.subs[0].sub.nominated_hyper_node = ""
    return outcome


def _by_domains(ssn: Session, job: SessionJob, sheet: Sheet) -> AllocateResult:
    tree = tree_of(ssn.world)
    search = DomainSearch(ssn, sheet, tree)
    if not search.run(tree.root):
        _no_domain(ssn, search)
        return AllocateResult.NOTHING
    outcome = _end(ssn, job, search.statement)
    if outcome is AllocateResult.COMMITTED:
        search.keep()
    return outcome


def _by_label(ssn: Session, job: SessionJob, sheet: Sheet) -> AllocateResult:
    statement, sub = WorldStatement(ssn), sheet.subs[0]
    search, start, explained = LabelSearch(ssn, job, sub.left()), sub.at, False
    for domain in search.ranked():
        sub.at, sub.failed = start, {}
        filled = Filling(ssn, statement, sub, within=domain.mask(ssn.world.size)).run()
        explained = _tell(ssn, job, filled) and not filled.accepted
        if statement.operations:
            return _end(ssn, job, statement)
    if not explained:
        ssn.skip(job, Reason.TOPOLOGY_PLACEMENT_FAILED, search.why_not())
    return AllocateResult.NOTHING


def _end(ssn: Session, job: SessionJob, statement: WorldStatement) -> AllocateResult:
    if ssn.ready(job):
        statement.commit()
        return AllocateResult.COMMITTED
    # Neither committed nor undone, as in Volcano: until the session ends nobody else takes the room
    # of a gang that only waits for others to leave. A worker makes nominations of it.
    return AllocateResult.PIPELINED if statement.operations else AllocateResult.NOTHING


# --- why not ------------------------------------------------------------------------------------


def _passed_over(ssn: Session, queue: QueueInfo, jobs: list[SessionJob]) -> None:
    for job in jobs:
        ssn.skip(job, Reason.WAITING_FOR_QUOTA, f"queue {queue.queue.name} has its share")


def _tell(ssn: Session, job: SessionJob, filled: FillResult) -> bool:
    """Record why tasks found no node; True if that explains every failure."""
    if filled.reasons and not job.unschedulable:
        job.unschedulable, job.failed_role = filled.reasons, filled.role
    if filled.accepted:
        return True
    if filled.over_quota:
        _no_quota(ssn, job, filled)
        return True
    if filled.gated and not filled.reasons:
        ssn.skip(job, Reason.GATED, f"tasks that wait for their gate: {filled.gated}")
        return True
    return False


def _no_quota(ssn: Session, job: SessionJob, filled: FillResult) -> None:
    text = f"queue {job.job.queue} has no room for {filled.over_quota} of its tasks"
    ssn.skip(job, Reason.WAITING_FOR_QUOTA, text)


def _no_domain(ssn: Session, search: DomainSearch) -> None:
    job = search.job
    explained = search.filled is not None and _tell(ssn, job, search.filled)
    if not job.unschedulable:
        first = next(task for sub in search.sheet.queued for task in sub.left())
        candidates = feasible(ssn, first)
        if not candidates.mask.any():
            job.unschedulable, job.failed_role = candidates.reasons, first.role.name
    if not explained:
        ssn.skip(job, *why_not(search))
