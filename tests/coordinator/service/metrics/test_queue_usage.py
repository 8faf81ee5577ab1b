"""Usage of queues over time, asked of a server that speaks as Prometheus does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from coordinator.order.usage_over_time import UsageByQueue
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.queue_usage import QueueUsageSource, queries_of
from shared.policy.cron import parse_cron
from shared.policy.kai_usage import UsageClient, UsageSettings, UsageWindow, WindowKind

NOW = 1_767_571_200.0
"""Midnight of a Monday."""


def vector(*samples: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [NOW, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@dataclass
class QueuePrometheus:
    """Answers what it is asked for by a part of the query; else an empty vector."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    status: int = 200
    silent: bool = False

    async def query(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        self.asked.append(query)
        if self.silent:
            await asyncio.Event().wait()
        answers = (answer for part, answer in self.answers.items() if part in query)
        return web.json_response(next(answers, vector()), status=self.status)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/api/v1/query", self.query)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


ANSWERS = {
    "kai_queue_allocated_gpus": vector(
        ({"queue_name": "a", "pod": "first"}, "30"),
        ({"queue_name": "a", "pod": "after its restart"}, "10"),
        ({"queue_name": "b"}, "NaN"),
        ({}, "3"),
    ),
    "kai_queue_allocated_cpu_cores": vector(({"queue_name": "b"}, "500")),
    'resource="nvidia_com_gpu"': vector(({}, "80")),
    'resource="cpu"': vector(({}, "1000")),
}


class Policy:
    """Policy with usage settings, and the usage that arrived."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("client", UsageClient.PROMETHEUS)
        self.settings: UsageSettings | None = UsageSettings(**settings)
        self.usage: UsageByQueue | None = None
        self.probes = Probes()
        self.now = NOW

    def source(self, **environment: str) -> QueueUsageSource:
        return QueueUsageSource(
            lambda: self.settings,
            self._measured,
            self.probes,
            clock=lambda: self.now,
            environment=environment,
        )

    def _measured(self, usage: UsageByQueue) -> None:
        self.usage = usage


async def test_the_parts_of_each_queue_arrive() -> None:
    """Series of one queue are added up; what there is none of in the cluster counts nothing."""
    server = QueuePrometheus(ANSWERS)
    async with server.served() as address:
        policy = Policy(address=address)
        source = policy.source()
        await source.look()
    assert policy.usage == {"a": (0, 0, 500_000_000), "b": (500_000_000, 0, 0)}
    assert source.missing() == ""
    assert policy.probes.usage_queries == {"answered": 1}
    assert len(server.asked) == 6


async def test_the_address_may_stand_in_the_environment() -> None:
    async with QueuePrometheus(ANSWERS).served() as address:
        policy = Policy(variable="PROMETHEUS_URL")
        source = policy.source()
        await source.look()
        assert "the environment has no PROMETHEUS_URL" in source.missing()
        await policy.source(PROMETHEUS_URL=address).look()
        assert policy.usage


async def test_without_an_answer_the_figures_before_count_and_are_said_to_be_old() -> None:
    server = QueuePrometheus(ANSWERS)
    async with server.served() as address:
        policy = Policy(address=address, staleness=300.0)
        source = policy.source()
        server.status = 503
        await source.look()
        assert policy.usage is None
        assert source.missing().endswith("queues share as if none had used anything")
        server.status = 200
        await source.look()
        settings = policy.usage
        assert source.missing() == ""
        server.status = 503
        policy.now += 300.0
        await source.look()
        assert source.missing().endswith("queues share by figures of 300 s ago")
        policy.now += 1.0
        assert source.missing().endswith("queues share by old figures of 301 s ago")
        assert policy.usage is settings
        policy.settings = UsageSettings(client=UsageClient.LEDGER)
        assert source.missing() == ""
    assert policy.probes.usage_queries == {"answered": 1, "failed": 2}


async def test_a_server_that_is_silent_is_waited_for_no_longer_than_said() -> None:
    async with QueuePrometheus(silent=True).served() as address:
        policy = Policy(address=address, query_timeout=0.05)
        source = policy.source()
        async with asyncio.timeout(5):
            await source.look()
    assert "no answer (TimeoutError)" in source.missing()


async def test_an_answer_for_another_policy_than_the_one_in_force_is_dropped() -> None:
    policy = Policy()
    server = QueuePrometheus(ANSWERS)
    async with server.served() as address:
        policy.settings = UsageSettings(client=UsageClient.PROMETHEUS, address=address)

        def settings(changes: list[UsageSettings | None]) -> Callable[[], UsageSettings | None]:
            return lambda: changes.pop(0) if len(changes) > 1 else changes[0]

        source = QueueUsageSource(
            settings([policy.settings, None]), policy._measured, policy.probes, clock=lambda: NOW
        )
        await source.look()
    assert server.asked
    assert policy.usage is None


async def test_errors_of_the_query_are_told_without_credentials() -> None:
    error = {"status": "error", "error": "parse error: http://me:secret@p/ is not PromQL"}
    server = QueuePrometheus({"": error}, status=400)
    async with server.served() as address:
        policy = Policy(address=address.replace("//", "//me:secret@"))
        source = policy.source()
        await source.look()
    assert "the query failed: parse error: http://***@p/ is not PromQL" in source.missing()
    assert "secret" not in source.missing()


async def test_a_server_that_knows_no_capacity_has_not_answered() -> None:
    async with QueuePrometheus().served() as address:
        policy = Policy(address=address)
        source = policy.source()
        await source.look()
    assert "it knows no capacity of cpu, memory or GPUs" in source.missing()


def gpu_queries(window: UsageWindow) -> tuple[str, str] | None:
    queries = queries_of(UsageSettings(window=window, resolution=60.0), NOW)
    return None if queries is None else (queries["gpu"].allocated, queries["gpu"].capacity)


def test_the_queries_are_kais() -> None:
    capacity = 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})'
    assert gpu_queries(UsageWindow(size=604_800.0)) == (
        "sum_over_time((kai_queue_allocated_gpus)[604800s:60s])",
        f"sum_over_time(({capacity})[604800s:60s])",
    )
    decay = f"(0.5^(({int(NOW)} - time()) / 600.000000))"
    assert gpu_queries(UsageWindow(size=3600.0, half_life=600.0)) == (
        f"sum_over_time(((kai_queue_allocated_gpus) * {decay})[3600s:60s])",
        f"sum_over_time((({capacity}) * {decay})[3600s:60s])",
    )


def test_windows_with_a_begin_are_asked_for_from_there() -> None:
    tumbling = UsageWindow(kind=WindowKind.TUMBLING, size=1000.0, start=NOW - 2400.0)
    cron = UsageWindow(kind=WindowKind.CRON, cron=parse_cron("0 22 * * *"))
    for window, span in ((tumbling, "400s"), (cron, "7200s")):
        queries = gpu_queries(window)
        assert queries is not None
        assert queries[0] == f"sum_over_time((kai_queue_allocated_gpus)[{span}:60s])"
    assert gpu_queries(UsageWindow(kind=WindowKind.TUMBLING, size=60.0, start=NOW)) is None
