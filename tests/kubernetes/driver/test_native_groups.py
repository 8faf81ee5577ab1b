"""Kubernetes' own PodGroups on a real API server, with one shard and with four."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis.asyncio import Redis

from coordinator.cli.admin import doctor_checks
from coordinator.cli.admin.doctor import DoctorPlace
from laboratory.local_kubernetes.binaries import Binaries
from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from shared.settings.settings import load_settings
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, pod_group, until
from tests.kubernetes.faults.effects import Answer
from tests.kubernetes.faults.proxy import FaultyProxy
from tests.native_groups.eviction_walks import (
    EVICTION_WALKS,
    PREEMPTING,
    a_budget_keeps_all_of_a_group_and_the_surplus_of_another_goes,
    fill,
    nominations_are_cleared_when_a_gang_cannot_start_any_more,
    one_member_that_may_not_be_evicted_keeps_all_of_a_group,
    urgent,
)
from tests.native_groups.minimum_walks import (
    MINIMUM_WALKS,
    a_minimum_lowered_while_it_runs_makes_the_surplus_victims,
)
from tests.native_groups.topology_walks import TOPOLOGY_WALKS
from tests.native_groups.walks import (
    GROUPS,
    PODS,
    SECOND_SCHEDULER,
    VOLCANO_GROUPS,
    WALKS,
    GroupCluster,
    group,
    member,
    members,
)

pytestmark = pytest.mark.timeout(180)

Walk = Callable[[GroupCluster], Awaitable[None]]
_WALKS = [*WALKS, *MINIMUM_WALKS, *TOPOLOGY_WALKS]


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("walk", _WALKS, ids=lambda walk: walk.__name__)
async def test_on_a_real_api_server(
    walk: Walk,
    shards: int,
    cluster: ApiClient,
    control_plane: ControlPlane,
    *,
    redis_url: str,
    short_dir: Path,
) -> None:
    await install_volcano(cluster)
    kubeconfig = control_plane.admin.kubeconfig
    names = f"quadrant,{SECOND_SCHEDULER}"
    async with followed(
        redis_url, short_dir, cluster, kubeconfig, shards=shards, scheduler_names=names
    ):
        await walk(GroupCluster(cluster))


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    "walk",
    [
        *EVICTION_WALKS,
        one_member_that_may_not_be_evicted_keeps_all_of_a_group,
        a_budget_keeps_all_of_a_group_and_the_surplus_of_another_goes,
        a_minimum_lowered_while_it_runs_makes_the_surplus_victims,
        nominations_are_cleared_when_a_gang_cannot_start_any_more,
    ],
    ids=lambda walk: walk.__name__,
)
async def test_evictions_on_a_real_api_server(
    walk: Walk,
    shards: int,
    cluster: ApiClient,
    control_plane: ControlPlane,
    *,
    redis_url: str,
    short_dir: Path,
) -> None:
    await install_volcano(cluster)
    policy = short_dir / "policy.yaml"
    policy.write_text(PREEMPTING)
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shards=shards, policy=policy):
        await walk(GroupCluster(cluster))


@pytest.mark.parametrize("shards", [1, 4])
async def test_a_failed_member_is_replaced_although_another_has_succeeded(
    shards: int, cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    """kube-scheduler 1.37 counts no pod that has ended, and lets the new one wait for ever."""
    await install_volcano(cluster)
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shards=shards):
        gang = GroupCluster(cluster)
        await gang.nodes(4)
        await gang.groups(group("g", 2))
        await gang.pods(*members("g", 2))
        await gang.until_bound("g-0", "g-1")
        for name, phase in (("g-0", "Succeeded"), ("g-1", "Failed")):
            await cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})
        await gang.pods(member("again", "g"))
        await gang.until_bound("again")


@pytest.mark.parametrize("shards", [1, 4])
async def test_the_next_leader_writes_the_condition_of_a_group_that_was_bound_before(
    shards: int,
    cluster: ApiClient,
    proxied: Identity,
    proxy: FaultyProxy,
    *,
    redis_url: str,
    short_dir: Path,
) -> None:
    gang, kubeconfig = GroupCluster(cluster), proxied.kubeconfig
    fault = proxy.inject(Answer(503), method="PATCH", part="podgroups/g/status", times=1000)
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig, shards=shards):
        await gang.nodes(4)
        await gang.groups(group("g", 2))
        await gang.pods(*members("g", 2))
        await gang.until_bound("g-0", "g-1")
        await proxy.until_met(fault)
    assert ((await gang.condition("g")) or {}).get("status") != "True"
    proxy.clear()
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig, shards=shards):
        placed = await gang.until_condition("g", "True")
    assert placed["reason"] == "Scheduled"


@pytest.mark.parametrize("shards", [1, 4])
async def test_nobody_else_has_to_leave_while_the_first_victims_do(
    shards: int, cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_volcano(cluster)
    policy = short_dir / "policy.yaml"
    policy.write_text(PREEMPTING)
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shards=shards, policy=policy):
        gang = GroupCluster(cluster)
        await fill(gang, 1)

        async def leaving() -> list[str]:
            items = (await cluster.get(PODS))["items"]
            return [p["metadata"]["name"] for p in items if "deletionTimestamp" in p["metadata"]]

        await gang.groups(group("vips", 1, priorityClassName="urgent"))
        await gang.pods(urgent("vip-0", "vips"))

        async def both() -> list[str] | None:
            names = await leaving()
            return names if len(names) == 2 else None

        first = await until(both)
        for _ in range(3):
            await gang.settle()
        assert await leaving() == first
        await gang.until_bound_after_evictions("vip-0")
        assert len(await gang.bound()) == 3


async def native_groups_of(quadrant: Followed) -> dict[str, Any]:
    """The check of ``/health`` about Kubernetes' own groups."""
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"{quadrant.service.url}/health")
        checks = {check["name"]: check for check in (await answer.json())["checks"]}
    result: dict[str, Any] = checks["native_groups"]
    return result


