"""Decisions without the answer of another server, reported by explain: a service, two shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from coordinator.cli.scheduling.explain_text import explanation
from coordinator.service.metrics.usage import FORGET_AFTER
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import node, pod
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit

Json = dict[str, Any]
EXPLAIN = "/api/v1/namespaces/ns/pods/p/explain"


class SilentServer:
    """A server that answers none of its calls, or those to one path alone."""

    def __init__(self, answers: str = "") -> None:
        self.answers = answers

    async def answer(self, request: web.Request) -> web.Response:
        if request.path.strip("/") == self.answers:
            return web.json_response({})
        await asyncio.sleep(60)
        return web.json_response({})


@asynccontextmanager
async def listening(server: SilentServer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{verb:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def explained(parts: Running) -> Json:
    async with aiohttp.ClientSession(parts.url) as client, client.get(EXPLAIN) as reply:
        assert reply.status == 200, await reply.text()
        answer: Json = await reply.json()
    return answer


def without(answer: Json) -> str:
    """The paragraph of the text that people read."""
    lines = explanation(answer, columns=500, now=0.0)
    [line] = [line for line in lines if line.startswith("SILENT")]
    return " ".join(line.split()[1:])


@pytest.mark.parametrize("ignorable", [False, True])
async def test_an_extender_that_does_not_answer_in_time(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path, ignorable: bool
) -> None:
    flush(embedded_server)
    file = tmp_path / "policy.yaml"
    async with listening(SilentServer()) as url:
        arguments = {
            "extender.urlPrefix": url,
            "extender.httpTimeout": "100ms",
            "extender.predicateVerb": "filter",
            "extender.ignorable": ignorable,
        }
        plugin = {"name": "extender", "arguments": arguments}
        tiers = [{"plugins": [{"name": "gang"}, plugin]}]
        file.write_text(orjson.dumps({"actions": "allocate", "tiers": tiers}).decode())
        async with running(embedded_server.url, short_dir, policy=file) as parts:
            await submit(parts, node("n0"), pod("p"))
            reached = "placed" if ignorable else "infeasible"
            await parts.until(lambda status: status["outcomes"].get(reached, 0) > 0)
            remaining = without(await explained(parts))
    then = "the nodes pass" if ignorable else "the nodes count as refused"
    assert remaining == f"extender.predicateVerb: no answer (timed out); {then} (1 question)"


async def test_a_metrics_source_that_is_gone(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    flush(embedded_server)
    file = tmp_path / "policy.yaml"
    async with listening(SilentServer("nothing")) as url:
        gone = url
    metrics = {"type": "prometheus", "address": gone, "interval": "1s"}
    policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "usage"}]}]}
    file.write_text(orjson.dumps({**policy, "metrics": metrics}).decode())
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await parts.until(lambda _: bool(parts.service.core.order.contexts.usage_missing()))
        await submit(parts, node("n0"), pod("p"))
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        remaining = without(await explained(parts))
    assert remaining.startswith(f"metrics source {gone}: no answer (Cannot connect")
    assert remaining.endswith("; no node counts as busy, and none as idler than others")


async def test_answers_of_the_metrics_source_are_in_the_history(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """The busy node takes nothing, and whoever judges the run later knows how busy it was."""
    flush(embedded_server)
    file = tmp_path / "policy.yaml"
    busy = {"metric": {"node": "n0"}, "value": [1.0, "0.9"]}
    answer = {"status": "success", "data": {"resultType": "vector", "result": [busy]}}

    async def answers(_: web.Request) -> web.Response:
        return web.json_response(answer)

    app = web.Application()
    app.router.add_get("/api/v1/query", answers)
    server = TestServer(app)
    await server.start_server()
    metrics = {"type": "prometheus", "address": str(server.make_url("/")), "interval": "1s"}
    policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "usage"}]}]}
    file.write_text(orjson.dumps({**policy, "metrics": metrics}).decode())
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await parts.until(lambda _: bool(parts.cluster.figures))
        before = time.time()
        await submit(parts, node("n0"), pod("p"))
        await parts.until(lambda status: status["outcomes"].get("infeasible", 0) > 0)
    await server.close()
    first = parts.cluster.figures[0]
    assert first.usage == {"n0": {"cpu": 90.0, "memory": 90.0}}
    assert first.begins < before
    assert first.ends == first.begins + FORGET_AFTER
