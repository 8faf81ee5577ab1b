"""``/metrics``: the state of the core as series, made when somebody scrapes.

No series is kept: a queue or shard that is gone has none at the next scrape. The table of what
there is stands in :mod:`coordinator.service.metrics.table`; a name that is not in it cannot be
shown.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from coordinator.api.auth.reviews import ReviewAnswer, ReviewKind
from coordinator.cluster.kubernetes.bind_requests.counts import OUTCOMES
from coordinator.cluster.overdue import OverdueObstacle
from coordinator.core.coordinator import Coordinator
from coordinator.core.reconcile import SHOWN, FindingKind
from coordinator.explain.queues.queue_amounts import amounts_by_kind
from coordinator.explain.queues.queue_tree import tree_figures, tree_of
from coordinator.jobs.counters import ShardTally
from coordinator.jobs.state import SchedulingStatus
from coordinator.ledger_audit.findings import AuditKind
from coordinator.ledger_refusals import WriteKind
from coordinator.service.metrics.pending_counts import STATUSES, UNKNOWN_QUEUE
from coordinator.service.metrics.probes import (
    ATTEMPT,
    ATTEMPT_RESULTS,
    ATTEMPT_SECONDS,
    BINDS,
    LIST_CODES,
    OBJECTS,
    USAGE_QUERIES,
    Probes,
)
from coordinator.service.metrics.sliced_counts import WaitingCounts
from coordinator.service.metrics.table import PREFIX, TABLE
from coordinator.service.metrics.text import SAMPLES, metrics_text
from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.evictions import SearchEnd
from shard_worker.dialects.kai.rules.budget import BudgetBound
from shard_worker.framework.rule_times import OPENING
from shard_worker.session_model.workload import Amounts, QueueInfo
from shard_worker.turns.guards import NAMES_VICTIMS
from shard_worker.worker.figures import CAUSES, RESULTS, STEPS, WorkerFigures
from shared.byte_cache import CACHES
from shared.messages.messages import Level, TaskState
from shared.policy.model import Dialect, Policy
from shared.slices import Steps, at_once
from shared.telemetry.histogram import Histogram
from shared.units.quantity import unit_of
from shared.units.resources import dominant_share

_FAMILIES: dict[str, Callable[..., Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class MetricsPage:
    """The series of one scrape. Every metric of the table is on it, with or without series."""

    def __init__(self) -> None:
        self.families: dict[str, Any] = {
            name: _FAMILIES[m.kind](PREFIX + name, m.text, labels=m.labels)
            for name, m in TABLE.items()
        }

    def put(self, name: str, value: float, *labels: object) -> None:
        """One series; ``labels`` in the order of the table."""
        self._family(name, labels).add_metric([str(label) for label in labels], value)

    def put_histogram(self, name: str, values: Histogram, *labels: object) -> None:
        bounds = [*(f"{bound:g}" for bound in values.bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(values.counts)), strict=True))
        self._family(name, labels).add_metric([str(label) for label in labels], buckets, values.sum)

    def _family(self, name: str, labels: tuple[object, ...]) -> Any:
        assert len(labels) == len(TABLE[name].labels), name
        return self.families[name]


class CoordinatorMetrics(Collector):
    def __init__(
        self,
        core: Coordinator,
        probes: Probes,
        resources: Callable[[], list[str]],
        counts: WaitingCounts | None = None,
    ) -> None:
        """``resources``: the names of the slots."""
        self._core = core
        self._probes = probes
        self._resources = resources
        self._counts = counts or WaitingCounts(core, resources)
        self._build = (version("quadrant"), platform.python_version())

    def describe(self) -> Iterable[Family]:
        return MetricsPage().families.values()

    def collect(self) -> Iterator[Family]:
        yield from at_once(self._fill()).families.values()

    def text(self) -> Steps[bytes]:
        """The page, in the text format of Prometheus."""
        page = yield from self._fill()
        return (yield from metrics_text(page.families.values()))

    def _fill(self) -> Steps[MetricsPage]:
        page = MetricsPage()
        self._jobs(page)
        yield from self._queues(page)
        yield from self._queue_tree(page)
        for part in (self._shards, self._workers, self._plugins, self._searches):
            yield
            part(page)
        yield
        self._cluster(page)
        self._kubernetes(page)
        self._faults(page)
        self._audit(page)
        self._process(page)
        return page

    # --- jobs and queues ----------------------------------------------------------------------

    def _jobs(self, page: MetricsPage) -> None:
        core = self._core
        ended = core.order.lines.status_counts[SchedulingStatus.DONE]
        running = core.order.accounts.started
        page.put("jobs", len(core.order.jobs) - ended - running, "pending")
        page.put("jobs", running, "running")
        page.put("jobs", ended, "finished")
        accounts = core.order.accounts
        for task in TaskState:
            deleted = accounts.deleted if task is TaskState.FAILED else 0
            page.put("tasks", max(0, accounts.tasks[task] - deleted), task.name.lower())
        page.put("tasks", accounts.deleted, "deleted")
        waiting = self._counts.waiting()
        for status in STATUSES:
            page.put("pending_tasks", waiting.tasks[status], status)
        queues = {qid: state.info.queue.name for qid, state in core.order.lines.queues.items()}
        queues[UNKNOWN_QUEUE] = ""
        for (qid, reason), count in waiting.jobs.items():
            page.put("unadmitted_jobs", count, queues[qid], reason)
        for attempts, waits in core.tally.waits.tasks.items():
            page.put_histogram("task_scheduling_sli_duration_seconds", waits, attempts)

    def _queues(self, page: MetricsPage) -> Steps[None]:
        core, slots = self._core, self._slots()
        lines, session = core.order.lines, core.order.session
        cluster, capacity = core.order.accounts.cluster, core.order.accounts.capacity
        for slot, (name, unit) in slots.items():
            page.put("cluster_resource", cluster.total[slot] / unit, name, "total")
            page.put("cluster_resource", capacity.idle_on_nodes(slot) / unit, name, "idle")
        for qid, state in list(lines.queues.items()):
            yield
            info, queue = state.info, state.info.queue
            deserved = session.deserved(info, cluster)
            head = lines.head(state)
            _amounts(page, slots, info, deserved, {} if head is None else head.amounts)
            page.put("queue_share", dominant_share(info.allocated, deserved), queue.name)
            page.put("queue_weight", queue.weight, queue.name)
            page.put("queue_overused", session.overused(info, cluster), queue.name)
            waits = core.tally.waits.jobs.get(qid)
            if waits is not None:  # of a thousand queues most are idle
                page.put_histogram("job_wait_seconds", waits, queue.name)

    def _queue_tree(self, page: MetricsPage) -> Steps[None]:
        """The queues of a policy of KAI's, whose figures cover those below them."""
        if self._core.order.session.policy.kai is None:
            return
        tree = tree_of(self._core)
        yield
        for number, (queue, resource, kind, value) in enumerate(tree_figures(tree), start=1):
            page.put("queue_tree_resource", value, queue, resource, kind)
            if not number % SAMPLES:
                yield
        for result in USAGE_QUERIES:
            page.put("usage_queries_total", self._probes.usage_queries[result], result)
        page.put_histogram("usage_query_duration_seconds", self._probes.usage_query_seconds)

    def _slots(self) -> Slots:
        """The resources that nodes offer."""
        names = self._resources()
        return {
            slot: (names[slot], unit_of(names[slot]))
            for slot, total in sorted(self._core.order.accounts.cluster.total.items())
            if total
        }

    # --- shards -------------------------------------------------------------------------------

    def _shards(self, page: MetricsPage) -> None:
        tallies, now = self._core.tally.shards, time.monotonic()
        for shard, state in self._core.dispatcher.shards.items():
            up = state.epoch is not None
            page.put("shard_nodes", state.in_use, shard)
            page.put("shard_nodes_desired", state.nodes, shard)
            page.put("shard_up", up, shard)
            page.put("shard_refused", int(bool(state.refused)), shard)
            page.put("shard_epoch", state.epoch.counter if state.epoch else 0, shard)
            page.put("shard_inflight_statements", state.open_turns, shard)
            page.put("shard_turn_limit", state.concurrency.limit, shard)
            if up and shard in self._probes.followed:
                page.put("shard_view_age_seconds", now - self._probes.followed[shard], shard)
            tally = tallies.get(shard, ShardTally())
            attempts = Counter({"error": tally.turns_lost})
            for code, count in tally.outcomes.items():
                attempts[ATTEMPT[code]] += count
            for result in ATTEMPT_RESULTS:
                page.put("schedule_attempts_total", attempts[result], result, shard)
            for level in Level:
                page.put("placements_total", tally.levels[level], shard, f"L{level.value}")

    def _workers(self, page: MetricsPage) -> None:
        probes = self._probes
        for shard in self._core.dispatcher.shards:
            for result in ATTEMPT_RESULTS:
                seconds = probes.attempts.get((shard, result)) or Histogram(ATTEMPT_SECONDS)
                page.put_histogram("scheduling_attempt_duration_seconds", seconds, result, shard)
            figures = probes.workers.get(shard) or WorkerFigures()
            for result in RESULTS:
                page.put("statements_total", figures.statements.get(result, 0), shard, result)
            for cause in CAUSES:
                page.put("wasted_placements_total", figures.wasted.get(cause, 0), shard, cause)
            page.put("statement_batch_replays_total", figures.replays, shard)
            page.put_histogram("statement_operations", figures.operations, shard)
            page.put_histogram("statement_commit_duration_seconds", figures.commit_seconds, shard)
            page.put_histogram(
                "session_duration_seconds", figures.session_seconds, shard, "allocate"
            )

    def _plugins(self, page: MetricsPage) -> None:
        core, probes = self._core, self._probes
        spoken = core.order.session.spoken.items()
        # All that may come, also before a first call of it was timed: how many series there are
        # depends on the policy, and not on what has passed.
        named = {f"{plugin} {point}" for plugin, points in spoken for point in (OPENING, *points)}
        for shard in core.dispatcher.shards:
            figures = probes.workers.get(shard) or WorkerFigures()
            seconds, calls = figures.rule_seconds, figures.rule_calls
            for name in sorted(named | seconds.keys()):
                plugin, _, point = name.partition(" ")
                page.put("plugin_seconds_total", seconds.get(name, 0.0), shard, plugin, point)
                page.put("plugin_calls_total", calls.get(name, 0), shard, plugin, point)

    def _searches(self, page: MetricsPage) -> None:
        for shard in self._core.dispatcher.shards:
            figures = self._probes.workers.get(shard) or WorkerFigures()
            for action in searching_actions(self._core.order.session.policy):
                put_searches(page.put, figures, shard, action)

    # --- the rest -----------------------------------------------------------------------------

    def _cluster(self, page: MetricsPage) -> None:
        core, probes = self._core, self._probes
        page.put("worker_restarts_total", core.tally.workers_lost)
        for plugin in core.order.session.guarded | probes.plugin_errors.counts.keys():
            page.put("plugin_errors_total", probes.plugin_errors.counts[plugin], plugin)
        page.put("rebalance_moves_total", core.tally.nodes_moved)
        page.put_histogram("handover_duration_seconds", probes.handovers)
        for result in BINDS.values():
            page.put("binds_total", probes.binds[result], result)
        page.put_histogram("bind_duration_seconds", probes.bind_seconds)
        page.put("bind_backlog", core.order.accounts.tasks[TaskState.BINDING])
        evicted = Counter[str]()
        for rule, tasks in core.tally.evicted.items():
            evicted[rule.partition(" ")[0]] += tasks
        for action in sorted(NAMES_VICTIMS):
            page.put("evictions_total", evicted[action], action)

    def _kubernetes(self, page: MetricsPage) -> None:
        """Put the requests to the API server and to KAI's binder on the page."""
        reviews, requests = self._probes.reviews, self._probes.bind_requests
        for question in ReviewKind:
            for answer in ReviewAnswer:
                count = reviews.answers[question, answer]
                page.put("access_reviews_total", count, question.value, answer.value)
        page.put_histogram("access_review_duration_seconds", reviews.seconds)
        for outcome in OUTCOMES:
            page.put("bind_requests_total", getattr(requests, outcome), outcome)
        for kind in sorted(self._probes.not_understood):
            page.put("cluster_objects_refused_total", self._probes.not_understood[kind], kind)
        page.put("cluster_objects_quarantined", len(self._probes.quarantine))

    def _faults(self, page: MetricsPage) -> None:
        """Faults of nodes and cluster, and the repairs that followed."""
        core = self._core
        quarantine, gangs = core.quarantines, core.order.gangs
        overdue = core.victims.overdue.counts()
        for obstacle in OverdueObstacle:
            page.put("victims_overdue", overdue[obstacle], obstacle)
        page.put("late_binds_total", core.tally.late_binds)
        page.put("nodes_quarantined", len(quarantine.now))
        page.put("nodes_quarantined_total", quarantine.count)
        page.put("nodes_quarantined_withheld_total", quarantine.withheld)
        for event in ("broken", "repaired", "released"):
            page.put("gangs_total", getattr(gangs, event), event)
        page.put("jobs_parked_total", core.order.parking.parked)
        repaired = Counter(core.tally.repaired)
        for shard in self._probes.workers.values():
            repaired[FindingKind.VIEW] += shard.drifted
        for kind in FindingKind:
            if kind in SHOWN:
                page.put("reconcile_unexplained", core.tally.unexplained.get(kind, 0), kind)
            else:
                page.put("reconcile_repairs_total", repaired[kind], kind)

    def _audit(self, page: MetricsPage) -> None:
        figures = self._core.tally.ledger_audit
        for kind in AuditKind:
            page.put("ledger_audit_findings_total", figures.found[kind], kind.value)
            page.put("ledger_audit_recounted_total", figures.recounted[kind], kind.value)
        page.put("ledger_audit_looks_total", figures.looks)
        page.put("ledger_audit_look_seconds", figures.look_seconds)
        page.put("ledger_audit_tasks", figures.tasks)
        page.put_histogram("ledger_audit_slice_seconds", figures.slices)

    def _process(self, page: MetricsPage) -> None:
        probes = self._probes
        for code in sorted({*LIST_CODES, *probes.list_codes}):
            page.put("intake_lists_total", probes.list_codes[code], code)
        for result in OBJECTS:
            page.put("intake_objects_total", probes.objects[result], result)
        page.put_histogram("event_loop_lag_seconds", probes.loop_lag)
        page.put_histogram("event_loop_callback_seconds", probes.loop.callbacks)
        page.put_histogram("garbage_collection_pause_seconds", probes.loop.collections)
        page.put_histogram("ledger_roundtrip_seconds", probes.ledger)
        for write in WriteKind:
            page.put("ledger_refusals_total", probes.refusals.count[write], write)
        for name, cache in CACHES.items():
            held, bound, hits, misses = cache.figures()
            page.put("cache_bytes", held, name, "held")
            page.put("cache_bytes", bound, name, "bound")
            page.put("cache_lookups_total", hits, name, "hit")
            page.put("cache_lookups_total", misses, name, "miss")
        page.put("build_info", 1, *self._build)


