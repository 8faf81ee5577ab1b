"""KAI's metrics (those of its scheduler and queue controller), and what says the same here."""

from __future__ import annotations

_NO_CYCLES = "there are no cycles: a turn follows as soon as something changed"
_CONFIGURED = "quadrant config check tells them"
_TREE = "queue_tree_resource"

KAI_METRICS: tuple[tuple[str, str, str], ...] = (
    ("e2e_scheduling_latency_milliseconds", "scheduling_attempt_duration_seconds", "of a turn"),
    ("open_session_latency_milliseconds", "", _NO_CYCLES),
    ("close_session_latency_milliseconds", "", _NO_CYCLES),
    ("plugin_scheduling_latency_milliseconds", "plugin_seconds_total", "with plugin_calls_total"),
    ("action_scheduling_latency_milliseconds", "session_duration_seconds", "by action"),
    ("task_scheduling_latency_milliseconds", "task_scheduling_sli_duration_seconds", ""),
    ("task_bind_latency_milliseconds", "bind_duration_seconds", ""),
    ("podgroups_scheduled_by_action", "schedule_attempts_total", "result scheduled"),
    ("podgroups_acted_on_by_action", "schedule_attempts_total", "all results"),
    ("scenarios_simulation_by_action", "search_scenarios_total", "kind simulated"),
    ("scenarios_filtered_by_action", "search_scenarios_total", "kind ruled_out"),
    ("total_preemption_attempts", "searches_total", "of all actions"),
    ("queue_fair_share_cpu_cores", _TREE, "resource cpu, kind fair_share"),
    ("queue_fair_share_memory_gb", _TREE, "resource memory, kind fair_share, in bytes"),
    ("queue_fair_share_gpu", _TREE, "resource nvidia.com/gpu, kind fair_share"),
    ("queue_cpu_usage", _TREE, "resource cpu, kind usage"),
    ("queue_memory_usage", _TREE, "resource memory, kind usage"),
    ("queue_gpu_usage", _TREE, "resource nvidia.com/gpu, kind usage"),
    ("usage_query_latency_milliseconds", "usage_query_duration_seconds", "where one is asked"),
    ("pod_group_evicted_pods_total", "evictions_total", ""),
    ("scenario_search_jobs_total", "searches_total", ""),
    ("scenario_search_action_budget_configured_seconds", "", _CONFIGURED),
    ("scenario_search_job_budget_configured_seconds", "", _CONFIGURED),
    ("scenario_search_generator_budget_configured_seconds", "", _CONFIGURED),
    ("scenario_search_action_budget_exhausted_total", "search_budgets_exhausted_total", ""),
    ("scenario_search_duration_seconds", "search_seconds_total", "a sum"),
    ("scenario_search_scenarios_total", "search_scenarios_total", ""),
    ("queue_info", _TREE, "kind allocated is there for each queue"),
    ("queue_deserved_gpus", _TREE, "resource nvidia.com/gpu, kind quota"),
    ("queue_quota_cpu_cores", _TREE, "resource cpu, kind quota"),
    ("queue_quota_memory_bytes", _TREE, "resource memory, kind quota"),
    ("queue_allocated_gpus", _TREE, "resource nvidia.com/gpu, kind allocated"),
    ("queue_allocated_cpu_cores", _TREE, "resource cpu, kind allocated"),
    ("queue_allocated_memory_bytes", _TREE, "resource memory, kind allocated"),
)
"""(KAI's name without ``kai_``, ours without ``quadrant_`` or "" where there is none, a remark)."""


def mapping() -> list[str]:
    """The section of the reference."""
    lines = [
        "",
        "## KAI's metrics, under our names",
        "",
        "Those of KAI's queue controller have no `kai_` before them.",
        "",
        "| KAI's | here | |",
        "|---|---|---|",
    ]
    for name, ours, remark in KAI_METRICS:
        counterpart = f"`quadrant_{ours}`" if ours else "none"
        lines.append(f"| `{name}` | {counterpart} | {remark} |")
    return lines
