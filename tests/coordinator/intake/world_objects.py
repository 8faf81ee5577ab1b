"""Objects that placement looks at beside nodes and jobs, as people write them, and as read."""

from __future__ import annotations

from typing import Any

from shared.model.constraints import Requirement, Taint, Toleration
from shared.model.devices import (
    Allocation,
    Attribute,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceMatch,
    DeviceRequest,
    DeviceResult,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from shared.model.kai import (
    KaiLevel,
    KaiPodGroup,
    KaiQueue,
    KaiShare,
    KaiSubGroup,
    KaiTopology,
    KaiTopologyConstraint,
)
from shared.model.model import WorldObject
from shared.model.storage import (
    Budget,
    CSINode,
    Numatopology,
    ResourceQuota,
    StorageClass,
    Volume,
    VolumeClaim,
)

ZONE = "topology.kubernetes.io/zone"
IN_ZONE = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
SELECTED = ((Requirement(ZONE, "In", ("a",)),),)
CEL = "device.attributes['gpu.example.com'].model == 'x'"


def world_object(version: str, kind: str, /, name: str = "x", **fields: Any) -> dict[str, Any]:
    namespaced = kind in ("PodGroup", "ResourceQuota", "PersistentVolumeClaim") or (
        kind.startswith(("ResourceClaim", "PodDisruption"))
    )
    metadata = {"name": name, **({"namespace": "ns"} if namespaced else {})}
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def dra(kind: str, **fields: Any) -> dict[str, Any]:
    return world_object("resource.k8s.io/v1", kind, **fields)


EXACTLY = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": CEL}}]}
REQUESTS: dict[str, Any] = {
    "requests": [
        {"name": "a", "exactly": EXACTLY | {"tolerations": [{"operator": "Exists"}]}},
        {
            "name": "b",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "big", "allocationMode": "All"},
                {
                    "name": "small",
                    "deviceClassName": "small",
                    "capacity": {"requests": {"memory": "1Gi"}},
                },
            ],
        },
    ],
    "constraints": [{"requests": ["a"], "matchAttribute": "gpu.example.com/numa"}],
}
READ_REQUESTS = (
    DeviceRequest(
        "a", (DeviceAsk("gpu", "", (CEL,), 2, tolerations=(Toleration("", "Exists", "", ""),)),)
    ),
    DeviceRequest(
        "b",
        (
            DeviceAsk("big", "big", everything=True),
            DeviceAsk("small", "small", capacity=(("memory", 1000 << 30),)),
        ),
    ),
)
MATCHES = (DeviceMatch("gpu.example.com/numa", ("a",)),)
TERMS = {"nodeSelectorTerms": [IN_ZONE]}

