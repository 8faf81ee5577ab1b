"""The HTTP door on a real server on the loopback interface, with the real intake behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from coordinator.api.app import make_app
from coordinator.api.write.bulk import BASE, BulkLimits
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeFull
from coordinator.service.metrics.text import metrics_text
from shared.codec.packed import replace
from tests.builders.objects import a_list, node, pod

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(100)]
LIMITS = BulkLimits(body_bytes=100_000, objects=50, waiting_bytes=150_000, store_seconds=60.0)


class Behind:
    """Intake behind the handlers, with a switch for each way it can fail."""

    def __init__(self) -> None:
        self.intake = Intake()
        self.full = self.broken = False
        self.ready = True
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def submit(self, items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
        if self.full:
            raise IntakeFull("64 requests wait")
        if self.broken:
            raise RuntimeError("secret detail")
        self.asked.set()
        await self.go_on.wait()
        return self.intake.admit(items, 1.0, atomic=atomic)


class ListsServer:
    def __init__(self, session: aiohttp.ClientSession, behind: Behind) -> None:
        self.session, self.behind = session, behind

    async def post(
        self, body: Any, *, query: str = "", path: str = f"{BASE}/lists", **headers: str
    ) -> tuple[int, dict[str, Any], Any]:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {"Content-Type": "application/json"} | headers
        async with self.session.post(path + query, data=data, headers=sent) as reply:
            return reply.status, await reply.json(content_type=None), reply.headers

    async def get(self, path: str) -> tuple[int, bytes, Any]:
        async with self.session.get(path) as reply:
            return reply.status, await reply.read(), reply.headers


@pytest_asyncio.fixture
async def door() -> AsyncIterator[ListsServer]:
    async with opened(LIMITS) as door:
        yield door


@asynccontextmanager
async def opened(limits: BulkLimits) -> AsyncIterator[ListsServer]:
    behind = Behind()
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc()
    app = make_app(
        behind.submit,
        lambda: {"jobs": len(behind.intake.registry.jobs)},
        lambda: behind.ready,
        lambda: metrics_text(registry.collect()),
        limits=limits,
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
        yield ListsServer(session, behind)
    await runner.cleanup()


async def test_each_object_is_judged_alone(door: ListsServer) -> None:
    code, body, _ = await door.post(a_list(node(), pod("a"), pod("b", priority="x"), 5))
    assert code == 200
    assert body["accepted"] == 2
    assert [r["field"] for r in body["refused"]] == ["spec.priority", ""]
    assert body["refused"][0] | {"value": ""} == {
        "kind": "Pod",
        "name": "ns/b",
        "field": "spec.priority",
        "value": "",
        "message": "not allowed; write a whole number from -2147483648 to 2147483647",
        "reason": "not allowed",
        "remedy": "write a whole number from -2147483648 to 2147483647",
    }
    assert set(door.behind.intake.registry.pods) == {"ns/a"}


async def test_the_same_list_again_changes_nothing(door: ListsServer) -> None:
    await door.post(a_list(node(), pod("a")))
    _, body, _ = await door.post(a_list(node(), pod("a")))
    assert (body["accepted"], body["unchanged"], body["refused"]) == (2, 2, [])


async def test_atomic_takes_all_or_none(door: ListsServer) -> None:
    code, body, _ = await door.post(a_list(pod("a"), pod("b", nope=1)), query="?atomic=true")
    assert code == 422
    assert (body["kind"], body["code"], body["reason"]) == ("Status", 422, "Invalid")
    assert body["details"]["refused"][0]["field"] == "spec.nope"
    assert "spec.nope" in body["message"]
    assert not door.behind.intake.registry.pods
    code, body, _ = await door.post(a_list(pod("a"), pod("b")), query="?atomic=true")
    assert (code, body["accepted"]) == (200, 2)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 5000, "not JSON"),
        ([], "not an object"),
        ({"apiVersion": "v1", "kind": "Pod"}, "write List"),
        ({"kind": "List", "items": []}, "apiVersion is missing; write v1"),
        ({"apiVersion": "v1", "kind": "List"}, "items is not a list"),
        ({**a_list(), "item": []}, "'item' is no field"),
        (a_list(*[5] * 51), "at most 50"),
    ],
)
async def test_a_body_that_is_no_list(door: ListsServer, body: Any, says: str) -> None:
    code, answer, _ = await door.post(body)
    assert code == 400
    assert answer["status"] == "Failure"
    assert says in answer["message"]


async def test_an_atomic_list_is_short() -> None:
    """It is judged and stored in one go, while others wait."""
    items = [pod("a"), pod("b"), pod("c")]
    async with opened(replace(LIMITS, atomic_objects=2)) as door:
        code, body, _ = await door.post(a_list(*items), query="?atomic=true")
        assert code == 413
        assert "3 objects; a list has at most 2 with atomic=true" in body["message"]
        assert (await door.post(a_list(*items)))[1]["accepted"] == 3


@pytest.mark.parametrize("query", ["?atomic=yes", "?atomc=true"])
async def test_an_unknown_parameter(door: ListsServer, query: str) -> None:
    code, answer, _ = await door.post(a_list(), query=query)
    assert code == 400
    assert "write true or false" in answer["message"] or "leave it out" in answer["message"]


async def test_a_body_that_is_too_large(door: ListsServer) -> None:
    code, answer, _ = await door.post(b" " * 100_001)
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b" " * 1000

    async with door.session.post(
        f"{BASE}/lists", data=pieces(), headers={"Content-Type": "application/json"}
    ) as reply:
        assert reply.status == 413


async def test_another_content_type(door: ListsServer) -> None:
    code, answer, _ = await door.post(a_list(), **{"Content-Type": "text/plain"})
    assert (code, answer["reason"]) == (415, "UnsupportedMediaType")


async def test_a_full_queue_asks_to_come_back(door: ListsServer) -> None:
    door.behind.full = True
    code, answer, headers = await door.post(a_list(pod("a")))
    assert (code, answer["reason"]) == (429, "TooManyRequests")
    assert 0 < float(headers["Retry-After"]) < 5


async def test_waiting_bodies_are_bounded_and_given_back(door: ListsServer) -> None:
    door.behind.go_on.clear()
    body = orjson.dumps(a_list()) + b" " * 80_000
    first = asyncio.create_task(door.post(body))
    await door.behind.asked.wait()
    code, answer, _ = await door.post(body)
    assert code == 429
    assert "bytes of lists wait" in answer["message"]
    door.behind.go_on.set()
    assert (await first)[0] == 200
    assert (await door.post(body))[0] == 200


async def test_a_store_that_takes_too_long() -> None:
    async with opened(replace(LIMITS, store_seconds=0.1)) as door:
        door.behind.go_on.clear()
        code, answer, headers = await door.post(a_list(pod("a")))
    assert code == 503
    assert "that is safe" in answer["message"]
    assert "Retry-After" in headers


async def test_an_error_of_ours_shows_no_inside(door: ListsServer) -> None:
    door.behind.broken = True
    code, answer, _ = await door.post(a_list(pod("a")))
    assert (code, answer["reason"]) == (500, "InternalError")
    assert "secret" not in orjson.dumps(answer).decode()


async def test_probes_status_and_metrics(door: ListsServer) -> None:
    assert (await door.get("/livez"))[:2] == (200, b"ok\n")
    assert (await door.get("/readyz"))[0] == 200
    door.behind.ready = False
    assert (await door.get("/readyz"))[0] == 503
    assert (await door.get("/livez"))[0] == 200
    await door.post(a_list(pod("a")))
    assert orjson.loads((await door.get(f"{BASE}/status"))[1]) == {"jobs": 1}
    code, body, headers = await door.get("/metrics")
    assert code == 200
    assert b"things_total 1.0" in body
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_an_unknown_path_or_method(door: ListsServer) -> None:
    code, body, headers = await door.get("/nothing")
    assert (code, headers["Content-Type"]) == (404, "application/problem+json")
    assert orjson.loads(body)["status"] == 404
    code, body, _ = await door.get("/apis/nothing")
    assert (code, orjson.loads(body)["kind"]) == (404, "Status")
    code, body, headers = await door.get(f"{BASE}/lists")
    assert (code, orjson.loads(body)["reason"]) == (405, "MethodNotAllowed")
    assert "POST" in headers["Allow"]
