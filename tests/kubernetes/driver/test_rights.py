"""The rights that ``k8s/`` gives are what a full run asks the API server for: no more, no less."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.service.observed import statuses
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.manifests.kai.groups import LAST_START
from tests.builders.objects import kai_group, kai_queue, priority_class, queue
from tests.conftest import ROOT, flush
from tests.deploy.rendered import render, rights_of_ours
from tests.kubernetes.access import grant, token_of, user
from tests.kubernetes.audit import requests_of
from tests.kubernetes.definitions import install_kai, install_volcano
from tests.kubernetes.driver import test_devices as devices
from tests.kubernetes.driver import test_volumes as volumes
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.driver.test_evictions import PODS, POLICY, of_class
from tests.native_groups.tree_walks import composite, leaf, put_composites, until_composite
from tests.native_groups.walks import GroupCluster, member
from tests.native_groups.walks import group as native_group

pytestmark = pytest.mark.timeout(240)

Right = tuple[str, str, str]
"""Verb, group, resource with its sub resource."""
NAME = "as-deployed"
KAI_POLICY = ROOT / "examples/policies/kai-default.yaml"
NOT_IN_THIS_RUN: set[Right] = {  # or by chance
    # Where a PodGroup's definition has a status sub resource; Volcano's own has none.
    ("patch", "scheduling.volcano.sh", "podgroups/status"),
    # Where the answer to a binding is lost, or the pod's version moved: test_faults has it.
    ("get", "", "pods"),
    # Asked by the server itself, for whoever writes a claim's status (from 1.36 on).
    ("patch", "resource.k8s.io", "resourceclaims/binding"),
    # Where a claim changes while its devices are chosen: test_prebind_faults has it.
    ("get", "resource.k8s.io", "resourceclaims"),
}


def rights_of(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def test_a_full_run_asks_for_each_of_its_rights_and_for_nothing_else(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statuses, "LOOK_AGAIN_SECONDS", 0.5)
    rules = rights_of_ours(render("kubernetes"))
    await grant(cluster, user(NAME), rules)
    await install_volcano(cluster)
    await install_kai(cluster)
    await cluster.create(
        node("n1", labels={volumes.HOSTNAME: "n1"}),
        priority_class("low", 10),
        priority_class("high", 1000),
    )
    await cluster.create(queue("default", weight=1))
    kubeconfig = control_plane.user(NAME).kubeconfig
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    async with followed(
        redis_url, short_dir, cluster, kubeconfig, policy=policy, access_reviews=True
    ) as quadrant:
        await _let_in(quadrant, cluster)
        await _bind_with_claims(quadrant, cluster)
        await _bind_and_evict(quadrant, cluster)
        await _tell(cluster, lambda: ("patch", "", "events") in asked_by(control_plane))
        await _place_a_native_group(cluster)
    async with followed(
        kai_ledger(redis_url), short_dir, cluster, kubeconfig, policy=KAI_POLICY
    ) as quadrant:
        await until(lambda: quadrant.observed.cluster.mirror.complete)
        await _tell_of_kai(cluster)
    refused = [r for r in requests_of(control_plane.audit_log, NAME) if r.code == 403]
    assert refused == []
    assert asked_by(control_plane) - NOT_IN_THIS_RUN == rights_of(rules) - NOT_IN_THIS_RUN


def asked_by(control_plane: ControlPlane) -> set[Right]:
    """Rights that the audit log shows in use; discovery is everybody's."""
    requests = requests_of(control_plane.audit_log, NAME)
    return {(r.verb, r.group, r.resource) for r in requests if not r.resource.startswith("/")}


def kai_ledger(url: str) -> str:
    """An empty ledger: a dialect is changed with a new one."""
    flush(url)
    return url


async def _let_in(quadrant: Followed, cluster: ApiClient) -> None:
    """Somebody with a token of the cluster, who may nothing."""
    token = await token_of(cluster, "default", "somebody", audience="quadrant")
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{quadrant.service.url}/metrics") as answer,
    ):
        assert answer.status == 403


