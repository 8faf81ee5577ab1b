"""One good object of each kind that is watched, with as many of its fields in use as may be."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

DRIVER = "gpu.example.com"


def objects(*, kai: bool) -> list[Json]:
    """In the order in which they may refer to each other."""
    own = [_kai_queue("all"), _kai_queue("default", "all"), _kai_group()]
    volcano = [_queue("default"), _pod_group()]
    return [
        _node(),
        *(own if kai else volcano),
        _claim(),
        _slice(),
        _bare_pod(),
        _pod("waits"),
        _pod("placed", nodeName="n1"),
        _pod("other", nodeName="n1", schedulerName="default-scheduler"),
    ]


def _object(version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Json:
    metadata: Json = {
        "name": name,
        "uid": f"uid-{kind}-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-24T10:00:00Z",
        "labels": {"app": "a"},
        "annotations": {"note": "b"},
        "generation": 1,
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def _node() -> Json:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}
    obj = _object(
        "v1",
        "Node",
        "n1",
        spec={
            "podCIDR": "10.0.0.0/24",
            "unschedulable": False,
            "taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}],
        },
        status={
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "images": [{"names": ["i:latest"], "sizeBytes": 1000}],
        },
    )
    obj["metadata"]["labels"] |= {"nvidia.com/gpu.memory": "16000", "zone": "a"}
    obj["metadata"]["annotations"] |= {
        "volcano.sh/node-vgpu-register": "GPU-0,10,16000,NVIDIA,true:",
        "quadrant.dev/devices": '{"card/0": 1000}',
    }
    return obj


def _pod(name: str, **spec: Any) -> Json:
    container = {
        "name": "c",
        "image": "i",
        "args": ["x"],
        "env": [{"name": "E", "value": "v"}],
        "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
    }
    start = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    selector = {"matchLabels": {"app": "a"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    term = {"key": "zone", "operator": "In", "values": ["a"]}
    number = {"key": "age", "operator": "Gt", "values": ["3"]}
    node_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [term, number]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [term]}}
        ],
    }
    pod_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": selector, "topologyKey": "zone"}
        ]
    }
    toleration = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}
    claims = [
        {"name": "one", "resourceClaimName": "claim"},
        {"name": "two", "resourceClaimTemplateName": "template"},
    ]
    whole: Json = {
        "containers": [container],
        "initContainers": [start],
        "schedulerName": "quadrant",
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": node_affinity, "podAffinity": pod_affinity},
        "tolerations": [toleration | {"tolerationSeconds": 30}],
        "topologySpreadConstraints": [spread],
        "priorityClassName": "high",
        "priority": 5,
        "preemptionPolicy": "PreemptLowerPriority",
        "overhead": {"cpu": "10m"},
        "resourceClaims": claims,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "serviceAccountName": "s",
        "terminationGracePeriodSeconds": 30,
    }
    status = {
        "phase": "Running" if spec else "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "resourceClaimStatuses": [{"name": "two", "resourceClaimName": "two-x"}],
    }
    obj = _object("v1", "Pod", name, "default", spec=whole | spec, status=status)
    obj["metadata"]["annotations"] |= {
        "scheduling.k8s.io/group-name": "gang",
        "volcano.sh/task-spec": "worker",
        "quadrant.dev/statement": "ledger/1:x/1-0",
        "gpu-fraction": "0.5",
    }
    obj["metadata"]["labels"] |= {"kai.scheduler/queue": "default", "runai-gpu-group": "g"}
    return obj


def _bare_pod() -> Json:
    """Nothing but texts that nobody has to look at."""
    container = {
        "name": "c",
        "image": "i",
        "command": ["x"],
        "args": ["y", "z"],
        "env": [{"name": "E", "value": "v"}],
    }
    spec = {"containers": [container], "nodeSelector": {"a": "b"}, "schedulerName": "quadrant"}
    return _object("v1", "Pod", "bare", "default", spec=spec, status={"phase": "Pending"})


def _queue(name: str) -> Json:
    amounts = {"cpu": "8", "memory": "16Gi"}
    return _object(
        "scheduling.volcano.sh/v1beta1",
        "Queue",
        name,
        spec={
            "weight": 1,
            "capability": amounts,
            "deserved": amounts,
            "guarantee": {"resource": {"cpu": "1"}},
            "reclaimable": True,
            "priority": 3,
        },
        status={"state": "Open"},
    )


def _pod_group() -> Json:
    return _object(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        "gang",
        "default",
        spec={
            "minMember": 2,
            "minTaskMember": {"worker": 1},
            "minResources": {"cpu": "2"},
            "queue": "default",
            "priorityClassName": "high",
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        },
        status={"phase": "Pending"},
    )


def _kai_queue(name: str, parent: str = "") -> Json:
    share = {"quota": 4, "limit": 8, "overQuotaWeight": 1}
    spec: Json = {
        "displayName": name,
        "priority": 100,
        "resources": {"cpu": share, "memory": share, "gpu": share},
        "preemptMinRuntime": "10s",
        "reclaimMinRuntime": "1m",
    }
    return _object(
        "scheduling.run.ai/v2",
        "Queue",
        name,
        spec=spec | ({"parentQueue": parent} if parent else {}),
    )


def _kai_group() -> Json:
    return _object(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        "gang",
        "default",
        spec={"queue": "default", "minMember": 2, "priorityClassName": "train"},
    )


def _claim() -> Json:
    request = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "gpu",
            "count": 1,
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        },
    }
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    return _object(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "claim",
        "default",
        spec={"devices": {"requests": [request]}},
        status={
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "placed", "uid": "uid-Pod-placed"}],
        },
    )


def _slice() -> Json:
    device = {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "a100"},
            "version": {"version": "1.2.3"},
            "index": {"int": 3},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    }
    return _object(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "slice",
        spec={
            "driver": DRIVER,
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    )
