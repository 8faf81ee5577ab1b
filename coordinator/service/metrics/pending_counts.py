"""Waiting jobs and tasks by status and reason, counted in one pass over all jobs.

Nothing is maintained while jobs change; the pass takes a fraction of a microsecond per job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import kept_out_by, line_reason, untried
from coordinator.jobs.pending_order import Line
from coordinator.jobs.pending_reasons import word
from coordinator.jobs.state import JobState, Standing
from shared.messages.reason import Hold, Reason
from shared.slices import Steps

STATUSES = ("active", "backoff", "unschedulable", "gated", "nominated")
"""``active``: its turn comes, or is open. ``backoff``: attempts failed, the next comes soon.
``unschedulable``: no room, or no quota. ``gated``: a person has to provide what is missing.
``nominated``: it has places that other tasks still have to leave."""

_BY_REASON = {
    Reason.WAITING_FOR_QUOTA: "unschedulable",
    Reason.PENDING_EVALUATION: "active",
    Hold.GANG_RELEASED: "active",
    Reason.ATTEMPTS_EXHAUSTED: "backoff",
}
_BY_STANDING = {Standing.WAITING: "gated", Standing.NOMINATED: "nominated"}

UNTRIED = (Hold.NONE, Reason.PENDING_EVALUATION)

JOBS_A_STEP = 256
"""A tenth of a millisecond."""


UNKNOWN_QUEUE = -1
"""The qid of a job whose queue does not exist."""


@dataclass(slots=True)
class PendingTotals:
    tasks: Counter[str] = field(default_factory=Counter)
    """Pending tasks, by status."""
    jobs: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Jobs without any place, by queue (qid, or UNKNOWN_QUEUE) and reason of the closed list."""


def waiting_in_steps(
    core: Coordinator, now: float, *, names: Sequence[str]
) -> Steps[PendingTotals]:
    """Count what waits, with a pause after every few jobs; jobs that change meanwhile may be
    counted in their old state. ``now``: seconds since 1970. ``names``: the resource of each
    slot."""
    order = core.order
    totals, jobs = PendingTotals(), order.jobs
    back: dict[Line, _HeldLine] = {}
    kept_out: dict[Line, Reason] = {}
    for line in order.lines.all():
        if (held_line := _held_line(core, line, now, names)) is not None:
            back[line] = held_line
        elif (reason := kept_out_by(core, line.queue.info, line, names)) is not None:
            kept_out[line] = reason
        yield
    turns = {qid: untried(core, queue) for qid, queue in order.lines.queues.items()}
    for number, (jid, info) in enumerate(list(order.accounts.cluster.jobs.items())):
        if number % JOBS_A_STEP == 0:
            yield
        pending = info.pending + info.best_effort[0]
        if not pending or (state := jobs.get(jid)) is None:
            continue
        at = None if state.line is None else back.get(state.line)
        if at is not None:
            at.tasks += pending
            at.jobs += not info.held[0]
            continue
        totals.tasks[_status(state)] += pending
        if not info.held[0]:
            reason = None if state.line is None else kept_out.get(state.line)
            if reason is None and state.reason in UNTRIED and state.standing is Standing.READY:
                reason = _untried_line(core, state.line) or turns.get(info.qid)
            totals.jobs[info.qid, reason or word(state.reason)] += 1
    for line_held in back.values():
        totals.tasks[line_held.status] += line_held.tasks
        totals.jobs[line_held.qid, line_held.reason] += line_held.jobs
    for info in order.accounts.queueless.values():
        totals.tasks["gated"] += info.pending + info.best_effort[0]
        totals.jobs[UNKNOWN_QUEUE, Reason.MISCONFIGURED] += not info.held[0]
    totals.jobs = +totals.jobs
    return totals


def reasons_in_steps(
    core: Coordinator, now: float, *, names: Sequence[str]
) -> Steps[dict[str, int]]:
    """Number of jobs by pending reason, with a pause after every line. Counted by line instead of
    by job: cheap enough for frequent calls."""
    lines = core.order.lines
    by_reason = lines.outside()
    turns = {qid: untried(core, queue) for qid, queue in lines.queues.items() if queue.lines}
    for line in lines.all():
        if (kept_out := kept_out_by(core, line.queue.info, line, names)) is not None:
            by_reason[kept_out] += line.jobs
        elif lines.held_back(line, now):
            by_reason[line_reason(core, line.queue.info, line, names)] += line.jobs
        else:
            turn = _untried_line(core, line) or turns.get(line.queue.info.queue.qid)
            for reason, count in line.reasons.items():
                by_reason[turn if turn and reason in UNTRIED else word(reason)] += count
        yield
    return {reason.value: count for reason, count in (+by_reason).items()}


def _untried_line(core: Coordinator, line: Line | None) -> Reason | None:
    """The reason of jobs in a sorted line that the search skipped, because its queue has no room
    for it; None for any other line."""
    if line is None or line.order is None:
        return None
    allowed = core.order.picking.allowed(line.queue.info, line.need)
    return None if allowed else Reason.WAITING_FOR_QUOTA


@dataclass(slots=True)
class _HeldLine:
    """A blocked line and its jobs' reason."""

    qid: int
    status: str
    reason: Reason
    tasks: int = 0
    jobs: int = 0


def _held_line(core: Coordinator, line: Line, now: float, names: Sequence[str]) -> _HeldLine | None:
    """None where the line may be tried."""
    order = core.order
    if not order.lines.held_back(line, now):
        return None
    tried = 0 <= line.infeasible_at < order.accounts.capacity.changes
    status = "backoff" if tried and now < line.not_before else "unschedulable"
    info = line.queue.info
    return _HeldLine(info.queue.qid, status, line_reason(core, info, line, names))


def _status(state: JobState) -> str:
    return _BY_REASON.get(state.reason) or _BY_STANDING.get(state.standing, "active")
