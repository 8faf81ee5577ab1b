"""Who waits, and for what: every job that has tasks pending, counted in one pass.

Nothing of this is kept while jobs move; the pass takes a fraction of a microsecond a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.core import Coordinator
from coordinator.jobbook import PENDING
from coordinator.jobs import JobState, Standing
from coordinator.reasons import Reason, kept_out_by, line_reason, untried, word

STATUSES = ("active", "backoff", "unschedulable", "gated", "nominated")
"""``active``: its turn comes, or is under way. ``backoff``: tried in vain, tried again soon.
``unschedulable``: no room, or no quota. ``gated``: a person has to give what is missing.
``nominated``: it has places that others still have to leave."""

_BY_REASON = {
    "WaitingForQuota": "unschedulable",
    "PendingEvaluation": "active",
    "GangReleased": "active",
    "AttemptsExhausted": "backoff",
}
_BY_STANDING = {Standing.WAITING: "gated", Standing.NOMINATED: "nominated"}

UNTRIED = ("", PENDING)

UNKNOWN_QUEUE = -1
"""The qid of a job whose queue does not exist."""


@dataclass(slots=True)
class Waiting:
    tasks: Counter[str] = field(default_factory=Counter)
    """Pending tasks, by status."""
    jobs: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Jobs without any place, by queue (qid, or UNKNOWN_QUEUE) and reason of the closed list."""


def count_waiting(core: Coordinator, now: float, *, names: Sequence[str]) -> Waiting:
    """``now``: seconds since 1970. ``names``: the resource of each slot."""
    order = core.order
    found, jobs = Waiting(), order.jobs
    back = _held_lines(core, now, names)
    kept_out = {
        id(line): reason
        for queue in order.lines.queues.values()
        for line in queue.lines.values()
        if (reason := kept_out_by(core, queue.info, line, names)) is not None
    }
    turns = {qid: untried(core, queue) for qid, queue in order.lines.queues.items()}
    for jid, info in order.accounts.cluster.jobs.items():
        pending = info.pending + info.best_effort[0]
        if not pending:
            continue
        state = jobs[jid]
        line = back.get(id(state.line))
        if line is not None:
            line.tasks += pending
            line.jobs += not info.held[0]
            continue
        found.tasks[_status(state)] += pending
        if not info.held[0]:
            reason = kept_out.get(id(state.line)) if state.line is not None else None
            if reason is None and state.reason in UNTRIED and state.standing is Standing.READY:
                reason = turns.get(info.qid)
            found.jobs[info.qid, reason or word(state.reason)] += 1
    for line in back.values():
        found.tasks[line.status] += line.tasks
        found.jobs[line.qid, line.reason] += line.jobs
    for info in order.accounts.queueless.values():
        found.tasks["gated"] += info.pending + info.best_effort[0]
        found.jobs[UNKNOWN_QUEUE, Reason.MISCONFIGURED] += not info.held[0]
    found.jobs = +found.jobs
    return found


def pending_reasons(core: Coordinator, now: float, *, names: Sequence[str]) -> dict[str, int]:
    """Why jobs wait, counted by line and not by job: for what is asked many times a second."""
    told = core.order.lines.outside()
    for state in core.order.lines.queues.values():
        turn = untried(core, state) if state.lines else Reason.PENDING_EVALUATION
        for line in state.lines.values():
            if (kept_out := kept_out_by(core, state.info, line, names)) is not None:
                told[kept_out] += line.reasons.total()
            elif core.order.lines.held_back(line, now):
                told[line_reason(core, state.info, line, names)] += line.reasons.total()
            else:
                for reason, count in line.reasons.items():
                    told[turn if reason in UNTRIED else word(reason)] += count
    return {reason.value: count for reason, count in (+told).items()}


@dataclass(slots=True)
class _HeldLine:
    """A line that is not tried, and what stands in it."""

    qid: int
    status: str
    reason: Reason
    tasks: int = 0
    jobs: int = 0


def _held_lines(core: Coordinator, now: float, names: Sequence[str]) -> dict[int, _HeldLine]:
    """By the line's identity."""
    held: dict[int, _HeldLine] = {}
    order = core.order
    for qid, queue in order.lines.queues.items():
        for line in queue.lines.values():
            if order.lines.held_back(line, now):
                tried = 0 <= line.infeasible_at < order.accounts.capacity.changes
                status = "backoff" if tried and now < line.not_before else "unschedulable"
                reason = line_reason(core, queue.info, line, names)
                held[id(line)] = _HeldLine(qid, status, reason)
    return held


def _status(state: JobState) -> str:
    return _BY_REASON.get(state.reason) or _BY_STANDING.get(state.standing, "active")
