"""Kubernetes' own PodGroups on the simulated cluster, with one shard and with four."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.controllers import job_loop
from coordinator.intake.admission.result import Admission
from laboratory.local_kubernetes.client import ApiClient
from tests.builders.objects import kai_queue
from tests.conftest import ROOT
from tests.end_to_end.one_process.harness import running, submit
from tests.native_groups.eviction_walks import (
    EVICTION_WALKS,
    PREEMPTING,
    a_budget_keeps_all_of_a_group_and_the_surplus_of_another_goes,
    nominations_are_cleared_when_a_gang_cannot_start_any_more,
    one_member_that_may_not_be_evicted_keeps_all_of_a_group,
)
from tests.native_groups.minimum_walks import (
    MINIMUM_WALKS,
    a_minimum_lowered_while_it_runs_makes_the_surplus_victims,
)
from tests.native_groups.topology_walks import TOPOLOGY_WALKS
from tests.native_groups.walks import (
    WALKS,
    GroupCluster,
    group,
    member,
    members,
)

Walk = Callable[[GroupCluster], Awaitable[None]]


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("walk", [*WALKS, *MINIMUM_WALKS], ids=lambda walk: walk.__name__)
async def test_on_the_simulated_cluster(
    walk: Walk, shards: int, redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir, shards=shards) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await walk(GroupCluster(ApiClient(session)))


@pytest.mark.parametrize("shards", [1, 4])
async def test_the_next_leader_writes_the_condition_of_a_group_that_was_bound_before(
    shards: int, redis_url: str, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelets = LocalCluster()
    with monkeypatch.context() as patch:
        # It ends after the binds were recorded, and before the condition is.
        patch.setattr(job_loop, "keep_placed", lambda intake, placed, now: Admission())
        async with (
            running(redis_url, short_dir, shards=shards, kubelets=kubelets) as service,
            aiohttp.ClientSession(service.url) as session,
        ):
            cluster = GroupCluster(ApiClient(session))
            await cluster.nodes(4)
            await cluster.groups(group("g", 2))
            await cluster.pods(*members("g", 2))
            await cluster.until_bound("g-0", "g-1")
            await cluster.settle()
            assert await cluster.condition("g") is None
    async with (
        running(redis_url, short_dir, shards=shards, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        placed = await GroupCluster(ApiClient(session)).until_condition("g", "True")
        assert placed["reason"] == "Scheduled"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    "walk",
    [
        *EVICTION_WALKS,
        one_member_that_may_not_be_evicted_keeps_all_of_a_group,
        a_budget_keeps_all_of_a_group_and_the_surplus_of_another_goes,
        a_minimum_lowered_while_it_runs_makes_the_surplus_victims,
    ],
    ids=lambda walk: walk.__name__,
)
async def test_evictions_under_volcanos_policy(
    walk: Walk, shards: int, redis_url: str, short_dir: Path
) -> None:
    policy = short_dir / "policy.yaml"
    policy.write_text(PREEMPTING)
    async with (
        running(redis_url, short_dir, shards=shards, policy=policy, grace=0.05) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await walk(GroupCluster(ApiClient(session)))


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("walk", EVICTION_WALKS, ids=lambda walk: walk.__name__)
async def test_evictions_under_kais_policy(
    walk: Walk, shards: int, redis_url: str, short_dir: Path
) -> None:
    policy = ROOT / "examples/policies/kai-default.yaml"
    async with (
        running(redis_url, short_dir, shards=shards, policy=policy, grace=0.05) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await submit(service, kai_queue("all"), kai_queue("default", "all"))
        await walk(GroupCluster(ApiClient(session)))


@pytest.mark.parametrize("shards", [1, 4])
async def test_a_gang_under_kais_policy_starts_whole_in_the_queue_of_its_label(
    shards: int, redis_url: str, short_dir: Path
) -> None:
    policy = ROOT / "examples/policies/kai-default.yaml"
    async with (
        running(redis_url, short_dir, shards=shards, policy=policy) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await submit(service, kai_queue("all"), kai_queue("team", "all"))
        await cluster.nodes(4)
        labelled = group("g", 3)
        labelled["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
        await cluster.pods(*members("g", 2))
        await cluster.groups(labelled)
        await cluster.until_condition("g", "False")
        assert await cluster.bound() == set()
        await cluster.pods(member("g-2", "g"))
        await cluster.until_bound("g-0", "g-1", "g-2")
        await cluster.until_condition("g", "True")
        (job,) = service.service.core.order.jobs.values()
        assert job.job.queue == "team"


@pytest.mark.parametrize(("shards", "mode"), [(1, "soft"), (3, "soft"), (3, "none")])
@pytest.mark.parametrize("walk", TOPOLOGY_WALKS, ids=lambda walk: walk.__name__)
async def test_topology_on_the_simulated_cluster(
    walk: Walk, shards: int, mode: str, redis_url: str, short_dir: Path
) -> None:
    async with (
        running(redis_url, short_dir, shards=shards, mode=mode) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await walk(GroupCluster(ApiClient(session)))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("walk", TOPOLOGY_WALKS[:-1], ids=lambda walk: walk.__name__)
async def test_topology_under_kais_policy(
    walk: Walk, shards: int, redis_url: str, short_dir: Path
) -> None:
    policy = ROOT / "examples/policies/kai-default.yaml"
    async with (
        running(redis_url, short_dir, shards=shards, policy=policy) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await submit(service, kai_queue("all"), kai_queue("default", "all"))
        await walk(GroupCluster(ApiClient(session)))


async def test_nominations_are_shown_and_cleared(redis_url: str, short_dir: Path) -> None:
    policy = short_dir / "policy.yaml"
    policy.write_text(PREEMPTING)
    async with (
        running(redis_url, short_dir, policy=policy, grace=600.0) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        cluster = GroupCluster(ApiClient(session))
        await nominations_are_cleared_when_a_gang_cannot_start_any_more(cluster)
