"""The reference of all metrics: name, kind, labels, what it says. Nothing else may be shown.

Names get the prefix ``quadrant_``; units are base units. A label never holds the name of a job, a
task, a node or a user, nor free text: its values are known beforehand, or they are the queues, the
shards, the caches, the plugins of the policy, and the resources that nodes offer.

``python -m coordinator.service.metrics.table`` prints ``docs/metrics.md``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from coordinator.api.auth.reviews import REVIEW_SECONDS
from coordinator.jobs.wait_times import JOB_SECONDS, TASK_SECONDS
from coordinator.ledger_audit.figures import SLICE_SECONDS
from coordinator.service.metrics.kai_names import mapping
from coordinator.service.metrics.loop_time import CALLBACK_SECONDS
from coordinator.service.metrics.probes import (
    ATTEMPT_SECONDS,
    BIND_SECONDS,
    HANDOVER_SECONDS,
    LAG_SECONDS,
    ROUNDTRIP_SECONDS,
    USAGE_QUERY_SECONDS,
)
from shard_worker.worker.figures import COMMIT_SECONDS, OPERATIONS, SESSION_SECONDS

PREFIX = "quadrant_"
ALPHA = "alpha"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str
    """counter | gauge | histogram"""
    labels: tuple[str, ...]
    text: str
    bounds: tuple[float, ...] = ()
    """Bounds of a histogram's buckets."""
    stability: str = ALPHA


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", labels, text)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", labels, text)


def _histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, "histogram", labels, text, bounds)


SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Jobs and tasks": (
        _gauge(
            "jobs", "Jobs that are known: pending (without any place), running, finished", "state"
        ),
        _gauge("tasks", "Tasks of jobs whose queue exists, by their state", "state"),
        _gauge(
            "pending_tasks",
            "Pending tasks: active (a turn comes), backoff (tried again soon), unschedulable (no "
            "room or no quota), gated (needs a person), nominated (waits for others to leave)",
            "status",
        ),
        _gauge(
            "unadmitted_jobs",
            "Jobs without any place, by why; the queue is empty where theirs does not exist",
            "queue",
            "reason",
        ),
        _histogram(
            "task_scheduling_sli_duration_seconds",
            "From the job's acceptance to the placement of a task, by the turns in a row it took",
            TASK_SECONDS,
            "attempts",
        ),
        _histogram(
            "job_wait_seconds",
            "From a job's acceptance to its first placement; queues that had none are left out",
            JOB_SECONDS,
            "queue",
        ),
    ),
    "Queues and capacity": (
        _gauge(
            "queue_resource",
            "What a queue has (allocated, with its open turns), asked for (request), asks for and "
            "has no turn for (pending), what its first job needs (head_pending), and its deserved, "
            "guarantee and capability; amounts of zero are left out, but for allocated",
            "queue",
            "resource",
            "kind",
        ),
        _gauge(
            "queue_tree_resource",
            "Under a policy of KAI's, of a queue with all queues below it: what its jobs hold "
            "(allocated), what nobody may evict of that (non_preemptible), what they hold and ask "
            "for (requested), its quota and limit (left out where there is no bound), its "
            "fair_share, and its usage over time as a part of the cluster where that is measured",
            "queue",
            "resource",
            "kind",
        ),
        _counter(
            "usage_queries_total",
            "Times that a Prometheus server was asked for the usage of queues over time, by result",
            "result",
        ),
        _histogram(
            "usage_query_duration_seconds",
            "Time of an answered question for the usage of queues over time",
            USAGE_QUERY_SECONDS,
        ),
        _gauge("queue_share", "Largest part that a queue has of what it deserves", "queue"),
        _gauge("queue_weight", "Weight of a queue", "queue"),
        _gauge("queue_overused", "1 where a queue has all it deserves", "queue"),
        _gauge(
            "cluster_resource",
            "What all nodes offer (total), and what of it no task holds (idle)",
            "resource",
            "kind",
        ),
    ),
    "Scheduling": (
        _counter(
            "schedule_attempts_total",
            "Turns: scheduled, nominated, unschedulable, conflict, error (out of date, or lost)",
            "result",
            "shard",
        ),
        _histogram(
            "scheduling_attempt_duration_seconds",
            "From sending a turn to its worker to the answer",
            ATTEMPT_SECONDS,
            "result",
            "shard",
        ),
        _histogram(
            "session_duration_seconds",
            "Time a worker spent on an action in one call, without waiting for the ledger",
            SESSION_SECONDS,
            "shard",
            "action",
        ),
        _counter(
            "searches_total",
            "Searches for victims under a KAI policy: solved, exhausted (no scenario succeeds), "
            "impossible (known without trying one), budget, no_generator, nothing_asked",
            "shard",
            "action",
            "result",
        ),
        _counter(
            "search_budgets_exhausted_total",
            "Searches that a budget ended: that of the action, job or generator, or of scenarios",
            "shard",
            "action",
            "cause",
        ),
        _counter(
            "search_scenarios_total",
            "Sets of victims that were simulated, and those that counts ruled out before",
            "shard",
            "action",
            "kind",
        ),
        _counter("search_seconds_total", "Time of searches for victims", "shard", "action"),
        _counter(
            "placements_total",
            "Accepted placements by level: idle own, idle other, future own, future other",
            "shard",
            "level",
        ),
        _counter(
            "wasted_placements_total",
            "Placements thrown away: refused by the ledger (true, read, quota, epoch), or rollback "
            "(the rest of the gang found no room)",
            "shard",
            "cause",
        ),
    ),
    "Ledger": (
        _counter(
            "statements_total",
            "What the ledger said of a statement, or of a refused operation of a tail: committed, "
            "rechecked (a node had moved, it fits still), true (no room), read (out of date), "
            "quota, epoch (not the owner any more)",
            "shard",
            "result",
        ),
        _counter(
            "statement_batch_replays_total",
            "Batches that were sent again and had happened already",
            "shard",
        ),
        _histogram(
            "statement_commit_duration_seconds",
            "From sending a statement's batch to the ledger's answer",
            COMMIT_SECONDS,
            "shard",
        ),
        _histogram("statement_operations", "Operations of a statement", OPERATIONS, "shard"),
        _histogram(
            "ledger_roundtrip_seconds",
            "A small read of the ledger, as the coordinator sees it",
            ROUNDTRIP_SECONDS,
        ),
    ),
    "Shards": (
        _gauge("shard_nodes", "Nodes that a shard uses as its own", "shard"),
        _gauge(
            "shard_nodes_desired",
            "Nodes that a shard shall have; the difference is about to change hands",
            "shard",
        ),
        _gauge("shard_up", "1 while a worker serves the shard", "shard"),
        _gauge(
            "shard_refused",
            "1 while the worker that starts for the shard is of another version and is not used",
            "shard",
        ),
        _gauge("shard_epoch", "Number of the epoch its worker has; 0 while there is none", "shard"),
        _gauge(
            "shard_view_age_seconds",
            "Since its worker began to read the log for the last call that it answered",
            "shard",
        ),
        _gauge("shard_inflight_statements", "Turns it was sent whose outcome is open", "shard"),
        _counter("worker_restarts_total", "Workers that were lost and replaced"),
        _counter(
            "plugin_errors_total", "What plugins raised, ours and those from outside", "plugin"
        ),
        _counter(
            "plugin_seconds_total",
            "Time in a plugin's rules at an extension point, from a share of the worker's calls",
            "shard",
            "plugin",
            "point",
        ),
        _counter(
            "plugin_calls_total",
            "Calls of these rules; at OnSessionOpen a plugin registers them",
            "shard",
            "plugin",
            "point",
        ),
        _histogram(
            "handover_duration_seconds",
            "From the loss of a worker to its successor's start",
            HANDOVER_SECONDS,
        ),
        _gauge(
            "shard_turn_limit",
            "How many turns may be open at its worker; less than usual where it often comes second",
            "shard",
        ),
        _counter("rebalance_moves_total", "Nodes that changed from one shard to another"),
    ),
    "Cluster": (
        _counter(
            "binds_total",
            "Answers of the cluster for a task: ok, already, refused, gone, elsewhere (an alarm), "
            "unknown (asked again), pending (asked of KAI's binder)",
            "result",
        ),
        _histogram("bind_duration_seconds", "A task's call to the cluster", BIND_SECONDS),
        _gauge("bind_backlog", "Tasks that are placed and whose bind is not recorded"),
        _counter(
            "evictions_total",
            "Tasks that an action of the policy evicted",
            "action",
        ),
        _gauge(
            "victims_overdue",
            "On a Kubernetes cluster: tasks that are on their nodes 30 s after they should have "
            "left, by what keeps them: refused (a budget, mostly), finalizer, kubelet",
            "cause",
        ),
        _counter(
            "late_binds_total",
            "On a Kubernetes cluster: pods that a deposed leader bound after its successor began, "
            "by the statement on the pod; each is adopted where it is",
        ),
        _counter(
            "access_reviews_total",
            "Questions to the API server who a token is (token) and whether they may (access), by "
            "its answer: yes, no, remembered (not asked again), none, turned_away (too many bad "
            "tokens came)",
            "kind",
            "result",
        ),
        _histogram(
            "access_review_duration_seconds",
            "How long the API server took to answer one",
            REVIEW_SECONDS,
        ),
        _counter(
            "bind_requests_total",
            "Where KAI's binder binds: BindRequests that were written, adopted from a leader "
            "before, failed by the binder, or withdrawn because something else was decided",
            "result",
        ),
        _counter(
            "cluster_objects_refused_total",
            "On a Kubernetes cluster: objects that were not understood, each time one changed; an "
            "event on the object says why",
            "kind",
        ),
        _gauge(
            "cluster_objects_quarantined",
            "On a Kubernetes cluster: objects that cannot be read by a fault of ours or of their "
            "writer; of a pod among them the room on its node counts",
        ),
        _gauge("nodes_quarantined", "Nodes that get nothing now: they refused bind after bind"),
        _counter("nodes_quarantined_total", "Quarantines of nodes that refused bind after bind"),
        _counter(
            "nodes_quarantined_withheld_total",
            "Quarantines withheld because a tenth of all nodes is in one already: the fault may be "
            "elsewhere",
        ),
        _counter(
            "gangs_total",
            "Gangs that fell below their minimum by a refused bind or a lost member (broken), were "
            "made whole (repaired), or stopped after their time (released)",
            "result",
        ),
        _counter("jobs_parked_total", "Times that a job had used up its attempts in a row"),
        _counter(
            "reconcile_repairs_total",
            "What was not as in the cluster, or in the ledger, and is now: elsewhere, forgotten, "
            "behind, ended, lost, revived (tasks), books (jobs), view, foreign (nodes)",
            "kind",
        ),
        _gauge(
            "reconcile_unexplained",
            "Tasks in the cluster that no job of ours has (orphan), or on unknown nodes (no-node)",
            "kind",
        ),
    ),
    "Ledger audit": (
        _counter(
            "ledger_audit_findings_total",
            "Records of the ledger that contradicted its task records at two looks: node-used, "
            "node-releasing, node-nominated, thing, queue-used, queue-leaving, group-held, "
            "task-without-job, nomination-without-job, bind-lost, negative",
            "kind",
        ),
        _counter(
            "ledger_audit_recounted_total",
            "Contradictions that were put right when this leader took over",
            "kind",
        ),
        _counter("ledger_audit_looks_total", "Looks through all records of the ledger"),
        _gauge("ledger_audit_look_seconds", "How long the last look took"),
        _gauge("ledger_audit_tasks", "Task records of the last look"),
        _histogram(
            "ledger_audit_slice_seconds",
            "Processor time of a slice of the audit, without collections of garbage",
            SLICE_SECONDS,
        ),
    ),
    "Intake and process": (
        _counter("intake_lists_total", "Answers to lists of objects, by HTTP status", "code"),
        _counter(
            "intake_objects_total", "Objects of stored lists: stored, unchanged, refused", "result"
        ),
        _counter(
            "ledger_refusals_total",
            "Writes that the ledger refused: of objects (store), of task states (record). Nothing "
            "of them was applied; the log says what each was about. An alarm: it should be 0",
            "kind",
        ),
        _histogram(
            "event_loop_lag_seconds",
            "How late the coordinator's event loop wakes up, looked at four times a second",
            LAG_SECONDS,
        ),
        _histogram(
            "event_loop_callback_seconds",
            "Processor time of the event loop's thread in one callback; none may take more than "
            "0.02. Collections of garbage are apart",
            CALLBACK_SECONDS,
        ),
        _gauge(
            "cache_bytes",
            "What a cache of this process holds (held), and from where on it is emptied (bound)",
            "cache",
            "kind",
        ),
        _counter(
            "cache_lookups_total",
            "Lookups in a cache of this process: hit, miss",
            "cache",
            "result",
        ),
        _histogram(
            "garbage_collection_pause_seconds",
            "Processor time of one collection of garbage in the event loop's thread",
            CALLBACK_SECONDS,
        ),
        _gauge("build_info", "1; its labels say what runs", "version", "python"),
    ),
}

TABLE: dict[str, Metric] = {
    metric.name: metric for metrics in SECTIONS.values() for metric in metrics
}


def reference() -> str:
    """The page that people read."""
    lines = [
        "# Metrics",
        "",
        "The series of a coordinator's `/metrics`, including its workers' figures. Units are base",
        "units; `queue`, `shard` and `resource` are the only labels whose values are not the same",
        "everywhere, and a series goes with its queue or shard. Stability *alpha*: a name or a",
        "label may change with a version.",
        "",
        "This page is made by `python -m coordinator.service.metrics.table > docs/metrics.md`.",
    ]
    for section, metrics in SECTIONS.items():
        lines += ["", f"## {section}", "", "| metric | kind | labels | what it says | stability |"]
        lines.append("|---|---|---|---|---|")
        lines += [_row(metric) for metric in metrics]
    lines += mapping()
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    text = metric.text
    if metric.bounds:
        text += f" (buckets {metric.bounds[0]:g} to {metric.bounds[-1]:g})"
    return f"| `{PREFIX}{metric.name}` | {metric.kind} | {labels} | {text} | {metric.stability} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
