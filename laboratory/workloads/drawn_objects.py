"""Random objects in which every plugin has something to say: labels, taints and devices of nodes,
queues, topology, NUMA domains, volumes, claims, budgets, quotas.

Whoever asks for these things is in :mod:`laboratory.workloads.drawn_demands`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from laboratory.workloads.demands import HOSTNAME
from laboratory.workloads.drawn_demands import APPS
from laboratory.workloads.manifests import manifest
from shared.model.node_devices import REGISTER

Json = dict[str, Any]

GROUPS = ("east", "west")
DRIVER = "gpu.example.com"


def objects_around(draw: Random, nodes: list[str]) -> list[Json]:
    """The objects beside nodes, queues and pods; ``nodes``: their names."""
    items = _racks(nodes)
    items += _storage(draw, nodes)
    items += _device_objects(draw, nodes)
    items += [_numa(draw, name) for name in nodes if draw.random() < 0.4]
    items += [budget(draw, app) for app in APPS if draw.random() < 0.4]
    items += [_quota(draw)] if draw.random() < 0.3 else []
    return items


# --- marks of nodes, jobs and queues ------------------------------------------------------------


def node_marks(draw: Random) -> Json:
    """Properties of a node beside its cores: parts of its metadata, spec and allocatable."""
    labels: Json = {}
    annotations: Json = {}
    spec: Json = {}
    offers: Json = {"pods": str(draw.choice([3, 110, 110]))}
    if draw.random() < 0.1:
        spec["unschedulable"] = True
    if draw.random() < 0.15:
        spec["taints"] = [{"key": "batch", "value": "only", "effect": "NoSchedule"}]
    if draw.random() < 0.3:
        labels["volcano.sh/nodegroup-name"] = draw.choice(GROUPS)
    if draw.random() < 0.2:
        labels["volcano.sh/revocable-zone"] = draw.choice(["open", "closed"])
    if draw.random() < 0.5:
        cards = draw.randint(1, 2)
        annotations[REGISTER] = "".join(f"g{card},10,1000,V100,true:" for card in range(cards))
        offers |= {"volcano.sh/vgpu-number": str(10 * cards)}
        offers |= {"volcano.sh/vgpu-memory": str(1000 * cards)}
        offers |= {"volcano.sh/gpu-memory": str(1000 * cards), "volcano.sh/gpu-number": str(cards)}
    return {"labels": labels, "annotations": annotations, "spec": spec, "allocatable": offers}


def job_marks(draw: Random) -> Json:
    """Annotations of a job."""
    marks: Json = {}
    if draw.random() < 0.1:
        marks["volcano.sh/task-topology-affinity"] = "a,b"
    if draw.random() < 0.1:
        marks["volcano.sh/sla-waiting-time"] = draw.choice(["1s", "10m"])
    if draw.random() < 0.1:
        marks["volcano.sh/cooldown-time"] = "600s"
    return marks


def queue_spec(draw: Random) -> Json:
    """The spec of a queue."""
    spec: Json = {"weight": draw.randint(1, 3), "reclaimable": draw.random() < 0.9}
    if draw.random() < 0.4:
        spec["capability"] = {"cpu": str(draw.randint(2, 12))}
        if draw.random() < 0.3:
            spec["capability"] |= {"deviceclass/gpu": "1"}
    if draw.random() < 0.6:
        spec["deserved"] = {"cpu": str(draw.randint(1, 6))}
    if draw.random() < 0.3:
        spec["guarantee"] = {"resource": {"cpu": "1"}}
    if draw.random() < 0.3:
        side = draw.choice(["nodeGroupAffinity", "nodeGroupAntiAffinity"])
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [draw.choice(GROUPS)]}
        spec["affinity"] = {side: rule}
    return spec


# --- topology, NUMA, budgets, quotas ------------------------------------------------------------


def _racks(nodes: list[str]) -> list[Json]:
    domains = []
    for part in (0, 1):
        members = [member_of("Node", name) for name in nodes[part::2]]
        domains += [hyper_node(f"rack-{part}", 1, members)] if members else []
    return [
        *domains,
        hyper_node("hall", 2, [member_of("HyperNode", obj["metadata"]["name"]) for obj in domains]),
    ]


def member_of(kind: str, name: str) -> Json:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def hyper_node(name: str, tier: int, members: list[Json]) -> Json:
    return manifest("HyperNode", name, {"tier": tier, "members": members})


def _numa(draw: Random, name: str) -> Json:
    policy = draw.choice(["best-effort", "restricted", "single-numa-node"])
    free = draw.choice(["0-7", "0-3", "2-5"])
    spec = {
        "policies": {"TopologyManagerPolicy": policy, "CPUManagerPolicy": "static"},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": {str(cpu): {"numa": cpu // 4, "core": cpu} for cpu in range(8)},
    }
    return manifest("Numatopology", name, spec)


def budget(draw: Random, app: str) -> Json:
    limit: Json = draw.choice([{"minAvailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
    spec = {**limit, "selector": {"matchLabels": {"app": app}}}
    return manifest("PodDisruptionBudget", app, spec, namespace="ns")


def _quota(draw: Random) -> Json:
    spec = {"hard": {"requests.cpu": str(draw.randint(2, 12))}}
    status = {"hard": {"requests.cpu": "12"}, "used": {"requests.cpu": "0"}}
    return manifest("ResourceQuota", "most", spec, namespace="ns", status=status)


# --- volumes and claims of devices ------------------------------------------------------------


def _storage(draw: Random, nodes: list[str]) -> list[Json]:
    """Claims p0 to p3: some have a volume, some wait for their first consumer, one never binds."""
    size: Json = {"storage": "1Gi"}
    objects: list[Json] = [
        _class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        _class("made", "disk.example.com", "WaitForFirstConsumer"),
        _class("now", "disk.example.com", "Immediate"),
    ]
    for i in range(4):
        kind = draw.choice(["bound", "local", "local", "made", "now"])
        spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        claim = manifest("PersistentVolumeClaim", f"p{i}", spec, namespace="ns")
        if kind == "bound":
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            spec |= {"storageClassName": "local", "volumeName": f"v{i}"}
            objects.append(_volume(f"v{i}", draw.choice(nodes), claim=f"p{i}"))
            claim["status"] = {"phase": "Bound"}
        else:
            spec["storageClassName"] = kind
        objects.append(claim)
    objects += [_volume(f"free{i}", draw.choice(nodes)) for i in range(draw.randint(0, 2))]
    for name in nodes:
        if draw.random() < 0.2:
            count = {"count": draw.randint(0, 1)}
            driver = {"name": "disk.example.com", "nodeID": name, "allocatable": count}
            objects.append(manifest("CSINode", name, {"drivers": [driver]}))
    return objects


def _class(name: str, provisioner: str, mode: str) -> Json:
    return manifest("StorageClass", name, provisioner=provisioner, volumeBindingMode=mode)


def _volume(name: str, on: str, *, claim: str = "") -> Json:
    on_node = {"key": HOSTNAME, "operator": "In", "values": [on]}
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
    }
    if claim:
        spec["claimRef"] = {"namespace": "ns", "name": claim}
    status = {"phase": "Bound" if claim else "Available"}
    return manifest("PersistentVolume", name, spec, status=status)


def _device_objects(draw: Random, nodes: list[str]) -> list[Json]:
    of_driver = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    objects: list[Json] = [
        manifest("DeviceClass", "gpu", {"selectors": [of_driver]}),
        manifest("ResourceClaimTemplate", "one", {"spec": _asked(draw)}, namespace="ns"),
    ]
    objects += [manifest("ResourceClaim", f"d{i}", _asked(draw), namespace="ns") for i in range(2)]
    some = [name for name in nodes if draw.random() < 0.5]
    return objects + [_slice(draw, name, draw.randint(1, 2)) for name in some]


def _asked(draw: Random) -> Json:
    """A claim of one device; of two in three any, else one that an expression selects."""
    request: Json = {"deviceClassName": "gpu", "count": 1}
    if draw.random() < 1 / 3:
        expression = draw.choice(
            [
                f'device.attributes["{DRIVER}"].model == "a"',
                f'device.attributes["{DRIVER}"].slot >= 1 || device.driver == "other"',
                f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
                f'!(device.attributes["{DRIVER}"].model in ["b"])',
            ]
        )
        request["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def _slice(draw: Random, node_name: str, devices: int) -> Json:
    spec = {
        "driver": DRIVER,
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": f"gpu-{i}",
                "attributes": {"model": {"string": draw.choice("ab")}, "slot": {"int": i}},
                "capacity": {"memory": {"value": draw.choice(["16Gi", "80Gi"])}},
            }
            for i in range(devices)
        ],
    }
    return manifest("ResourceSlice", node_name, spec)
