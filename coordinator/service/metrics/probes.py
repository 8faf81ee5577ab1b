"""Measurements of the coordinator's work, for metrics: plain counters, without a library.

All other metrics are read from the core's state when they are scraped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from coordinator.api.auth.reviews import ReviewCounts
from coordinator.api.write.bulk import SubmitItems
from coordinator.cluster.kubernetes.bind_requests.counts import RequestCounts
from coordinator.cluster.protocol import BindAnswer
from coordinator.intake.admission.result import Admission
from coordinator.ledger_refusals import LedgerRefusals
from coordinator.service.metrics.loop_time import LoopTime
from coordinator.service.plugin_errors import PluginErrors
from shard_worker.worker.figures import WorkerFigures
from shard_worker.worker.transport import PlaceReply
from shared.messages.messages import OutcomeCode
from shared.telemetry.histogram import Histogram, exponential

ATTEMPT_SECONDS = exponential(0.001, 2, 15)
BIND_SECONDS = exponential(0.001, 2, 15)
HANDOVER_SECONDS = exponential(0.05, 2, 12)
LAG_SECONDS = exponential(0.001, 2, 12)
ROUNDTRIP_SECONDS = exponential(0.0001, 2, 14)

USAGE_QUERY_SECONDS = exponential(0.001, 2, 15)
USAGE_QUERIES = ("answered", "failed")

ATTEMPT = {
    OutcomeCode.PLACED: "scheduled",
    OutcomeCode.NOMINATED: "nominated",
    OutcomeCode.INFEASIBLE: "unschedulable",
    OutcomeCode.CONFLICT: "conflict",
    OutcomeCode.STALE: "error",
    OutcomeCode.FENCED: "error",
}
"""Outcome of a turn, in the words of the metrics."""
ATTEMPT_RESULTS = tuple(dict.fromkeys(ATTEMPT.values()))

BINDS = {answer.value: answer.name.lower() for answer in BindAnswer}

OBJECTS = ("stored", "unchanged", "refused")
LIST_CODES = (200, 400, 408, 413, 415, 422, 429, 500, 503)


class Probes:
    """Counts and durations since the start of this process."""

    def __init__(self, loop: LoopTime | None = None) -> None:
        """``loop``: of the loop that this process runs; None where nobody counts its callbacks."""
        self.loop = loop or LoopTime()
        self.attempts: dict[tuple[int, str], Histogram] = {}
        """By shard and result."""
        self.workers: dict[int, WorkerFigures] = {}
        self.followed: dict[int, float] = {}
        """Shard -> when (time.monotonic) its worker last began to read the log, and answered."""
        self.handovers = Histogram(HANDOVER_SECONDS)
        self.binds: Counter[str] = Counter()
        self.bind_seconds = Histogram(BIND_SECONDS)
        self.objects: Counter[str] = Counter()
        self.list_codes: Counter[int] = Counter()
        """Answers to lists, by HTTP status."""
        self.refusals = LedgerRefusals()
        self.plugin_errors = PluginErrors()
        self.loop_lag = Histogram(LAG_SECONDS)
        self.ledger = Histogram(ROUNDTRIP_SECONDS)
        self.usage_queries: Counter[str] = Counter()
        """By :data:`USAGE_QUERIES`."""
        self.usage_query_seconds = Histogram(USAGE_QUERY_SECONDS)
        self.reviews = ReviewCounts()
        self.bind_requests = RequestCounts()
        self.not_understood: Counter[str] = Counter()
        """Objects of a watched cluster that were refused or could not be read, by kind."""
        self.quarantine: Collection[object] = ()
        """Refused objects that exist and cannot be read."""

    def answered(self, shard: int, reply: PlaceReply, *, started: float, seconds: float) -> None:
        """A call to a worker that began at ``started`` (time.monotonic) was answered."""
        self.followed[shard] = started
        for code, turns in Counter(outcome.code for outcome in reply.outcomes).items():
            key = (shard, ATTEMPT[code])
            if key not in self.attempts:
                self.attempts[key] = Histogram(ATTEMPT_SECONDS)
            self.attempts[key].observe(seconds, turns)
        if reply.figures is not None:
            if shard not in self.workers:
                self.workers[shard] = WorkerFigures()
            self.workers[shard].add(reply.figures)
            self.plugin_errors.of_worker(shard, reply.figures)

    def bound(self, answers: Sequence[int], seconds: float | None) -> None:
        """The cluster answered a call for so many tasks. ``seconds`` None: the call waited for
        another binder; each of its binds was counted as pending before."""
        for answer, tasks in Counter(answers).items():
            if seconds is not None or answer != BindAnswer.PENDING:
                self.binds[BINDS[answer]] += tasks
        if seconds is not None:
            self.bind_seconds.observe(seconds, len(answers))

    def counting(self, submit: SubmitItems) -> SubmitItems:
        """The same, with what becomes of objects counted."""

        async def counted(items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
            admission = await submit(items, atomic=atomic)
            self._admitted(admission)
            return admission

        return counted

    def _admitted(self, admission: Admission) -> None:
        self.objects["stored"] += admission.accepted - admission.unchanged
        self.objects["unchanged"] += admission.unchanged
        self.objects["refused"] += len(admission.refused)