async def _bind_and_evict(quadrant: Followed, cluster: ApiClient) -> None:
    low = [f"low-{i}" for i in range(4)]
    await cluster.create(*(of_class(name, "low") for name in low))
    await quadrant.until_bound(*low)
    for name in low:
        await cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    await until(lambda: quadrant.states()["running"] == 4)
    await cluster.create(of_class("urgent", "high"))
    await until(lambda: _leaves(quadrant))


async def _bind_with_claims(quadrant: Followed, cluster: ApiClient) -> None:
    """A volume that is made, one that is there, and a device; they leave again."""
    local, provisioned_class = (
        volumes.storage_class("local"),
        volumes.storage_class("made", "disks.example.com"),
    )
    disk = volumes.volume("disk", "local", "n1")
    await cluster.create(local, provisioned_class, disk, volumes.claim("there", "local"))
    await cluster.patch(f"{volumes.VOLUMES}/disk/status", {"status": {"phase": "Available"}})
    await cluster.create(volumes.claim("new", "made"), volumes.using("reader", "there", "new"))
    await volumes.provision(cluster, "new", await volumes.selected(cluster, "new"))
    await volumes.reserved(cluster, "disk")
    await volumes.bind(cluster, "there", "disk")
    await cluster.create(devices.device_class("gpu"), devices.slice_of("n1", 1))
    await cluster.create(devices.claim("gpu"), devices.using("trainer", "gpu"))
    for name in await quadrant.until_bound("reader", "trainer"):
        await cluster.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


async def _tell(cluster: ApiClient, changed: Callable[[], bool]) -> None:
    """A gang that waits for room, and for less of it with each node: its event is changed."""
    await cluster.create(pod_group("wide", 9), *(pod(f"wide-{i}", group="wide") for i in range(9)))
    for i in range(6):
        await cluster.create(node(f"small-{i}", cpu=1))
        await asyncio.sleep(1.0)
    await until(changed)


async def _place_a_native_group(cluster: ApiClient) -> None:
    """A gang of Kubernetes' own is told that it was placed, and a tree that it is not."""
    groups = GroupCluster(cluster)
    await groups.groups(native_group("native", 1))
    await groups.pods(member("native-0", "native", cpu=0.01))
    await groups.until_condition("native", "True")
    await put_composites(groups, composite("tree", 1))
    await groups.groups(leaf("leaf", "tree", 1))
    await groups.pods(member("leaf-0", "leaf", cpu=0.01))
    await until_composite(groups, "tree", "False")


async def _tell_of_kai(cluster: ApiClient) -> None:
    """A gang that no node has room for says so in KAI's words, until there is room."""
    gang = kai_group("gang", "team-a", minMember=1) | {
        "metadata": {"name": "gang", "namespace": "default"}
    }
    await cluster.create(kai_queue("all"), kai_queue("team-a", "all"), gang)
    large = pod("large", cpu=64, annotations={"pod-group-name": "gang"})
    await cluster.create(large)
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/gang"

    async def conditions() -> list[dict[str, Any]] | None:
        status = (await cluster.get(path)).get("status") or {}
        return status.get("schedulingConditions") or None

    [condition] = await until(conditions)
    assert (condition["type"], condition["status"]) == ("UnschedulableOnNodePool", "True")
    await cluster.create(node("huge", cpu=128))
    await until(lambda: _nothing(conditions))
    # When it started is on it, and stays there whoever changes it.
    started = await until(lambda: _stamp(cluster, path))
    await cluster.patch(path, {"metadata": {"labels": {"told": "later"}}})
    await asyncio.sleep(1.0)
    assert await _stamp(cluster, path) == started


async def _stamp(cluster: ApiClient, path: str) -> str | None:
    annotations = (await cluster.get(path))["metadata"].get("annotations") or {}
    return annotations.get(LAST_START)


async def _nothing(look: Callable[[], Awaitable[object]]) -> bool:
    return await look() is None


async def _leaves(quadrant: Followed) -> bool:
    pods = (await quadrant.pods()).values()
    return any(pod["metadata"].get("deletionTimestamp") for pod in pods)
