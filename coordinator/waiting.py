"""Who waits, and for what: every job that has tasks pending, counted in one pass.

Nothing of this is kept while jobs move; the pass takes a fraction of a microsecond a job.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from coordinator.jobs import JobState, Standing
from coordinator.order import Order
from coordinator.reason_words import Reason, word

STATUSES = ("active", "backoff", "unschedulable", "gated", "nominated")
"""``active``: its turn comes, or is under way. ``backoff``: tried in vain, tried again soon.
``unschedulable``: no room, or no quota. ``gated``: a person has to give what is missing.
``nominated``: it has places that others still have to leave."""

_BY_REASON = {"WaitingForQuota": "unschedulable", "PendingEvaluation": "active"}
_BY_STANDING = {Standing.WAITING: "gated", Standing.NOMINATED: "nominated"}

UNKNOWN_QUEUE = -1
"""The qid of a job whose queue does not exist."""


@dataclass(slots=True)
class Waiting:
    tasks: Counter[str] = field(default_factory=Counter)
    """Pending tasks, by status."""
    jobs: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Jobs without any place, by queue (qid, or UNKNOWN_QUEUE) and reason of the closed list."""


def count_waiting(order: Order, now: float) -> Waiting:
    """``now``: seconds since 1970."""
    found, jobs, accounts = Waiting(), order.jobs, order.accounts
    back = _held_lines(order, now)
    for jid, info in chain(accounts.cluster.jobs.items(), accounts.queueless.items()):
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
            found.jobs[info.qid, word(state.reason)] += 1
    for line in back.values():
        found.tasks[line.status] += line.tasks
        found.jobs[line.qid, Reason.NOT_ENOUGH_RESOURCES] += line.jobs
    found.jobs = +found.jobs
    return found


@dataclass(slots=True)
class _HeldLine:
    """A line that is not tried, and what stands in it."""

    qid: int
    status: str
    tasks: int = 0
    jobs: int = 0


def _held_lines(order: Order, now: float) -> dict[int, _HeldLine]:
    """By the line's identity."""
    held: dict[int, _HeldLine] = {}
    for qid, queue in order.lines.queues.items():
        for line in queue.lines.values():
            if order.lines.held_back(line, now):
                tried = 0 <= line.infeasible_at < order.accounts.capacity.changes
                later = tried and now < line.not_before
                held[id(line)] = _HeldLine(qid, "backoff" if later else "unschedulable")
    return held


def _status(state: JobState) -> str:
    return _BY_REASON.get(state.reason) or _BY_STANDING.get(state.standing, "active")