Slots = dict[int, tuple[str, int]]
"""slot -> (name, units of the slot in one of the resource)"""


def _amounts(
    page: MetricsPage, slots: Slots, info: QueueInfo, deserved: Mapping[int, float], head: Amounts
) -> None:
    """A queue's amounts of every resource."""
    kinds = amounts_by_kind(info, deserved, head)
    queue, allocated = info.queue.name, kinds.pop("allocated")
    for slot, (name, unit) in slots.items():
        page.put("queue_resource", allocated.get(slot, 0) / unit, queue, name, "allocated")
        for kind, amounts in kinds.items():
            amount = amounts.get(slot, 0)
            if amount > 0:
                page.put("queue_resource", amount / unit, queue, name, kind)


Put = Callable[..., None]
"""(name of the metric, value, labels)."""


def searching_actions(policy: Policy) -> Iterator[str]:
    """The actions of a policy that search for victims as KAI does."""
    if policy.dialect is Dialect.KAI:
        yield from (name for name in policy.actions if name in EVICTING)


def put_searches(put: Put, figures: WorkerFigures, shard: int, action: str) -> None:
    """The series of one action in one shard. All results, budgets and steps: how many series there
    are does not depend on what has passed."""
    for result in (ended.name.lower() for ended in SearchEnd):
        number = figures.searches.get(f"{action} {result}", 0)
        put("searches_total", number, shard, action, result)
    for budget in (bound.name.lower() for bound in BudgetBound):
        number = figures.search_budgets.get(f"{action} {budget}", 0)
        put("search_budgets_exhausted_total", number, shard, action, budget)
    for step in STEPS:
        number = figures.scenarios.get(f"{action} {step}", 0)
        put("search_scenarios_total", number, shard, action, step)
    put("search_seconds_total", figures.search_seconds.get(action, 0.0), shard, action)
