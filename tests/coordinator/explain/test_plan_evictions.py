"""A plan says whom the policy would evict, and that is what then happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
import redis

from shared.ledger.redis.server import EmbeddedServer
from tests.coordinator.explain.cluster import (
    Item,
    asking,
    job,
    node,
    queue,
    send,
    settled,
)
from tests.coordinator.explain.random_clusters import at_rest
from tests.coordinator.explain.test_plan import one, planned
from tests.end_to_end.one_process.harness import Running, running

EVICTING = """
actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def redis_url(embedded_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        client.flushall()
    return embedded_server.url


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(EVICTING)
    return path


def important(value: int) -> Item:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"p{value}"},
        "value": value,
    }


def ranked(item: Item, value: int) -> Item:
    item["spec"]["priorityClassName"] = f"p{value}"
    for task in item["spec"]["tasks"]:
        task["template"]["spec"]["priorityClassName"] = f"p{value}"
    return item


async def nodes_of(service: Running) -> Counter[str]:
    """Job -> its pods with a node."""
    async with asking(service) as client, client.get(PODS) as answer:
        pods = (await answer.json())["items"]
    return Counter(
        pod["metadata"]["labels"]["volcano.sh/job-name"]
        for pod in pods
        if pod["spec"].get("nodeName")
    )


async def test_a_preemption_is_foreseen_and_happens(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await send(service, node("a", cpu="4"), important(10), important(20))
        await send(service, ranked(job("low", 4, minimum=1), 10))
        await settled(service, bound=4)
        high = ranked(job("high", 2, cpu="1"), 20)
        told = await planned(service, high)
        again = await planned(service, high)
        await send(service, high)
        await at_rest(service)
        runs = await nodes_of(service)
    assert told == again
    foretold = one(told)
    assert (foretold["verdict"], told["verdict"]) == ("later", "waits")
    assert foretold["tasks"] == {"total": 2, "minimum": 2, "now": 0, "later": 2}
    assert foretold["evicts"] == [{"job": "default/low", "tasks": 2, "moved": 0}]
    assert foretold["evictedBy"].startswith("preempt")
    assert "reason" not in foretold
    assert runs == {"high": 2, "low": 2}


async def test_a_reclaim_is_foreseen_and_happens(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await send(service, node("a", cpu="4"), queue("rich"), queue("poor"))
        await send(service, job("many", 4, minimum=1, queue="rich"))
        await settled(service, bound=4)
        own = [job("first", 1, queue="poor"), job("second", 1, queue="poor")]
        told = await planned(service, *own, job("third", 2, queue="poor"))
        await send(service, *own)
        await at_rest(service)
        runs = await nodes_of(service)
    first, second, third = told["jobs"]
    assert [each["verdict"] for each in told["jobs"]] == ["later", "later", "waits"]
    for each in (first, second):
        assert each["evicts"] == [{"job": "default/many", "tasks": 1, "moved": 0}]
        assert each["evictedBy"].startswith("reclaim")
    assert "evicts" not in third  # beyond what the queue deserves
    assert runs == {"first": 1, "second": 1, "many": 2}


async def test_nobody_is_evicted_for_what_may_evict_nobody(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await send(service, node("a", cpu="4"), important(10), important(20))
        await send(service, ranked(job("high", 4), 20))
        await settled(service, bound=4)
        low, huge = ranked(job("low", 1), 10), ranked(job("huge", 5), 20)
        told = await planned(service, low, huge)
    assert [each["verdict"] for each in told["jobs"]] == ["never", "waits"]
    assert all("evicts" not in each for each in told["jobs"])


async def test_behind_walls_each_shard_is_asked(
    tmp_path: Path, redis_url: str, policy: Path
) -> None:
    async with running(redis_url, tmp_path, shards=2, mode="hard", policy=policy) as service:
        await send(service, node("a", cpu="4"), node("b", cpu="4"), important(10), important(20))
        await send(service, ranked(job("low", 8, minimum=1), 10))
        await settled(service, bound=8)
        jobs = [ranked(job(name, 4), 20) for name in ("one", "two")]
        told = await planned(service, *jobs)
        await send(service, *jobs)
        await at_rest(service)
        for _ in range(100):
            if (runs := await nodes_of(service)) == {"one": 4, "two": 4}:
                break
            await asyncio.sleep(0.05)
    assert [each["verdict"] for each in told["jobs"]] == ["later", "later"]
    assert sum(each["evicts"][0]["tasks"] for each in told["jobs"]) == 8
    assert runs == {"one": 4, "two": 4}
