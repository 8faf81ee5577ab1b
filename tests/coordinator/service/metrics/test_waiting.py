"""Why jobs and tasks wait, as the metrics tell it while they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import objects
from tests.builders.objects import GPU, Item, queue
from tests.coordinator.service.metrics.scrape import Series, scrape, total
from tests.end_to_end.one_process.harness import PATIENCE, Running, running, submit


def node(number: int, gpus: int) -> Item:
    return objects.node(f"node-{number}", cpu=64, memory="256Gi", gpus=gpus)


def gang(name: str, *, tasks: int, queue: str, minimum: int | None = None, cpu: str = "1") -> Item:
    """A job of ``tasks`` pods of one GPU each, for ever."""
    return objects.simple_job(
        name, tasks, namespace="default", cpu=cpu, gpus=1, minimum=minimum, queue=queue
    )


def bound(tasks: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: bool(status["tasks"]["bound"] == tasks and not status["open_turns"])


def agrees(series: Series, status: dict[str, Any]) -> None:
    assert total(series, "pending_tasks") == status["tasks"]["pending"]
    assert total(series, "unadmitted_jobs") == status["jobs"]["pending"]
    for reason in {dict(labels)["reason"] for name, labels in series if name == "unadmitted_jobs"}:
        jobs = status["pending_reasons"][reason]
        assert total(series, "unadmitted_jobs", reason=reason) == jobs, reason


async def at_rest(service: Running) -> tuple[dict[str, Any], Series]:
    """A status and metrics without a turn in between: while one is open, its job counts as if it
    were placed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = await service.until(lambda status: not status["open_turns"])
            series = await scrape(service.url)
            after = service.service.status()
            if after["outcomes"] == status["outcomes"] and not after["open_turns"]:
                return status, series


async def test_jobs_that_wait_are_told_by_queue_and_reason(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node(0, 8), node(1, 8), queue("a"), queue("b", weight=3))
        await submit(service, gang("runs", tasks=12, queue="a"))
        await service.until(bound(12))
        await submit(
            service,
            gang("too-wide", tasks=6, queue="b"),
            gang("much-too-wide", tasks=40, queue="b"),
            gang("nowhere", tasks=2, queue="unheard-of"),
        )
        status = await service.until(
            lambda s: s["pending_reasons"] == {"NotEnoughResources": 2, "Misconfigured": 1}
        )
        series = await scrape(service.url)
    agrees(series, status)
    assert total(series, "unadmitted_jobs", queue="b", reason="NotEnoughResources") == 2
    assert total(series, "unadmitted_jobs", queue="", reason="Misconfigured") == 1
    assert total(series, "pending_tasks", status="unschedulable") == 46


async def test_metrics_separate_impossible_jobs_from_waits_for_quota(
    tmp_path: Path, redis_url: str
) -> None:
    """As explain, conditions and events have it: not as a wait for quota."""
    async with running(redis_url, tmp_path) as service:
        small, closed = queue("small", capability={GPU: "2"}), queue("closed")
        await submit(service, node(0, 8), small, closed)
        await submit(service, gang("shut-out", tasks=9, queue="closed"))
        await submit(service, gang("too-much", tasks=3, queue="small"))
        await service.until(lambda s: s["pending_reasons"].get("ExceedsCapability") == 1)
        closed["status"] = {"state": "Closed"}
        await submit(service, closed)
        status = await service.until(
            lambda s: s["pending_reasons"] == {"ExceedsCapability": 1, "QueueClosed": 1}
        )
        series = await scrape(service.url)
    agrees(series, status)
    assert total(series, "unadmitted_jobs", queue="small", reason="ExceedsCapability") == 1


async def test_a_queue_shows_allocated_requested_and_deserved(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node(0, 8), queue("a", capability={GPU: "6", "cpu": "7.5"}))
        await submit(service, gang("runs", tasks=4, queue="a"), gang("waits", tasks=3, queue="a"))
        await service.until(bound(4))
        await service.until(lambda s: s["pending_reasons"].get("WaitingForQuota") == 1)
        series = await scrape(service.url)
    gpu = {"queue": "a", "resource": GPU}
    assert total(series, "queue_resource", kind="allocated", **gpu) == 4
    assert total(series, "queue_resource", kind="request", **gpu) == 7
    assert total(series, "queue_resource", kind="pending", **gpu) == 3
    assert total(series, "queue_resource", kind="head_pending", **gpu) == 3
    assert total(series, "queue_resource", kind="capability", **gpu) == 6
    assert total(series, "queue_resource", kind="deserved", **gpu) == 6
    cores = {"queue": "a", "resource": "cpu"}
    assert total(series, "queue_resource", kind="capability", **cores) == 7.5
    assert total(series, "queue_resource", kind="allocated", **cores) == 4
    assert total(series, "queue_share", queue="a") == pytest.approx(4 / 6)
    assert total(series, "queue_overused", queue="a") == 0
    assert total(series, "queue_weight", queue="a") == 1
    assert total(series, "unadmitted_jobs", queue="a", reason="WaitingForQuota") == 1
    assert total(series, "cluster_resource", kind="idle", resource=GPU) == 4


async def test_the_elastic_rest_of_a_running_job_is_pending_but_the_job_is_admitted(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node(0, 4), queue("a"))
        await submit(service, gang("wide", tasks=10, minimum=2, queue="a"))
        status = await service.until(
            lambda s: s["tasks"]["bound"] == 4 and not s["open_turns"] and s["tasks"]["pending"]
        )
        series = await scrape(service.url)
    assert total(series, "pending_tasks") == status["tasks"]["pending"] == 6
    assert total(series, "jobs", state="running") == 1
    with pytest.raises(KeyError):
        total(series, "unadmitted_jobs")


async def test_placements_of_a_gang_rolled_back_count_as_wasted(
    tmp_path: Path, redis_url: str
) -> None:
    """Two nodes of 3 GPUs: enough for three tasks of 2 in sum, and for each role of them alone."""
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node(0, 3), node(1, 3), queue("a"))
        job = gang("clumsy", tasks=1, minimum=3, queue="a")
        spec = job["spec"]["tasks"][0]["template"]["spec"]
        spec["containers"][0]["resources"]["requests"][GPU] = "2"
        second = {"name": "second", "replicas": 2, "template": {"spec": spec}}
        job["spec"]["tasks"].append(second)
        await submit(service, job)
        await service.until(lambda s: s["outcomes"].get("infeasible", 0) > 0)
        status, series = await at_rest(service)
    tries = total(series, "schedule_attempts_total", result="unschedulable")
    assert tries >= 1
    assert total(series, "wasted_placements_total", cause="rollback") == 2 * tries
    assert total(series, "wasted_placements_total") == 2 * tries
    assert total(series, "placements_total") == 0
    agrees(series, status)
