"""Deletion of Kubernetes' own PodGroups on the simulated cluster: after their pods have ended."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from coordinator.cluster.simulated.cluster import LocalCluster
from laboratory.local_kubernetes.client import ApiClient
from tests.end_to_end.one_process.harness import running
from tests.native_groups.walks import GROUPS, PODS, GroupCluster, group, member, members, until


async def until_gone(cluster: GroupCluster, name: str) -> None:
    await cluster.api.until(f"{GROUPS}/{name}", lambda answer: answer.get("code") == 404)


async def delete_pod(cluster: GroupCluster, name: str) -> None:
    await cluster.api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


async def test_a_deleted_group_stays_until_its_pods_have_ended(
    redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir, grace=0.05) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await cluster.nodes(8)
        await cluster.groups(group("g", 2), group("empty", 2))
        await cluster.api.delete(f"{GROUPS}/empty")
        await until_gone(cluster, "empty")
        ends = member("ends", "g")
        ends["metadata"]["annotations"] = {"quadrant.dev/duration": "1"}
        await cluster.pods(*members("g", 2), ends)
        await cluster.until_bound("g-0", "g-1", "ends")
        await cluster.api.delete(f"{GROUPS}/g")
        deleted = (await cluster.api.get(f"{GROUPS}/g"))["metadata"]
        assert deleted["deletionTimestamp"]
        assert deleted["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        await cluster.api.post(GROUPS, group("g", 1), code=409)
        await cluster.pods(member("late", "g"))
        await cluster.until_bound("g-0", "g-1", "late")

        async def has_ended() -> bool:
            pod = await cluster.api.get(f"{PODS}/ends")
            return bool(pod["status"]["phase"] == "Succeeded")

        await until(has_ended)
        for name in ("g-0", "g-1"):
            await delete_pod(cluster, name)
        await cluster.settle()
        assert "deletionTimestamp" in (await cluster.api.get(f"{GROUPS}/g"))["metadata"]
        await delete_pod(cluster, "late")
        await until_gone(cluster, "g")
        assert await has_ended(), "a pod that has ended outlives its group"
        await cluster.groups(group("g", 2))
        await cluster.pods(*members("g", 2))
        await cluster.until_bound("g-0", "g-1")
        await cluster.until_condition("g", "True")


async def test_the_next_leader_ends_the_deletion_of_a_group(
    redis_url: str, short_dir: Path
) -> None:
    kubelets = LocalCluster()
    async with (
        running(redis_url, short_dir, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await cluster.nodes(8)
        await cluster.groups(group("g", 1))
        await cluster.pods(member("g-0", "g"))
        await cluster.until_bound("g-0")
        await cluster.api.delete(f"{GROUPS}/g")
    async with (
        running(redis_url, short_dir, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        assert "deletionTimestamp" in (await cluster.api.get(f"{GROUPS}/g"))["metadata"]
        await delete_pod(cluster, "g-0")
        await until_gone(cluster, "g")