WORLD: dict[str, tuple[dict[str, Any], WorldObject]] = {
    "budget": (
        world_object(
            "policy/v1",
            "PodDisruptionBudget",
            spec={"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 3},
            status={"disruptionsAllowed": 2},
        ),
        Budget("ns", "x", (Requirement("a", "In", ("b",)),), "", "3", 2),
    ),
    "quota": (
        world_object(
            "v1",
            "ResourceQuota",
            spec={"hard": {"cpu": "9"}},
            status={
                "hard": {"requests.memory": "2Gi", "pods": "5", "count/jobs.batch": 1},
                "used": {"requests.memory": "1Gi", "pods": 0},
            },
        ),
        ResourceQuota(
            "ns",
            "x",
            (("count/jobs.batch", 1000), ("pods", 5), ("requests.memory", 2 << 30)),
            (("pods", 0), ("requests.memory", 1 << 30)),
        ),
    ),
    "volume": (
        world_object(
            "v1",
            "PersistentVolume",
            metadata={"labels": {ZONE: "a"}},
            spec={
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "claimRef": {"namespace": "ns", "name": "c", "uid": "u"},
                "nodeAffinity": {"required": TERMS},
                "csi": {"driver": "d.example.com", "volumeHandle": "h"},
            },
            status={"phase": "Bound"},
        ),
        Volume(
            "x",
            2 << 30,
            "fast",
            ("ReadWriteOnce",),
            claim="ns/c",
            claim_uid="u",
            affinity=SELECTED,
            labels=((ZONE, "a"),),
            phase="Bound",
            driver="d.example.com",
            handle="h",
        ),
    ),
    "claim for a volume": (
        world_object(
            "v1",
            "PersistentVolumeClaim",
            metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            spec={
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
                "volumeName": "v",
                "selector": {},
            },
            status={"phase": "Bound"},
        ),
        VolumeClaim("ns", "x", "", 1 << 30, "", volume="v", selector=(), phase="Bound", bound=True),
    ),
    "storage class": (
        world_object(
            "storage.k8s.io/v1",
            "StorageClass",
            metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="p.example.com",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}],
        ),
        StorageClass("x", "p.example.com", True, SELECTED, True),
    ),
    "limits of a node": (
        world_object(
            "storage.k8s.io/v1",
            "CSINode",
            spec={
                "drivers": [
                    {"name": "d", "nodeID": "n", "allocatable": {"count": 5}},
                    {"name": "e", "nodeID": "n"},
                ]
            },
        ),
        CSINode("x", (("d", 5),)),
    ),
    "claim": (
        dra(
            "ResourceClaim",
            spec={"devices": REQUESTS},
            status={
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
                "allocation": {
                    "devices": {
                        "results": [
                            {"request": "a", "driver": "d", "pool": "p", "device": "0"},
                            {
                                "request": "b/small",
                                "driver": "d",
                                "pool": "p",
                                "device": "1",
                                "adminAccess": True,
                                "consumedCapacity": {"memory": "2"},
                            },
                        ]
                    },
                    "nodeSelector": TERMS,
                },
            },
        ),
        ResourceClaim(
            "ns",
            "x",
            READ_REQUESTS,
            MATCHES,
            Allocation(
                (
                    DeviceResult("a", "d", "p", "0"),
                    DeviceResult("b/small", "d", "p", "1", True, (("memory", 2000),)),
                ),
                SELECTED,
            ),
            ("u",),
        ),
    ),
    "template of claims": (
        dra("ResourceClaimTemplate", spec={"spec": {"devices": REQUESTS}}),
        ResourceClaimTemplate("ns", "x", READ_REQUESTS, MATCHES),
    ),
    "slice": (
        dra(
            "ResourceSlice",
            spec={
                "driver": "gpu.example.com",
                "pool": {"name": "n", "generation": 3, "resourceSliceCount": 2},
                "nodeName": "n",
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "model": {"string": "x"},
                            "index": {"int": -1},
                            "ecc": {"bool": False},
                            "gpu.example.com/driver": {"version": "1.2.3"},
                        },
                        "capacity": {"memory": {"value": "1Ki"}},
                        "taints": [{"key": "k", "effect": "NoSchedule"}],
                        "allowMultipleAllocations": True,
                    }
                ],
            },
        ),
        ResourceSlice(
            "x",
            "gpu.example.com",
            "n",
            3,
            2,
            "n",
            devices=(
                Device(
                    "gpu-0",
                    (
                        Attribute("ecc", "bool", False),
                        Attribute("gpu.example.com/driver", "version", "1.2.3"),
                        Attribute("index", "int", -1),
                        Attribute("model", "string", "x"),
                    ),
                    (("memory", 1024_000),),
                    (Taint("k", "", "NoSchedule"),),
                    True,
                ),
            ),
        ),
    ),
    "device class": (
        dra("DeviceClass", spec={"selectors": [{"cel": {"expression": CEL}}]}),
        DeviceClass("x", (CEL,)),
    ),
    "numatopology": (
        world_object(
            "nodeinfo.volcano.sh/v1alpha1",
            "Numatopology",
            spec={
                "policies": {"TopologyManagerPolicy": "restricted", "CPUManagerPolicy": "static"},
                "numares": {"cpu": {"allocatable": "0-2,5", "capacity": 6}},
                "cpuDetail": {"10": {"numa": 1}, "2": {"numa": 0, "socket": 1, "core": 2}},
                "resReserved": {"cpu": "500m"},
            },
        ),
        Numatopology(
            "x",
            (("CPUManagerPolicy", "static"), ("TopologyManagerPolicy", "restricted")),
            (("cpu", "0-2,5", 6),),
            ((2, 0, 1, 2), (10, 1, 0, 0)),
            (("cpu", 500),),
        ),
    ),
    "KAI queue": (
        world_object(
            "scheduling.run.ai/v2",
            "Queue",
            spec={
                "parentQueue": "all",
                "resources": {"gpu": {"quota": 2, "overQuotaWeight": 0.5, "limit": -1}},
                "reclaimMinRuntime": "1m",
            },
        ),
        KaiQueue(
            "x",
            KaiShare(),
            KaiShare(),
            KaiShare(2000, 500, -1),
            parent="all",
            reclaim_min_runtime=60.0,
        ),
    ),
    "KAI PodGroup": (
        world_object(
            "scheduling.run.ai/v2alpha2",
            "PodGroup",
            spec={
                "queue": "x",
                "preemptibility": "non-preemptible",
                "subGroups": [
                    {"name": "a", "minSubGroup": 1},
                    {"name": "b", "parent": "a", "minMember": 2},
                ],
                "topologyConstraint": {"topology": "x", "requiredTopologyLevel": "rack"},
                "stalenessGracePeriod": "-1s",
            },
        ),
        KaiPodGroup(
            "ns",
            "x",
            "x",
            preemptible=False,
            sub_groups=(KaiSubGroup("a", min_sub_group=1), KaiSubGroup("b", "a", min_member=2)),
            topology=KaiTopologyConstraint("x", "rack"),
            staleness_grace=-1.0,
        ),
    ),
    "KAI topology": (
        world_object(
            "kai.scheduler/v1alpha1",
            "Topology",
            spec={"levels": [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack"}]},
        ),
        KaiTopology("x", (KaiLevel("zone", "z"), KaiLevel("rack"))),
    ),
}
"""Description -> (as written, as read)."""