async def test_health_and_doctor_name_the_kinds_that_the_server_has(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        settings = load_settings(listen_port=int(quadrant.service.url.rpartition(":")[2]))
        place = DoctorPlace(settings)

        async def doctor() -> str | None:
            text = await asyncio.to_thread(doctor_checks.service, place)
            return text if "native_groups" in text else None

        assert "CompositePodGroup v1alpha3" in await until(doctor)
        check = await native_groups_of(quadrant)
        assert check["healthy"]
        assert "PodGroup v1beta1" in check["message"]


async def test_pods_of_a_server_without_groups_are_placed_one_by_one(
    kubernetes_binaries: Binaries, redis_url: str, short_dir: Path
) -> None:
    """All gates are off, as 1.37 has them: the server drops the field that names a group."""
    folder = short_dir / "plane"
    folder.mkdir()
    plane = ControlPlane(folder, kubernetes_binaries)
    try:
        plane.start()
        async with (
            client_of(plane.admin) as cluster,
            followed(redis_url, short_dir, cluster, plane.admin.kubeconfig) as quadrant,
        ):
            await GroupCluster(cluster).nodes(1)
            await cluster.post(PODS, member("g-0", "g"))
            await quadrant.until_bound("g-0")
            assert "schedulingGroup" not in (await quadrant.pods())["g-0"]["spec"]

            async def asked() -> bool:  # the server is, apart from the pods that come meanwhile
                check = await native_groups_of(quadrant)
                return bool(check["healthy"] and "PodGroup not served" in check["message"])

            await until(asked)
    finally:
        plane.stop()


async def test_a_refused_group_is_not_mixed_up_with_one_of_its_name_of_another_api(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_volcano(cluster)
    names = [f"g{i}" for i in range(10)]
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        ledger = Redis.from_url(redis_url)
        # What comes while the ledger answers nobody is one delta afterwards.
        await ledger.client_pause(1000)
        await cluster.post(VOLCANO_GROUPS, pod_group("first", 1))
        for name in names:
            await cluster.post(GROUPS, group(name, 1, resourceClaims=_CLAIMS))
            await cluster.post(VOLCANO_GROUPS, pod_group(name, 1))
        await ledger.aclose()

        async def refused() -> list[str] | None:
            listed = await cluster.get("/api/v1/namespaces/default/events")
            versions = [event["involvedObject"]["apiVersion"] for event in listed["items"]]
            return versions if len(versions) >= len(names) else None

        versions = await until(refused)
        assert set(versions) == {"scheduling.k8s.io/v1beta1"}
        assert {state.job.kind for state in quadrant.jobs()} == {"PodGroup"}


_CLAIMS = [{"name": "gpu", "resourceClaimName": "gpu"}]
