"""Trees of Kubernetes' own groups on the simulated cluster, with one shard and with four."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from laboratory.local_kubernetes.client import ApiClient
from tests.builders.objects import kai_queue
from tests.conftest import ROOT
from tests.end_to_end.one_process.harness import running, submit
from tests.native_groups.tree_walks import (
    COMPOSITES,
    TREE_WALKS,
    composite,
    leaf,
    put_composites,
    until_composite,
)
from tests.native_groups.walks import GROUPS, PODS, GroupCluster, member, members, until

KAI = ROOT / "examples/policies/kai-default.yaml"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("walk", TREE_WALKS, ids=lambda walk: walk.__name__)
async def test_trees_under_kais_policy(
    walk: Callable[[GroupCluster], Awaitable[None]], shards: int, redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir, shards=shards, policy=KAI) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await submit(service, kai_queue("all"), kai_queue("default", "all"))
        await walk(GroupCluster(ApiClient(session)))


async def test_under_volcanos_policy_a_tree_is_refused_with_the_reason(
    redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await cluster.nodes(8)
        await put_composites(cluster, composite("r", 1))
        await cluster.groups(leaf("x", "r", 1))
        await cluster.pods(*members("x", 1))
        text = "CompositePodGroups are placed under KAI's policies alone"
        assert (await until_composite(cluster, "r", "False", text))["reason"] == "SchedulerError"
        await cluster.until_pod_says("x-0", text)
        assert await cluster.bound() == set()


async def test_the_next_leader_knows_the_tree_and_goes_on_with_it(
    redis_url: str, short_dir: Path
) -> None:
    kubelets = LocalCluster()
    async with (
        running(redis_url, short_dir, policy=KAI, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await submit(service, kai_queue("all"), kai_queue("default", "all"))
        await cluster.nodes(8)
        await put_composites(cluster, composite("r", 2))
        await cluster.groups(leaf("x", "r", 2), leaf("y", "r", 1))
        await cluster.pods(*members("x", 2), *members("y", 1))
        await cluster.until_bound("x-0", "x-1", "y-0")
    async with (
        running(redis_url, short_dir, policy=KAI, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await until_composite(cluster, "r", "True")
        await cluster.pods(member("y-1", "y"))
        await cluster.groups(leaf("z", "r", 1))
        await cluster.pods(*members("z", 1))
        await cluster.until_bound("y-1", "z-0")


async def test_a_tree_is_gone_with_its_groups_and_pods(redis_url: str, short_dir: Path) -> None:
    async with (
        running(redis_url, short_dir, policy=KAI) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await submit(service, kai_queue("all"), kai_queue("default", "all"))
        await cluster.nodes(8)
        await put_composites(cluster, composite("r", 1), composite("a", 1, "r"))
        await cluster.groups(leaf("x", "a", 1))
        await cluster.pods(*members("x", 1))
        await cluster.until_bound("x-0")
        await cluster.api.delete(f"{GROUPS}/x")
        await cluster.api.delete(f"{COMPOSITES}/r")
        await cluster.api.delete(f"{COMPOSITES}/a")
        await cluster.api.delete(f"{PODS}/x-0", gracePeriodSeconds="0")

        async def are_gone() -> bool:
            registry = service.service.intake.registry
            known = registry.jobs, registry.groups, registry.tree_nodes, registry.tree_children
            return not any(known) and not any("kaipodgroup/" in key for key in registry.objects)

        await until(are_gone)
