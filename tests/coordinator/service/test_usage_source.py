"""Figures of nodes, asked of a server that speaks as Prometheus does."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp import web

from coordinator.service.metrics.usage import (
    CPU_QUERY,
    FORGET_AFTER,
    Usage,
    UsageSource,
    read_vector,
)
from shared.policy.dialect import parse_policy
from shared.policy.metrics_source import MetricsSource, SourceError, read_metrics_source
from shared.policy.model import PolicyError

Sample = tuple[dict[str, str], str]


def vector(*samples: Sample) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


class UsagePrometheus:
    """Answers the two queries; ``broken`` answers with an error."""

    def __init__(self) -> None:
        self.broken = False

    async def query(self, request: web.Request) -> web.Response:
        if self.broken:
            raise web.HTTPServiceUnavailable
        if request.query["query"] == CPU_QUERY:
            return web.json_response(vector(({"instance": "n1:9100"}, "0.5")))
        return web.json_response(
            vector(({"instance": "10.0.0.1:9100", "node": "n1"}, "0.25"), ({"node": "n2"}, "NaN"))
        )


async def test_the_newest_figures_are_kept_and_forgotten_when_they_are_old() -> None:
    now = 0.0
    server = UsagePrometheus()
    app = web.Application()
    app.router.add_get("/api/v1/query", server.query)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    named = MetricsSource(f"http://127.0.0.1:{port}")
    reports: list[Usage] = []

    async def tell(usage: Usage) -> None:
        reports.append(usage)

    source = UsageSource(lambda: named, report=tell, clock=lambda: now)
    try:
        async with aiohttp.ClientSession() as session:
            assert source.usage() == {}
            await source.look(session, named)
            assert source.usage() == {"n1": {"cpu": 50.0, "memory": 25.0}}
            assert source.missing() == ""
            server.broken = True
            now = FORGET_AFTER
            await source.look(session, named)
            assert source.usage() == {"n1": {"cpu": 50.0, "memory": 25.0}}
            assert source.missing().endswith("; figures of 300 s ago count")
            now += 1.0
            assert source.usage() == {}
            assert source.missing().endswith(
                "; no node counts as busy, and none as idler than others"
            )
            server.broken = False
            await source.look(session, named)
            assert source.usage()
            assert source.missing() == ""
            assert reports == [source.usage()] * 2, "each answer, and nothing where there was none"
            other = MetricsSource("http://other")
            named = other
            assert source.usage() == {}
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"status": "error", "error": "no"}, {"status": "success", "data": 1}]
)
def test_an_invalid_prometheus_answer_is_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"not an answer|the query failed: no"):
        read_vector(answer)


def test_a_policy_names_its_source() -> None:
    policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "usage"}]}]}
    named = {"type": "prometheus", "address": "http://p:9090/", "interval": "1m"}
    result = parse_policy({**policy, "metrics": named})
    assert result.metrics == MetricsSource("http://p:9090", 60.0)
    assert result.warnings == ()
    assert parse_policy(policy).metrics is None


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"type": "elasticsearch", "address": "http://e"}, "metrics.type: 'elasticsearch' is Vol"),
        ({"type": "influx"}, "metrics.type: 'influx' is not known"),
        ({"address": "p:9090"}, "metrics.address: 'p:9090'"),
        ({"address": "http://p", "interval": "soon"}, "metrics.interval: 'soon'"),
    ],
)
def test_a_mistake_is_told(metrics: dict[str, Any], message: str) -> None:
    policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "usage"}]}]}
    with pytest.raises(PolicyError, match=message):
        parse_policy({**policy, "metrics": metrics})
    with pytest.raises(SourceError):
        read_metrics_source(metrics, None)
