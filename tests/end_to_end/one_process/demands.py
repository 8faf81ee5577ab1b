"""One set of objects for each field that only a plugin of the policy serves."""

from __future__ import annotations

from typing import Any

from shard_worker.session_model.demands import Demand
from tests.builders.objects import container, job, pod, pod_group, queue, task

Json = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SELF = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
_HARD = {"mode": "hard", "highestTierAllowed": 1}


def one(
    name: str, *, annotations: Json | None = None, role: Json | None = None, **spec: Any
) -> Json:
    """A Job of one task whose pod has these fields."""
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": annotations or {}},
        "spec": {"containers": [container()], **spec},
    }
    return job(name, tasks=[{**task("w", replicas=1), "template": template, **(role or {})}])


def device(name: str, annotations: Json | None = None, **amounts: str) -> Json:
    limits = {f"volcano.sh/{key.replace('_', '-')}": amount for key, amount in amounts.items()}
    resources = {"requests": {"cpu": "1"}, "limits": limits}
    containers = [{"name": "c", "resources": resources}]
    return one(name, annotations=annotations, containers=containers)


def divided(name: str, **policy: Any) -> list[Json]:
    group = pod_group(name, minMember=1, subGroupPolicy=[{"name": "a", **policy}])
    return [group, pod(f"{name}-0", group=name)]


def examples() -> dict[Demand, list[Json]]:
    """Demand -> objects; the job or group is named after the demand."""
    name = {demand: demand.name.lower().replace("_", "-") for demand in Demand}
    d = Demand
    claim = {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_SELF}
    groups = {"nodeGroupAffinity": {_REQUIRED: ["a"]}}
    return {
        d.HARD_TOPOLOGY: [job(name[d.HARD_TOPOLOGY], networkTopology=_HARD)],
        d.SUB_GROUP_TOPOLOGY: divided(name[d.SUB_GROUP_TOPOLOGY], networkTopology=_HARD),
        d.SUB_GROUPS: divided(name[d.SUB_GROUPS], minSubGroups=1),
        d.NODE_AFFINITY: [one(name[d.NODE_AFFINITY], nodeSelector={"zone": "a"})],
        d.POD_AFFINITY: [one(name[d.POD_AFFINITY], affinity={"podAffinity": {_REQUIRED: [_SELF]}})],
        d.TOPOLOGY_SPREAD: [one(name[d.TOPOLOGY_SPREAD], topologySpreadConstraints=[spread])],
        d.VOLUMES: [one(name[d.VOLUMES], volumes=[claim])],
        d.RESOURCE_CLAIMS: [
            one(
                name[d.RESOURCE_CLAIMS],
                resourceClaims=[{"name": "g", "resourceClaimName": "gpu"}],
            )
        ],
        d.GPU_MEMORY: [device(name[d.GPU_MEMORY], gpu_memory="1")],
        d.GPU_NUMBER: [device(name[d.GPU_NUMBER], gpu_number="1")],
        d.VGPU: [device(name[d.VGPU], vgpu_number="1", vgpu_memory="1")],
        d.VGPU_PERCENTAGE: [
            device(name[d.VGPU_PERCENTAGE], vgpu_memory_percentage="50"),
        ],
        d.CARD_CHOICE: [
            device(name[d.CARD_CHOICE], {"volcano.sh/vgpu-use-gpuuuid": "GPU-1"}, vgpu_number="1")
        ],
        d.GPU_FRACTION: [one(name[d.GPU_FRACTION], annotations={"gpu-fraction": "0.5"})],
        d.NUMA: [one(name[d.NUMA], role={"topologyPolicy": "restricted"})],
        d.NODE_GROUPS: [
            queue("grouped", affinity=groups),
            {**(j := one(name[d.NODE_GROUPS])), "spec": {**j["spec"], "queue": "grouped"}},
        ],
    }
