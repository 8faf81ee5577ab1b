"""Demands of generated jobs other than cores and GPUs, and the objects they need.

Each ``ask_*`` changes a pod template in place; the function next to it creates the objects. Used by
seeded runs and by chaos runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from laboratory.workloads.manifests import manifest

Item = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"

_DRIVER = "gpu.example.com"
_DEVICE_CLASS = "gpu"
_TEMPLATE = "one-gpu"
_STORAGE = "local"

# --- host ports ---------------------------------------------------------------------------------


def ask_ports(template: Item, ports: Iterable[int]) -> None:
    """Request host ports: no two such pods run on one node."""
    listed = [{"containerPort": port, "hostPort": port} for port in sorted(ports)]
    template["spec"]["containers"][0]["ports"] = listed


# --- apart from each other ----------------------------------------------------------------------


def ask_own_nodes(template: Item, name: str) -> None:
    """Anti-affinity between pods of this job alone: no two on one node."""
    metadata, spec = template["metadata"], template["spec"]
    metadata["labels"] = {**metadata.get("labels", {}), "own": name}
    term = {"labelSelector": {"matchLabels": {"own": name}}, "topologyKey": HOSTNAME}
    affinity = spec.get("affinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [*affinity.get("podAntiAffinity", {}).get(required, []), term]
    spec["affinity"] = {**affinity, "podAntiAffinity": {required: terms}}


# --- devices ------------------------------------------------------------------------------------


def ask_device(template: Item) -> None:
    """One device per pod, by a claim of its own; see :func:`claim_template`."""
    template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": _TEMPLATE}]


def claim_template(namespace: str) -> Item:
    """For pods of one namespace."""
    return manifest("ResourceClaimTemplate", _TEMPLATE, {"spec": one_device()}, namespace=namespace)


def one_device() -> Item:
    """The ``spec`` of a claim of one of :func:`devices`."""
    request = {"name": "gpu", "exactly": {"deviceClassName": _DEVICE_CLASS, "count": 1}}
    return {"devices": {"requests": [request]}}


def devices(nodes: Iterable[str], *, each: int) -> list[Item]:
    """``each`` devices per node, and their class."""
    of_driver = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    objects: list[Item] = [manifest("DeviceClass", _DEVICE_CLASS, {"selectors": [of_driver]})]
    for node in nodes:
        spec = {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(each)],
        }
        objects.append(manifest("ResourceSlice", node, spec))
    return objects


# --- volumes ------------------------------------------------------------------------------------


def ask_volume(template: Item, claim: str) -> None:
    """See :func:`volume_claim`."""
    source = {"claimName": claim}
    template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]


def storage_class(provisioner: str = "kubernetes.io/no-provisioner") -> Item:
    """A storage class that binds a claim's volume where its pod is placed."""
    return manifest(
        "StorageClass",
        _STORAGE,
        provisioner=provisioner,
        volumeBindingMode="WaitForFirstConsumer",
    )


def disk(name: str, node: str) -> Item:
    """A volume that is local to one node."""
    on_node = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return manifest(
        "PersistentVolume",
        name,
        {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _STORAGE,
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
        status={"phase": "Available"},
    )


def volume_claim(name: str, namespace: str) -> Item:
    return manifest(
        "PersistentVolumeClaim",
        name,
        {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": _STORAGE,
        },
        namespace=namespace,
    )
