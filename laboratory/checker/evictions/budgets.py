"""Disruption budgets: how many pods may be evicted (promise 9).

Where a policy evicts, bound pods count as healthy like running ones: the worker may have read
either. Where a pod is evicted on request, only those that run count, and only they need a budget's
leave, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laboratory.checker.placement.labels import selected
from laboratory.checker.state.books import CheckerBooks, Facts
from laboratory.checker.state.job import (
    BOUND,
    PENDING,
    RELEASING,
    RUNNING,
    CheckedJob,
)

KEY = "budget/"

TURN_SECONDS = 2.0
"""For so long a turn may have been on its way: as long as a worker may take for a call."""

NEW_SECONDS = 2.0
"""For so long a job, or a change of it, may be in the ledger and not in the books of whoever
decides, or the other way round."""


class Budgets:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._evicted: dict[str, set[tuple[int, int]]] = {}
        """Budget -> the victims (jid, tix) of the current statement that it counts. More than one
        tier may ask about a victim: it counts once (seed 181482)."""
        self._left: dict[str, int] = {}
        """Budget -> number of pods that the current statement may evict."""
        self._requested = False
        self._counts: dict[str, list[tuple[float, int]]] = {}
        """Budget -> what somebody else counted as allowed: (until when, number) of those before."""

    def put(self, values: dict[str, Facts]) -> None:
        """Objects are about to have these facts."""
        for key, before in ((key, self._books.objects.get(key)) for key in values):
            if key.startswith(KEY) and before is not None and before.get("allowed") is not None:
                counts = self._counts.get(key, [])[-8:]
                self._counts[key] = [*counts, (self._books.t, int(before["allowed"]))]

    def before(self, jids: Iterable[int], *, requested: bool) -> None:
        """Compute the budgets' allowance before a statement evicts tasks of these jobs.
        ``requested``: by somebody, and not by a policy."""
        self._requested = requested
        objects = self._books.objects
        spaces = {self._books.jobs[jid].namespace for jid in jids if jid in self._books.jobs}
        self._left = {
            key: self._allowed(key, budget)
            for key, budget in objects.items()
            if key.startswith(KEY) and budget["namespace"] in spaces
        }
        self._evicted = {key: set() for key in self._left}

    def exceeded(self, jid: int, tix: int) -> str:
        """The budget that this victim exceeds, counted after those before it; "" if none."""
        job = self._books.jobs[jid]
        labels, exceeded = job.role_of(tix).labels, ""
        for key, remaining in self._left.items():
            budget = self._books.objects[key]
            if budget["namespace"] == job.namespace and selected(budget.get("selector"), labels):
                self._evicted[key].add((jid, tix))
                if len(self._evicted[key]) > remaining:
                    exceeded = f"{key.removeprefix(KEY)} allows {remaining} evictions"
        return exceeded

    def _allowed(self, key: str, budget: Facts) -> int:
        if (allowed := budget.get("allowed")) is not None:
            # Who decides goes by the count that was there when its turn began.
            since = self._books.t - TURN_SECONDS
            before = [count for until, count in self._counts.get(key, ()) if until > since]
            return max(int(allowed), 0, *before)
        # Whoever decides hears of a new job and of a deletion a moment after the ledger has them:
        # pods of a new one count from then on, those of a deleted one no more. A worker has the
        # jobs of a budget from the coordinator, as they were when its turn began.
        tests_of_job = (_no_job, _is_gone, self._is_new, lambda job: job.gone or self._is_new(job))
        # What ended by itself since the turn began counts for the worker as it was then.
        since = self._books.t if self._requested else self._books.t - TURN_SECONDS
        return max(self._allowed_of(budget, skips, since) for skips in tests_of_job)

    def _is_new(self, job: CheckedJob) -> bool:
        """Whether it was submitted just now, and nothing of it has a node."""
        since = max(job.submitted, default=0.0)
        return self._books.t - since < NEW_SECONDS and not any(job.states)

    def _loses_pods(self, job: CheckedJob) -> bool:
        """Whether waiting pods of a group may have been deleted: who decides knows it with the
        group's change, the ledger when it is recorded of each pod (seed 161329)."""
        return job.named and self._books.t - job.respecified < NEW_SECONDS

    def _allowed_of(self, budget: Facts, skips: Callable[[CheckedJob], bool], since: float) -> int:
        """How many evictions a budget allows. ``skips``: jobs that are left out. ``since``: those
        that left their nodes by themselves after this time count as healthy."""
        states = (RUNNING,) if self._requested else (BOUND, RUNNING)
        healthy = expected = 0
        for job in self._books.jobs.values():
            if job.namespace != budget["namespace"] or job.forgotten or skips(job):
                continue
            running, expected_of_job = _counts(job, budget, states)
            if self._loses_pods(job):
                expected_of_job -= _pending(job, budget)
            left = _left(job, budget, since)
            healthy += running + len(left)
            expected += expected_of_job + sum(state > RELEASING for state in left)
        if budget.get("max_unavailable"):
            needed = expected - _amount(budget["max_unavailable"], expected)
        else:
            needed = _amount(budget.get("min_available", ""), expected)
        return max(healthy - needed, 0)


def _no_job(_: CheckedJob) -> bool:
    return False


def _is_gone(job: CheckedJob) -> bool:
    return job.gone


def _counts(job: CheckedJob, budget: Facts, states_of_healthy: tuple[int, ...]) -> tuple[int, int]:
    """(healthy, expected) pods of a job under a budget."""
    healthy = expected = 0
    for role in job.roles:
        if selected(budget.get("selector"), role.labels):
            states = job.states[role.first : role.first + role.count]
            healthy += sum(states.count(state) for state in states_of_healthy)
            expected += sum(state <= RELEASING for state in states)
    return healthy, expected


def _pending(job: CheckedJob, budget: Facts) -> int:
    return sum(
        job.states[role.first : role.first + role.count].count(PENDING)
        for role in job.roles
        if selected(budget.get("selector"), role.labels)
    )


def _left(job: CheckedJob, budget: Facts, since: float) -> list[int]:
    """The states of pods under a budget that left their nodes by themselves after a time."""
    return [
        job.states[tix]
        for tix, at in job.left.items()
        if at > since
        and job.states[tix] >= RELEASING
        and selected(budget.get("selector"), job.role_of(tix).labels)
    ]


def _amount(share: str, whole: int) -> int:
    """ "3" is 3, "50%" half of the whole, rounded up."""
    if share.endswith("%"):
        return -(-int(share[:-1]) * whole // 100)
    return int(share or "0")
