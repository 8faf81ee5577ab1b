"""The names a policy file may use: what Volcano has, and which part of it this version has."""

from __future__ import annotations

ACTIONS_HERE = (
    "allocate",
    "backfill",
    "enqueue",
    "gangpreempt",
    "gangreclaim",
    "preempt",
    "reclaim",
    "shuffle",
)
PLUGINS_HERE = (
    "binpack",
    "conformance",
    "drf",
    "gang",
    "nodeorder",
    "predicates",
    "priority",
    "proportion",
)

VOLCANO_ACTIONS = frozenset(ACTIONS_HERE)
VOLCANO_PLUGINS = frozenset(
    {
        *PLUGINS_HERE,
        "capacity",
        "cdp",
        "deviceshare",
        "extender",
        "network-topology-aware",
        "nodegroup",
        "numa-aware",
        "overcommit",
        "pdb",
        "rescheduling",
        "resource-strategy-fit",
        "resourcequota",
        "sla",
        "task-topology",
        "tdm",
        "usage",
    }
)

OFF_BY_DEFAULT = frozenset({"enableHierarchy", "enabledClusterOrder"})
FLAGS = frozenset(
    {
        *OFF_BY_DEFAULT,
        "enableBestNode",
        "enableJobEnqueued",
        "enableJobOrder",
        "enableJobPipelined",
        "enableJobReady",
        "enableJobStarving",
        "enableNodeOrder",
        "enablePredicate",
        "enablePreemptable",
        "enablePreemptive",
        "enableQueueOrder",
        "enableReclaimable",
        "enableReservedNodes",
        "enableTargetJob",
        "enableTaskOrder",
        "enabledAllocatable",
        "enabledHyperNodeGradient",
        "enabledHyperNodeOrder",
        "enabledOverused",
        "enabledSubJobOrder",
        "enabledSubJobPipelined",
        "enabledSubJobReady",
        "enabledVictim",
    }
)
"""Switches of a plugin. That some begin with enable and some with enabled is Volcano's spelling."""

ARGUMENTS: dict[str, dict[str, type]] = {
    "binpack": {
        "binpack.weight": int,
        "binpack.cpu": int,
        "binpack.memory": int,
        "binpack.resources": str,
    },
    "nodeorder": {
        "leastrequested.weight": int,
        "mostrequested.weight": int,
        "balancedresource.weight": int,
        "nodeaffinity.weight": int,
        "podaffinity.weight": int,
        "tainttoleration.weight": int,
        "imagelocality.weight": int,
        "podtopologyspread.weight": int,
    },
    "predicates": {
        "predicate.CacheEnable": bool,
        "predicate.DynamicResourceAllocationEnable": bool,
        "predicate.NodeAffinityEnable": bool,
        "predicate.NodePortsEnable": bool,
        "predicate.NodeVolumeLimitsEnable": bool,
        "predicate.PodAffinityEnable": bool,
        "predicate.PodTopologySpreadEnable": bool,
        "predicate.TaintTolerationEnable": bool,
        "predicate.VolumeBindingEnable": bool,
        "predicate.VolumeZoneEnable": bool,
    },
}
"""Plugin -> argument -> type. A plugin that is not listed takes none."""
ARGUMENT_PREFIXES: dict[str, dict[str, type]] = {"binpack": {"binpack.resources.": int}}
"""Plugin -> beginning of arguments that end in a name of the user's."""
ACTION_ARGUMENTS: dict[str, dict[str, type]] = {
    "allocate": {"predicateErrorCacheEnable": bool},
    "backfill": {"predicateErrorCacheEnable": bool},
    "gangpreempt": {"allowWholeBundle": bool},
    "gangreclaim": {"allowWholeBundle": bool},
    "preempt": {
        "enableTopologyAwarePreemption": bool,
        "maxCandidateNodesAbsolute": int,
        "minCandidateNodesAbsolute": int,
        "minCandidateNodesPercentage": int,
        "predicateErrorCacheEnable": bool,
        "topologyAwarePreemptWorkerNum": int,
    },
    "reclaim": {"predicateErrorCacheEnable": bool},
}
"""Action -> argument -> type, as ``configurations`` may give them."""
