"""The names that a KAI policy may use, and which of them this version serves."""

from __future__ import annotations

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""In the order of KAI's default."""

DEFAULT_PLUGINS = (
    "predicates",
    "proportion",
    "priority",
    "elastic",
    "kubeflow",
    "ray",
    "nodeavailability",
    "gpusharingorder",
    "gpupack",
    "resourcetype",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "nodeplacement",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
)
"""In the order of KAI's built-in configuration."""
PLUGINS = frozenset({*DEFAULT_PLUGINS, "gpuspread", "podaffinity", "reflectjoborder"})
REFUSED_PLUGINS = {"numa": "it places by NUMA zones"}
"""Plugins of KAI's that are not in this version -> what they do."""

SHARD_PLUGINS = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
}
"""Plugins that KAI's operator renders for a SchedulingShard -> priority, the higher one first."""
SHARD_ACTIONS = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}

ARGUMENTS: dict[str, dict[str, type]] = {
    "minruntime": {
        "defaultPreemptMinRuntime": str,
        "defaultReclaimMinRuntime": str,
        "reclaimResolveMethod": str,
    },
    "nodeplacement": {"cpu": str, "gpu": str},
    "proportion": {"kValue": float, "relcaimerSaturationMultiplier": float},
}
"""Plugin -> argument -> type. Plugins that are not listed take no arguments."""
CHOICES = {
    ("minruntime", "reclaimResolveMethod"): ("lca", "queue"),
    ("nodeplacement", "cpu"): ("binpack", "spread"),
    ("nodeplacement", "gpu"): ("binpack", "spread"),
}
"""(plugin, argument) -> the texts that it may be."""
TIMES = frozenset(
    {("minruntime", "defaultPreemptMinRuntime"), ("minruntime", "defaultReclaimMinRuntime")}
)
"""(plugin, argument) that is a duration."""

UNREAD_FLAGS = frozenset(
    {
        "disableJobOrder",
        "disableNodeOrder",
        "disablePredicate",
        "disablePreemptable",
        "disableQueueOrder",
        "disableReclaimable",
        "disableTaskOrder",
    }
)
"""Switches of a plugin that KAI's file format has and KAI itself never reads."""

FIELDS = frozenset(
    {
        "actions",
        "dialect",
        "options",
        "queueDepthPerAction",
        "scenarioSearchBudgets",
        "tiers",
        "usageDBConfig",
    }
)
BUDGETS = frozenset(
    {
        "maxActionSearchDuration",
        "maxGeneratorSearchDuration",
        "maxJobSearchDuration",
        "minJobSearchDuration",
    }
)
GENERATORS = ("NodeLocalGreedy", "MultiNodeGang")

PROCESS_OPTIONS: dict[str, tuple[object, str]] = {
    "enable-profiler": (False, "quadrant debug profile"),
    "leader-elect": (False, "quadrant up --standby: there is always one leader"),
    "listen-address": (":8080", "settings listen_host and listen_port, where metrics are too"),
    "log-json": (False, "logs are structured anyway"),
    "metrics-namespace": ("kai", "metrics begin with quadrant_"),
    "profiler-port": ("8182", "quadrant debug profile"),
    "pyroscope-address": ("", "quadrant debug profile"),
    "pyroscope-block-profiler-rate": (5, "quadrant debug profile"),
    "pyroscope-mutex-profiler-rate": (5, "quadrant debug profile"),
    "queue-label-key": (
        "kai.scheduler/queue",
        "a pod without PodGroup names its queue by that label alone",
    ),
    "schedule-period": ("1s", "there are no cycles: a turn follows as soon as something changed"),
    "scheduler-conf": ("", "setting policy"),
    "v": (3, "setting log_level"),
    "version": (True, "quadrant version"),
}
"""Options about KAI's process -> its default, and what we have instead. Another value is refused:
nobody here would read it."""
WITHOUT_EFFECT: dict[str, str] = {
    "burst": "writes follow the API server's answers",
    "detailed-fit-errors": "explain tells each reason with its number of nodes anyway",
    "enable-workload-eviction-metrics": "evictions are counted anyway",
    "gpu-sharing-mode": "KAI's binder has its own, where it binds",
    "namespace": "the scheduler is in no namespace",
    "num-of-status-recording-workers": "states are written by one writer, in batches",
    "plugin-server-port": "what plugins serve over HTTP, the command quadrant tells",
    "qps": "writes follow the API server's answers",
    "resource-reservation-app-label": "devices are in the ledger, whatever pod reserves them",
    "schedule-csi-storage": "volumes are chosen, whatever capacity drivers report",
    "update-pod-eviction-condition": "evicted pods get an event, and no condition",
}
"""Options that are taken and have no effect -> why."""
