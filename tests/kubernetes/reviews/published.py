"""A Quadrant that the proxy reaches: a Service, a pod that stands for it, endpoints."""

from __future__ import annotations

import socket
from typing import Any

from laboratory.local_kubernetes.client import ApiClient
from tests.kubernetes.driver.harness import pod

Json = dict[str, Any]
NAMESPACE = "quadrant"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/coordinator"
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/quadrant"


def own_address() -> str:
    """An address of this machine that is no loopback: no endpoint may be one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


async def publish(cluster: ApiClient, address: str, port: int, *, port_name: str = "https") -> None:
    """The proxy goes to addresses of pods alone, so that there is one which nobody schedules."""
    metadata = {"name": "quadrant", "namespace": NAMESPACE}
    ports = [{"name": port_name, "port": 443, "targetPort": port}]
    await cluster.post(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        code=None,
    )
    stand_in = pod("coordinator", scheduler="nobody")
    stand_in["metadata"]["namespace"] = NAMESPACE
    await cluster.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}},
        stand_in,
    )
    status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
    await cluster.patch(f"{POD}/status", {"status": status})
    await endpoints(cluster, address, port, port_name=port_name)


async def endpoints(
    cluster: ApiClient, address: str, port: int, *, port_name: str = "https"
) -> None:
    labels = {"kubernetes.io/service-name": "quadrant"}
    target = {"kind": "Pod", "namespace": NAMESPACE, "name": "coordinator"}
    await cluster.create(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "quadrant", "namespace": NAMESPACE, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "targetRef": target}],
            "ports": [{"name": port_name, "port": port}],
        }
    )
