"""A running service is scraped: its metrics say what its status says, and stay as many as before
whatever passes through it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.service.metrics.exporter import CoordinatorMetrics
from laboratory.cli.stack import Sender
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    job_items,
    node_items,
    queue_items,
    seeded_workload,
)
from shared.slices import at_once
from tests.builders.objects import DURATION, a_list, pod
from tests.coordinator.service.metrics.scrape import Series, read, scrape, total
from tests.end_to_end.one_process.harness import Running, running

SHAPE = ClusterShape(nodes=16, units=8)
SPEEDUP = 1e5
Item = dict[str, Any]


async def send(service: Running, items: list[Item]) -> None:
    async with BulkClient(service.url) as api:
        await Sender(api).send(items, in_flight=2)


async def load(service: Running, jobs: int, *, seed: int = 1) -> None:
    trace = seeded_workload(jobs=jobs, seed=seed, capacity=SHAPE.capacity)
    await send(service, [*node_items(SHAPE), *queue_items(trace)])
    await send(service, list(job_items(trace, resource=GPU)))


def finished(status: dict[str, Any]) -> bool:
    return bool(status["jobs"]["finished"] == status["jobs"]["submitted"])


def is_shared_out(status: dict[str, Any]) -> bool:
    """Every node has its shard: a few small jobs may be over before."""
    return bool(sum(shard["nodes"] for shard in status["shards"]) == SHAPE.nodes)


def pods(count: int, *, start: int = 0, gpus: int = 1) -> Iterator[Item]:
    requested = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    for number in range(start, start + count):
        item = pod(f"pod-{number}", namespace="default", containers=[requested])
        item["metadata"]["annotations"] = {DURATION: "1"}
        yield item


async def test_after_a_run_the_metrics_agree_with_the_status(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, speedup=SPEEDUP, grace=0.005) as service:
        await load(service, 60)
        status = await service.until(finished)
        series = await scrape(service.url)
    tasks, statements = status["tasks"], status["statements"]
    assert total(series, "jobs", state="finished") == 60
    assert total(series, "jobs") == 60
    assert total(series, "tasks") == total(series, "tasks", state="succeeded") == tasks["submitted"]
    assert total(series, "pending_tasks") == 0
    for level, count in status["levels"].items():
        assert total(series, "placements_total", level=level) == count
    accepted = ("committed", "rechecked")
    assert (
        sum(total(series, "statements_total", result=r) for r in accepted)
        == (statements["committed"])
    )
    assert total(series, "statements_total", result="rechecked") == statements["rechecked"]
    refused = [total(series, "statements_total", result=r) for r in ("true", "quota")]
    assert sum(refused) == statements["conflicts_true"]
    assert total(series, "statements_total", result="read") == statements["conflicts_read"]
    # A refused operation of a tail is judged, but is no statement of its own.
    operations = total(series, "statement_operations_count")
    assert statements["committed"] <= operations <= total(series, "statements_total")
    assert total(series, "statement_operations_sum") >= tasks["submitted"]
    assert total(series, "statement_commit_duration_seconds_count") == operations
    assert total(series, "session_duration_seconds_count", action="allocate") > 0
    outcomes = status["outcomes"]
    assert total(series, "schedule_attempts_total", result="scheduled") == outcomes["placed"]
    assert total(series, "schedule_attempts_total") == sum(outcomes.values())
    assert total(series, "scheduling_attempt_duration_seconds_count") == sum(outcomes.values())
    assert total(series, "task_scheduling_sli_duration_seconds_count") == tasks["submitted"]
    assert total(series, "job_wait_seconds_count") == 60
    assert total(series, "binds_total", result="ok") == tasks["submitted"]
    assert total(series, "bind_duration_seconds_count") == tasks["submitted"]
    assert total(series, "bind_backlog") == 0
    assert total(series, "queue_resource", kind="allocated") == 0
    gpu = {"resource": GPU}
    assert total(series, "cluster_resource", kind="total", **gpu) == SHAPE.capacity
    assert total(series, "cluster_resource", kind="idle", **gpu) == SHAPE.capacity


async def test_shards_intake_and_process_are_told(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=3, speedup=SPEEDUP, grace=0.005) as service:
        await load(service, 10)
        status = await service.until(lambda status: finished(status) and is_shared_out(status))
        async with aiohttp.ClientSession() as http:
            lists = f"{service.url}/apis/quadrant.dev/v1alpha1/lists"
            nodes = list(node_items(SHAPE))[:3]
            wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {}}
            body = a_list(*nodes, wrong)
            async with http.post(lists, json=body) as answer:
                assert answer.status == 200
            async with http.post(lists, data=b"no") as answer:
                assert answer.status == 415
        series = await scrape(service.url)
        service.shards.deaf.add(1)
        await service.until(lambda status: status["workers_lost"] == 1)
        await service.until(lambda status: all(shard["up"] for shard in status["shards"]))
        later = await scrape(service.url)
    for shard in status["shards"]:
        label = {"shard": str(shard["shard"])}
        assert total(series, "shard_up", **label) == 1
        assert total(series, "shard_nodes", **label) == shard["nodes"]
        assert total(series, "shard_epoch", **label) == int(shard["epoch"].split(":")[0])
        assert total(series, "shard_inflight_statements", **label) == 0
        assert 0 <= total(series, "shard_view_age_seconds", **label) < 60
    assert total(series, "intake_objects_total", result="refused") == 1
    assert total(series, "intake_objects_total", result="unchanged") == 3
    queues = total(series, "intake_objects_total", result="stored") - SHAPE.nodes - 10
    assert queues == len({dict(labels)["queue"] for _, labels in of(series, "queue_weight")}) - 1
    assert total(series, "intake_lists_total", code="415") == 1
    assert total(series, "worker_restarts_total") == 0
    assert total(later, "worker_restarts_total") == 1
    assert total(later, "handover_duration_seconds_count") == 1
    assert total(later, "shard_epoch", shard="1") > total(series, "shard_epoch", shard="1")
    assert total(series, "event_loop_lag_seconds_count") > 0
    assert total(series, "ledger_roundtrip_seconds_count") > 0
    assert total(series, "build_info") == 1


def of(series: Series, name: str) -> list[tuple[str, frozenset[tuple[str, str]]]]:
    return [key for key in series if key[0] == name]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(400)
async def test_thousands_of_ended_jobs_leave_no_series_and_cost_no_scrape(
    tmp_path: Path, redis_url: str
) -> None:
    shape = ClusterShape(nodes=500, units=8)
    async with running(redis_url, tmp_path, speedup=SPEEDUP, grace=0.0) as service:
        await send(service, list(node_items(shape)))
        await send(service, list(pods(50)))
        await service.until(finished)
        before = set(await scrape(service.url))
        core, probes = service.service.core, service.service.probes
        slots = service.service.intake.registry.slots
        registry = CoordinatorMetrics(core, probes, lambda: slots.names)
        few = cost(registry)
        await send(service, list(pods(10_000, start=50)))
        await service.until(lambda s: s["jobs"]["submitted"] == 10_050 and finished(s), 300.0)
        after = set(await scrape(service.url))
        many = cost(registry)
        text = at_once(registry.text()).decode()
    assert after == before, after ^ before
    assert total(read(text), "jobs", state="finished") == 10_050
    # 10,000 jobs more: a walk of them would take many times as long.
    assert many < 3 * few, (few, many)


def cost(registry: CoordinatorMetrics) -> float:
    """Processor seconds of a scrape, as far as nothing disturbs it."""
    spent = []
    for _ in range(10):
        began = time.thread_time()
        at_once(registry.text())
        spent.append(time.thread_time() - began)
    return min(spent)
