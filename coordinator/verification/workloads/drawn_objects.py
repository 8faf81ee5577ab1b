"""Random objects in which every plugin has something to say: labels, taints and devices of nodes,
queues, topology, NUMA domains, volumes, claims, budgets, quotas.

Whoever asks for these things is in :mod:`coordinator.verification.workloads.drawn_demands`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from coordinator.verification.workloads.demands import HOSTNAME
from coordinator.verification.workloads.drawn_demands import APPS
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
    items += [_budget(draw, app) for app in APPS if draw.random() < 0.4]
    items += [_quota(draw)] if draw.random() < 0.3 else []
    return items


# --- marks of nodes, jobs and queues ------------------------------------------------------------


def node_marks(draw: Random) -> Json:
    """What a node has beside its cores: parts of its metadata, spec and allocatable."""
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
        members = [_exact("Node", name) for name in nodes[part::2]]
        domains += [_domain(f"rack-{part}", 1, members)] if members else []
    return [
        *domains,
        _domain("hall", 2, [_exact("HyperNode", obj["metadata"]["name"]) for obj in domains]),
    ]


def _exact(kind: str, name: str) -> Json:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def _domain(name: str, tier: int, members: list[Json]) -> Json:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": members},
    }


def _numa(draw: Random, name: str) -> Json:
    policy = draw.choice(["best-effort", "restricted", "single-numa-node"])
    free = draw.choice(["0-7", "0-3", "2-5"])
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": name},
        "spec": {
            "policies": {"TopologyManagerPolicy": policy, "CPUManagerPolicy": "static"},
            "numares": {"cpu": {"allocatable": free, "capacity": 8}},
            "cpuDetail": {str(cpu): {"numa": cpu // 4, "core": cpu} for cpu in range(8)},
        },
    }


def _budget(draw: Random, app: str) -> Json:
    limit: Json = draw.choice([{"minAvailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "ns"},
        "spec": {**limit, "selector": {"matchLabels": {"app": app}}},
    }


def _quota(draw: Random) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "most", "namespace": "ns"},
        "spec": {"hard": {"requests.cpu": str(draw.randint(2, 12))}},
        "status": {"hard": {"requests.cpu": "12"}, "used": {"requests.cpu": "0"}},
    }


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
        meta: Json = {"name": f"p{i}", "namespace": "ns"}
        spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        claim: Json = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
        if kind == "bound":
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            spec |= {"storageClassName": "local", "volumeName": f"v{i}"}
            objects.append(_volume(f"v{i}", draw.choice(nodes), claim=f"p{i}"))
            claim["status"] = {"phase": "Bound"}
        else:
            spec["storageClassName"] = kind
        objects.append({**claim, "spec": spec})
    objects += [_volume(f"free{i}", draw.choice(nodes)) for i in range(draw.randint(0, 2))]
    for name in nodes:
        if draw.random() < 0.2:
            count = {"count": draw.randint(0, 1)}
            driver = {"name": "disk.example.com", "nodeID": name, "allocatable": count}
            spec = {"drivers": [driver]}
            head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
            objects.append({**head, "metadata": {"name": name}, "spec": spec})
    return objects


def _class(name: str, provisioner: str, mode: str) -> Json:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**head, "provisioner": provisioner, "volumeBindingMode": mode}


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
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": "Bound" if claim else "Available"},
    }


def _device_objects(draw: Random, nodes: list[str]) -> list[Json]:
    head: Json = {"apiVersion": "resource.k8s.io/v1"}
    of_driver = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    objects: list[Json] = [
        {
            **head,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [of_driver]},
        },
        {
            **head,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "ns"},
            "spec": {"spec": _asked(draw)},
        },
    ]
    for i in range(2):
        meta = {"name": f"d{i}", "namespace": "ns"}
        objects.append({**head, "kind": "ResourceClaim", "metadata": meta, "spec": _asked(draw)})
    some = [name for name in nodes if draw.random() < 0.5]
    return objects + [_slice(draw, head, name, draw.randint(1, 2)) for name in some]


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


def _slice(draw: Random, head: Json, node_name: str, devices: int) -> Any:
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
    return {**head, "kind": "ResourceSlice", "metadata": {"name": node_name}, "spec": spec}
