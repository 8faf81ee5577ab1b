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
    "capacity",
    "cdp",
    "conformance",
    "deviceshare",
    "drf",
    "extender",
    "gang",
    "network-topology-aware",
    "nodegroup",
    "nodeorder",
    "numa-aware",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
)

VOLCANO_ACTIONS = frozenset(ACTIONS_HERE)
VOLCANO_PLUGINS = frozenset(PLUGINS_HERE)

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
    "capacity": {
        "ancestorReclaimLevel": int,
        "capacity.DynamicResourceAllocationEnable": bool,
        "capacity.DRAConsumableCapacityEnable": bool,
    },
    "deviceshare": {
        "deviceshare.AscendHAMiVNPUEnable": bool,
        "deviceshare.AscendMindClusterVNPUEnable": bool,
        "deviceshare.GPUNumberEnable": bool,
        "deviceshare.GPUSharingEnable": bool,
        "deviceshare.KnownGeometriesCMName": str,
        "deviceshare.KnownGeometriesCMNamespace": str,
        "deviceshare.NodeLockEnable": bool,
        "deviceshare.SchedulePolicy": str,
        "deviceshare.ScheduleWeight": float,
        "deviceshare.VGPUEnable": bool,
    },
    "extender": {
        "extender.allocateFuncVerb": str,
        "extender.deallocateFuncVerb": str,
        "extender.httpTimeout": str,
        "extender.ignorable": bool,
        "extender.jobEnqueueableVerb": str,
        "extender.jobReadyVerb": str,
        "extender.managedResources": str,
        "extender.onSessionCloseVerb": str,
        "extender.onSessionOpenVerb": str,
        "extender.predicateVerb": str,
        "extender.preemptableVerb": str,
        "extender.prioritizeVerb": str,
        "extender.queueOverusedVerb": str,
        "extender.reclaimableVerb": str,
        "extender.urlPrefix": str,
    },
    "network-topology-aware": {
        "gradient.evict.max-hypernodes": int,
        "hypernode.binpack.cpu": int,
        "hypernode.binpack.memory": int,
        "hypernode.binpack.normal-pod.enable": bool,
        "hypernode.binpack.normal-pod.fading": float,
        "hypernode.binpack.resources": str,
        "weight": int,
    },
    "nodegroup": {"strict": bool, "enablePreferredOrder": bool},
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
    "numa-aware": {"weight": float},
    "overcommit": {"overcommit-factor": float},
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
    "rescheduling": {
        "interval": str,
        "metricsPeriod": str,
        "queueSelector": list,
        "labelSelector": dict,
        "strategies": list,
    },
    "resource-strategy-fit": {
        "resourceStrategyFitWeight": float,
        "resources": dict,
        "sra.policy": str,
        "sra.resources": str,
        "sra.retention.weight": float,
    },
    "sla": {"sla-waiting-time": str},
    "task-topology": {"task-topology.weight": float},
    "tdm": {"tdm.evict.max-num": str, "tdm.evict.period": str},
    "usage": {
        "cpu.weight": float,
        "estimator": dict,
        "memory.weight": float,
        "thresholds": dict,
        "usage.weight": float,
    },
}
"""Plugin -> argument -> type. A plugin that is not listed takes none."""
ARGUMENT_PREFIXES: dict[str, dict[str, type]] = {
    "binpack": {"binpack.resources.": int},
    "network-topology-aware": {"hypernode.binpack.resources.": int},
    "resource-strategy-fit": {"sra.proportional.": float, "sra.retention.": float},
    "tdm": {"tdm.revocable-zone.": str},
}
"""Plugin -> beginning of arguments that end in a name of the user's."""
ACTION_ARGUMENTS: dict[str, dict[str, type]] = {
    "allocate": {"predicateErrorCacheEnable": bool},
    "backfill": {"predicateErrorCacheEnable": bool},
    "gangpreempt": {"allowWholeBundle": bool, "predicateErrorCacheEnable": bool},
    "gangreclaim": {"allowWholeBundle": bool, "predicateErrorCacheEnable": bool},
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
