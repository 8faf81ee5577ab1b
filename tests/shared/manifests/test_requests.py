"""Amounts that a pod takes of its node: pod-level requests, resizes, and what others write."""

from __future__ import annotations

from typing import Any

import pytest

from shared.manifests.kubernetes.requests import MORE_THAN_A_NODE, usage

Json = dict[str, Any]


def container(name: str = "c", **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}}


def status(name: str = "c", *, allocated: str = "", actual: str = "") -> Json:
    container_status: Json = {"name": name}
    if allocated:
        container_status["allocatedResources"] = {"cpu": allocated}
    if actual:
        container_status["resources"] = {"requests": {"cpu": actual}}
    return container_status


def cpu(spec: Json, reported: Json | None = None) -> float:
    """Cores that the pod takes."""
    return dict(usage(spec, reported).amounts)["cpu"] / 1000


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("requested", "allocated", "actual", "beside", "cores"),
    [
        ("2", "", "", {}, 2),
        ("2", "2", "2", {}, 2),
        ("2", "6", "6", {}, 6),  # shrinking, not carried out
        ("2", "2", "6", {}, 6),  # shrinking, allocated
        ("6", "2", "2", {}, 6),  # growing
        ("6", "2", "2", DEFERRED, 6),
        ("16", "2", "2", INFEASIBLE, 2),
        ("16", "2", "3", INFEASIBLE, 3),
        ("16", "2", "2", {"resize": "Infeasible"}, 2),  # before 1.33
        ("16", "", "", INFEASIBLE, 16),  # nothing is known but the spec
        ("16", "", "2", INFEASIBLE, 2),
    ],
)
def test_the_largest_of_asked_allocated_and_actual_counts(
    requested: str, allocated: str, actual: str, beside: Json, cores: float
) -> None:
    reported = {"containerStatuses": [status(allocated=allocated, actual=actual)], **beside}
    assert cpu({"containers": [container(cpu=requested)]}, reported) == cores


def test_each_resource_is_compared_by_itself() -> None:
    status = {"name": "c", "allocatedResources": {"cpu": "1", "memory": "8"}}
    used = usage({"containers": [container(cpu="4", memory="2")]}, {"containerStatuses": [status]})
    assert used.amounts == (("cpu", 4000), ("memory", 8))


def test_an_infeasible_resize_keeps_the_amount_of_unresizable_resources() -> None:
    spec = {"containers": [container(**{"cpu": "16", "example.com/card": "2"})]}
    reported = {"containerStatuses": [status(allocated="2")], **INFEASIBLE}
    assert usage(spec, reported).amounts == (("cpu", 2000), ("example.com/card", 2000))


def test_a_sidecar_resizes_like_a_container_and_an_init_step_is_a_maximum() -> None:
    sidecar = container("s", cpu="1") | {"restartPolicy": "Always"}
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [sidecar, container("i", cpu="2")],
    }
    assert cpu(spec) == 3
    assert cpu(spec, {"initContainerStatuses": [status("s", allocated="4")]}) == 6


@pytest.mark.parametrize(
    ("whole", "cores"),
    [
        ({"requests": {"cpu": "6"}}, 6.5),
        ({"requests": {"memory": "1Gi"}}, 2.5),
        ({"limits": {"cpu": "6"}}, 2.5),  # the containers ask for it
        ({"requests": {"example.com/card": "6"}}, 2.5),
    ],
)
def test_the_pod_as_a_whole_counts_in_place_of_its_containers(whole: Json, cores: float) -> None:
    containers = [container("a", cpu="1"), container("b", cpu="1")]
    spec = {"containers": containers, "resources": whole, "overhead": {"cpu": "500m"}}
    assert cpu(spec) == cores


def test_a_limit_of_the_pod_is_its_request_where_no_container_asks() -> None:
    assert cpu({"containers": [container()], "resources": {"limits": {"cpu": "3"}}}) == 3


@pytest.mark.parametrize(
    ("reported", "cores"),
    [
        ({"allocatedResources": {"cpu": "7"}}, 7),
        ({"resources": {"requests": {"cpu": "8"}}}, 8),
        ({"allocatedResources": {"cpu": "2"}, **INFEASIBLE}, 2),
    ],
)
def test_a_pod_is_resized_as_a_whole(reported: Json, cores: float) -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "6"}}}
    assert cpu(spec, reported) == cores


def test_node_resources_of_claimed_devices_count_as_usage() -> None:
    mapping = [{"name": "memory", "quantity": "2"}]
    more = [{"name": "memory", "perPod": "3", "perContainer": "5"}]
    claim = {"containers": ["a", "b"], "mapping": mapping, "overhead": more}
    reported = {"nodeAllocatableResourceClaimStatuses": [claim]}
    assert usage({"containers": [container()]}, reported).amounts == (("memory", 15),)


def test_host_ports_are_taken_however_many() -> None:
    ports = [{"containerPort": n, "hostPort": n} for n in range(1, 50)]
    used = usage({"containers": [container() | {"ports": ports}]})
    assert len(used.ports) == 49 and "port/TCP/49" in used.ports


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [container(cpu="odd")]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": [container(cpu="-1")]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": [container(cpu="9E")]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": "odd"}, "spec.containers"),
        ({"containers": [{"resources": {"requests": 3}}]}, "spec.containers[0].resources.requests"),
        ({"containers": [], "overhead": [1]}, "spec.overhead"),
        ({}, "spec.containers"),
    ],
)
def test_an_unreadable_amount_counts_as_more_than_a_node(spec: Json, path: str) -> None:
    used = usage(spec)
    assert used.unread == (path,)
    assert dict(used.amounts)["cpu"] == MORE_THAN_A_NODE
