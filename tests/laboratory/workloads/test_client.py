"""The client against a real HTTP server that is busy, wrong or away; and what a run makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from coordinator.cli.options.failure import CommandError
from laboratory.cli.stack import Sender, Stall
from laboratory.workloads.bulk_client import BASE, BulkClient, BulkError, Submitted

Answer = Callable[[int], web.StreamResponse]


@asynccontextmanager
async def _server(answer: Answer, bodies: list[Any] | None = None) -> AsyncIterator[str]:
    """Answers request number n (from 1) with ``answer(n)``; notes the bodies."""
    count = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if bodies is not None:
            bodies.append(orjson.loads(await request.read()))
        return answer(count)

    app = web.Application()
    app.router.add_post(f"{BASE}/lists", handle)
    app.router.add_get(f"{BASE}/status", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def _json(value: Any, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(value, status=status, headers=headers)


async def test_it_waits_where_the_server_is_busy() -> None:
    def answer(n: int) -> web.Response:
        if n < 3:
            return _json({}, status=429 if n == 1 else 503, **{"Retry-After": "0.01"})
        return _json({"accepted": 2, "refused": []})

    bodies: list[Any] = []
    async with _server(answer, bodies) as url, BulkClient(url) as api:
        assert await api.submit(b'{"items":[]}') == Submitted(2, [])
    assert len(bodies) == 3  # the same list each time


async def test_it_gives_up_when_its_patience_ends() -> None:
    def answer(n: int) -> web.Response:
        return _json({}, status=429, **{"Retry-After": "0.02"})

    async with _server(answer) as url, BulkClient(url, patience=0.1) as api:
        with pytest.raises(BulkError, match=r"busy for 0\.1 s"):
            await api.status()


async def test_a_server_that_is_away_is_asked_again_then_told() -> None:
    async with BulkClient("http://127.0.0.1:9", patience=0.2) as api:
        with pytest.raises(BulkError, match="no answer"):
            await api.status()


async def test_an_error_answer_is_raised_with_the_servers_message() -> None:
    wrong = {"kind": "Status", "message": "items is missing; send a List"}
    async with _server(lambda n: _json(wrong, status=400)) as url, BulkClient(url) as api:
        with pytest.raises(BulkError, match="answered 400: items is missing"):
            await api.submit(b"{}")
    async with _server(lambda n: web.Response(text="[1]")) as url, BulkClient(url) as api:
        with pytest.raises(BulkError, match="list, not an object"):
            await api.status()
    async with _server(lambda n: web.Response(text="<html>")) as url, BulkClient(url) as api:
        with pytest.raises(BulkError, match="not JSON"):
            await api.status()


def _items(count: int) -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"p{i}", "namespace": "default"}} for i in range(count)]


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_everything_is_sent_once_in_lists_of_500(in_flight: int) -> None:
    bodies: list[Any] = []
    async with _server(lambda n: _json({"accepted": 7}), bodies) as url, BulkClient(url) as api:
        sender = Sender(api)
        assert await sender.send(_items(1201), in_flight=in_flight) == 21
    assert sorted(len(body["items"]) for body in bodies) == [201, 500, 500]
    names = [item["metadata"]["name"] for body in bodies for item in body["items"]]
    assert sorted(names) == sorted(f"p{i}" for i in range(1201))
    if in_flight == 1:
        assert names == [f"p{i}" for i in range(1201)]
    assert len(sender.sent) == 1201


async def test_a_refused_object_ends_the_run() -> None:
    refused = {"kind": "Job", "name": "j", "field": "spec.queue", "message": "give a name"}
    reply = {"accepted": 1, "refused": [refused]}
    async with _server(lambda n: _json(reply)) as url, BulkClient(url) as api:
        with pytest.raises(ExceptionGroup) as caught:
            await Sender(api).send(_items(2))
    (error,) = caught.value.exceptions
    assert isinstance(error, CommandError)
    assert "Job j: spec.queue: give a name" in str(error)


def test_a_stall_is_no_change_while_nothing_runs() -> None:
    def status(finished: int, running: int) -> dict[str, Any]:
        return {"jobs": {"submitted": 9, "finished": finished}, "tasks": {"running": running}}

    stall = Stall(longest=30.0)
    assert stall.seconds(status(1, 5), 100.0) < 0  # may still run for 30 s
    assert stall.seconds(status(1, 5), 140.0) == 10.0
    assert stall.seconds(status(1, 0), 141.0) == 0.0  # something has changed
    assert stall.seconds(status(1, 0), 150.0) == 9.0
    assert stall.seconds(status(2, 0), 151.0) == 0.0


async def test_concurrent_requests_all_find_the_leading_coordinator() -> None:
    """Requests that go on beside each other must not send one another back to who stands by."""

    def standing_by(n: int) -> web.Response:
        return _json({}, status=503, **{"Retry-After": "30"})

    def leading(n: int) -> web.Response:
        return _json({"accepted": n})

    away = "http://127.0.0.1:9"
    async with (
        _server(standing_by) as other,
        _server(leading) as leader,
        BulkClient(away, other, leader, patience=20.0) as api,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(7):
            group.create_task(api.status())


async def test_delete_reports_whether_the_job_existed() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        codes = {"/jobs/there": 200, "/jobs/kept": 403}
        return _json({"message": "no"}, status=codes.get(request.path, 404))

    app = web.Application()
    app.router.add_delete("/jobs/{name}", handle)
    async with TestServer(app) as server, BulkClient(str(server.make_url("/"))) as api:
        assert await api.delete("/jobs/there")
        assert not await api.delete("/jobs/other")
        with pytest.raises(BulkError, match="403: no") as caught:
            await api.delete("/jobs/kept")
        assert caught.value.code == 403
