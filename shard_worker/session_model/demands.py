"""Fields of objects that only a plugin of the policy serves, and what happens without it.

A *demand* is what such a field asks for. A plugin says which demands it serves
(``session.serve(...)``); a job with a demand that nobody serves gets no turn and waits with reason
NotServed, because to place it all the same would be to ignore the field in silence
(docs/decisions/0052). A *preference* asks for less: without its plugin it has no effect, and who
submits it is told so. The page docs/reference/served-fields.md is made from :data:`DEMANDS` and
:data:`PREFERENCES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.model.constraints import Constraints
from shared.model.model import Job, Pairs, TaskClass
from shared.model.topology import Topology
from shared.units.slots import BASE

_GPU_MEMORY = "volcano.sh/gpu-memory"
_GPU_NUMBER = "volcano.sh/gpu-number"
_VGPU_NUMBER = "volcano.sh/vgpu-number"
_VGPU_MEMORY = "volcano.sh/vgpu-memory"
_VGPU_CORES = "volcano.sh/vgpu-cores"
_VGPU_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
NUMA_POLICY = "volcano.sh/numa-topology-policy"
_STRICT_NUMA = ("restricted", "single-numa-node")
_CARD_CHOICE = (
    "volcano.sh/vgpu-use-gpuuuid",
    "volcano.sh/vgpu-nouse-gpuuuid",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
)
_TASK_TOPOLOGY = "volcano.sh/task-topology-"
"""Prefix of the annotations that the plugin task-topology reads."""


class Demand(Enum):
    HARD_TOPOLOGY = auto()
    SUB_GROUP_TOPOLOGY = auto()
    SUB_GROUPS = auto()
    NODE_AFFINITY = auto()
    POD_AFFINITY = auto()
    TOPOLOGY_SPREAD = auto()
    VOLUMES = auto()
    RESOURCE_CLAIMS = auto()
    GPU_MEMORY = auto()
    GPU_NUMBER = auto()
    VGPU = auto()
    VGPU_PERCENTAGE = auto()
    CARD_CHOICE = auto()
    GPU_FRACTION = auto()
    NUMA = auto()
    NODE_GROUPS = auto()


class Preference(Enum):
    GANG = auto()
    SOFT_TOPOLOGY = auto()
    BUDGET = auto()
    TAINTS = auto()
    QUOTA = auto()
    TASK_TOPOLOGY = auto()


Served = Demand | Preference


@dataclass(frozen=True, slots=True)
class DemandEntry:
    """One row of the table."""

    field: str
    """As it is written in the object, with the values that make it a demand."""
    kinds: str
    plugin: str = ""
    """The plugin of ours that serves it; "" for none."""
    switch: str = ""
    """The argument or flag of the plugin on which that depends."""
    off_by_default: bool = False
    """Whether the plugin serves the field only if the switch is true."""
    without: str = "the job waits"
    elsewhere: str = ""
    """The policies that serve it where no plugin does; "" for none."""


_GANGS = "Job, PodGroup"
_PODS = "Pod, pod template"
_GRADIENT = "enabledHyperNodeGradient"

DEMANDS: dict[Demand, DemandEntry] = {
    Demand.HARD_TOPOLOGY: DemandEntry(
        "networkTopology (mode hard)", _GANGS, "network-topology-aware", _GRADIENT
    ),
    Demand.SUB_GROUP_TOPOLOGY: DemandEntry(
        "networkTopology (mode hard) of subGroupPolicy or partitionPolicy",
        _GANGS,
        "network-topology-aware",
        _GRADIENT,
    ),
    Demand.SUB_GROUPS: DemandEntry(
        "subGroupPolicy[].minSubGroups, partitionPolicy.minPartitions",
        _GANGS,
        "gang",
        "enabledSubJobReady",
    ),
    Demand.NODE_AFFINITY: DemandEntry(
        "nodeSelector, affinity.nodeAffinity (required)",
        _PODS,
        "predicates",
        "predicate.NodeAffinityEnable",
    ),
    Demand.POD_AFFINITY: DemandEntry(
        "affinity.podAffinity, affinity.podAntiAffinity (required)",
        _PODS,
        "predicates",
        "predicate.PodAffinityEnable",
    ),
    Demand.TOPOLOGY_SPREAD: DemandEntry(
        "topologySpreadConstraints (DoNotSchedule)",
        _PODS,
        "predicates",
        "predicate.PodTopologySpreadEnable",
    ),
    Demand.VOLUMES: DemandEntry(
        "volumes[].persistentVolumeClaim", _PODS, "predicates", "predicate.VolumeBindingEnable"
    ),
    Demand.RESOURCE_CLAIMS: DemandEntry(
        "resourceClaims", _PODS, "predicates", "predicate.DynamicResourceAllocationEnable"
    ),
    Demand.GPU_MEMORY: DemandEntry(
        f"resource {_GPU_MEMORY}", _PODS, "deviceshare", "deviceshare.GPUSharingEnable", True
    ),
    Demand.GPU_NUMBER: DemandEntry(
        f"resource {_GPU_NUMBER}", _PODS, "deviceshare", "deviceshare.GPUNumberEnable", True
    ),
    Demand.VGPU: DemandEntry(
        f"resources {_VGPU_NUMBER}, {_VGPU_MEMORY}, {_VGPU_CORES}",
        _PODS,
        "deviceshare",
        "deviceshare.VGPUEnable",
        True,
    ),
    Demand.VGPU_PERCENTAGE: DemandEntry(f"resource {_VGPU_PERCENTAGE}", _PODS),
    Demand.CARD_CHOICE: DemandEntry(
        f"annotations {', '.join(_CARD_CHOICE)} of pods with virtual GPUs", _PODS
    ),
    Demand.GPU_FRACTION: DemandEntry(
        "annotations gpu-fraction, gpu-memory", _PODS, elsewhere="a policy of KAI's"
    ),
    Demand.NUMA: DemandEntry(
        f"annotation {NUMA_POLICY} ({', '.join(_STRICT_NUMA)}), topologyPolicy of a Job's task",
        _PODS,
        "numa-aware",
        "enablePredicate",
    ),
    Demand.NODE_GROUPS: DemandEntry(
        "affinity.nodeGroupAffinity, affinity.nodeGroupAntiAffinity (required) of the queue",
        "Queue",
        "nodegroup",
        "enablePredicate",
    ),
}

PREFERENCES: dict[Preference, DemandEntry] = {
    Preference.GANG: DemandEntry(
        "minMember, minAvailable",
        _GANGS,
        "gang",
        "enableJobReady",
        without="tasks start one by one, as each finds room",
    ),
    Preference.SOFT_TOPOLOGY: DemandEntry(
        "networkTopology (mode soft)",
        _GANGS,
        "network-topology-aware",
        without="the tasks go where they would without it",
    ),
    Preference.BUDGET: DemandEntry(
        "maxUnavailable, minAvailable",
        "PodDisruptionBudget",
        "pdb",
        without="preempt, reclaim and their like may evict the pods that it selects",
    ),
    Preference.TAINTS: DemandEntry(
        "taints (NoSchedule, NoExecute)",
        "Node",
        "predicates",
        "predicate.TaintTolerationEnable",
        without="tasks are placed there that do not tolerate them",
    ),
    Preference.QUOTA: DemandEntry(
        "hard",
        "ResourceQuota",
        "resourcequota",
        without="jobs are admitted beyond it",
    ),
    Preference.TASK_TOPOLOGY: DemandEntry(
        "annotation volcano.sh/task-topology-affinity and its like",
        "Job, PodGroup",
        "task-topology",
        without="the tasks go where they would without it",
    ),
}
"""Fields that have no effect without their plugin, and of which no job waits."""

_OF_RESOURCE = {
    _GPU_MEMORY: Demand.GPU_MEMORY,
    _GPU_NUMBER: Demand.GPU_NUMBER,
    _VGPU_NUMBER: Demand.VGPU,
    _VGPU_MEMORY: Demand.VGPU,
    _VGPU_CORES: Demand.VGPU,
    _VGPU_PERCENTAGE: Demand.VGPU_PERCENTAGE,
}
_FRACTIONS = frozenset(("gpu-fraction", "gpu-memory"))


def demands_of(info: JobInfo, cluster: ClusterInfo) -> Iterator[Demand]:
    """The demands of a job. Called for every job that is queued: most have none, and plain
    classes cost two comparisons."""
    if info.job.topology is not None or info.job.sub_groups:
        yield from _of_gang(info.job)
    of_classes = [demand for cls in info.classes for demand in _of_class(cls, cluster.names)]
    yield from of_classes
    for role in info.job.roles:
        yield from _of_annotations(role.annotations)
        if Demand.VGPU in of_classes and not dict(role.annotations).keys().isdisjoint(_CARD_CHOICE):
            yield Demand.CARD_CHOICE
    yield from _of_annotations(info.job.annotations)
    queue = cluster.queues.get(info.qid)
    affinity = None if queue is None else queue.queue.affinity
    if affinity is not None and (affinity.required or affinity.anti_required):
        yield Demand.NODE_GROUPS


def _of_gang(job: Job) -> Iterator[Demand]:
    if _confines(job.topology):
        yield Demand.HARD_TOPOLOGY
    for policy in job.sub_groups:
        if policy.minimum:
            yield Demand.SUB_GROUPS
        if _confines(policy.topology):
            yield Demand.SUB_GROUP_TOPOLOGY


def _confines(topology: Topology | None) -> bool:
    """Whether the tasks must stay within one hyper node. Without a tier the whole cluster is
    allowed."""
    if topology is None or not topology.hard:
        return False
    return topology.highest_tier is not None or bool(topology.highest_tier_name)


def _of_class(cls: TaskClass, names: Sequence[str]) -> Iterator[Demand]:
    if cls.selector or cls.affinity is not None:
        yield Demand.NODE_AFFINITY
    if cls.constraints is not None:
        yield from _of_constraints(cls.constraints)
    for slot, _ in reversed(cls.requests):
        if slot < len(BASE):
            break  # sorted by slot: no named resource below
        demand = _OF_RESOURCE.get(names[slot]) if slot < len(names) else None
        if demand is not None:
            yield demand


def _of_constraints(constraints: Constraints) -> Iterator[Demand]:
    if any(not term.weight for term in constraints.pod_terms):
        yield Demand.POD_AFFINITY
    if any(spread.hard for spread in constraints.spreads):
        yield Demand.TOPOLOGY_SPREAD
    if constraints.volumes:
        yield Demand.VOLUMES
    if constraints.claims or constraints.claim_templates:
        yield Demand.RESOURCE_CLAIMS


def _of_annotations(annotations: Pairs) -> Iterator[Demand]:
    for key, value in annotations:
        if key == NUMA_POLICY and value in _STRICT_NUMA:
            yield Demand.NUMA
        elif key in _FRACTIONS:
            yield Demand.GPU_FRACTION


def unserved(info: JobInfo, cluster: ClusterInfo, served: Collection[Served]) -> str | None:
    """Why the job waits where the policy serves only these demands, and what to do; None where it
    serves all that the job has."""
    missing = [d for d in dict.fromkeys(demands_of(info, cluster)) if d not in served]
    if not missing:
        return None
    fields = "; ".join(f"{DEMANDS[d].field}: {remedy(DEMANDS[d])}" for d in missing)
    return f"the policy in force does not serve {fields}; nothing is placed against what is asked"


def unknown_tier(job: Job, tiers: Collection[str]) -> str | None:
    """Why the job waits where it must stay within a tier of a name that none of these tiers has."""
    for name in _named_tiers(job):
        if name not in tiers:
            names = f"the tiers are {', '.join(sorted(tiers))}" if tiers else "no tier has a name"
            return (
                f"networkTopology.highestTierName: no hyper node has tierName {name} ({names}); "
                "name one of those, or set spec.tierName of the hyper nodes"
            )
    return None


def names_tier(job: Job) -> bool:
    """Whether the job must stay within a tier that it names."""
    return bool(_named_tiers(job))


def _named_tiers(job: Job) -> list[str]:
    if job.topology is None and not job.sub_groups:
        return []  # most jobs
    topologies = (job.topology, *(policy.topology for policy in job.sub_groups))
    hard = (topology for topology in topologies if topology is not None and topology.hard)
    return [topology.highest_tier_name for topology in hard if topology.highest_tier_name]


def unserved_preferences(job: Job, served: Collection[Served]) -> Iterator[Preference]:
    """The preferences of the job that have no effect."""
    if Preference.GANG not in served and job.kind != "Pod" and job.groups[0].minimum > 1:
        yield Preference.GANG
    soft = job.topology is not None and not job.topology.hard
    if soft and Preference.SOFT_TOPOLOGY not in served:
        yield Preference.SOFT_TOPOLOGY
    if Preference.TASK_TOPOLOGY not in served and any(
        key.startswith(_TASK_TOPOLOGY) for key, _ in job.annotations
    ):
        yield Preference.TASK_TOPOLOGY


def remedy(entry: DemandEntry) -> str:
    """Advice on how to make the field count."""
    if entry.elsewhere:
        return f"no plugin of Volcano's does: use {entry.elsewhere}, or take it out of the object"
    if not entry.plugin:
        return "no policy does: take it out of the object"
    needs = f"plugin {entry.plugin}"
    if entry.off_by_default:
        needs += f" with {entry.switch}: true"
    elif entry.switch:
        needs += f" (without {entry.switch}: false)"
    return f"add {needs} to the policy, or take it out of the object"
