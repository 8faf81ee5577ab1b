"""Waiting jobs and tasks by status and reason, counted in one pass over all jobs.

Nothing is maintained while jobs change; the pass takes a fraction of a microsecond per job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import line_words
from coordinator.jobs.pending_order import Line
from coordinator.jobs.pending_reasons import word
from coordinator.jobs.state import JobState, SchedulingStatus
from shared.messages.reason import HoldReason, Reason, WaitReason
from shared.slices import Steps

STATUSES = ("active", "backoff", "unschedulable", "gated", "nominated")
"""``active``: its turn comes, or is open. ``backoff``: attempts failed, the next comes soon.
``unschedulable``: no room, or no quota. ``gated``: a person has to provide what is missing.
``nominated``: it has places that other tasks still have to leave."""

_BY_REASON = {
    Reason.WAITING_FOR_QUOTA: "unschedulable",
    Reason.PENDING_EVALUATION: "active",
    HoldReason.GANG_RELEASED: "active",
    Reason.ATTEMPTS_EXHAUSTED: "backoff",
}
_BY_STANDING = {SchedulingStatus.WAITING: "gated", SchedulingStatus.NOMINATED: "nominated"}

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
    statuses: dict[Line, str] = {}
    words: dict[Line, Mapping[WaitReason, Reason]] = {}
    for each in order.lines.all():
        words[each] = line_words(core, each, names)
        if order.lines.held_back(each, now):
            statuses[each] = _held_status(core, each, now)
        yield
    for number, (jid, info) in enumerate(list(order.accounts.cluster.jobs.items())):
        if number % JOBS_A_STEP == 0:
            yield
        pending = info.pending + info.best_effort[0]
        if not pending or (state := jobs.get(jid)) is None:
            continue
        line = state.line
        totals.tasks[(line and statuses.get(line)) or _status(state)] += pending
        if not info.held[0]:
            by_reason = words.get(line) if line else None
            reason = (by_reason and by_reason.get(state.reason)) or word(state.reason)
            totals.jobs[info.qid, reason] += 1
    for info in order.accounts.queueless.values():
        totals.tasks["gated"] += info.pending + info.best_effort[0]
        reason = order.session.eligibility.homeless(info.job)
        totals.jobs[UNKNOWN_QUEUE, reason] += not info.held[0]
    totals.jobs = +totals.jobs
    return totals


def reasons_in_steps(core: Coordinator, *, names: Sequence[str]) -> Steps[dict[str, int]]:
    """Number of jobs by pending reason, with a pause after every line. Counted by line instead of
    by job: cheap enough for frequent calls."""
    by_reason = core.order.lines.outside()
    for line in core.order.lines.all():
        words = line_words(core, line, names)
        for reason, shown in words.items():
            by_reason[shown] += line.reasons[reason]
        yield
    return {reason.value: count for reason, count in (+by_reason).items()}


def _held_status(core: Coordinator, line: Line, now: float) -> str:
    """The status of the tasks of a blocked line."""
    tried = 0 <= line.infeasible_at < core.order.accounts.capacity.changes
    return "backoff" if tried and now < line.not_before else "unschedulable"


def _status(state: JobState) -> str:
    return _BY_REASON.get(state.reason) or _BY_STANDING.get(state.status, "active")
