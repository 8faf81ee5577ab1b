"""Bodies that are too large, too slow or too many, and a writer that has no room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from coordinator.api.change.bodies import APPLY, Bodies, BodyLimits, object_of, patch_of
from coordinator.api.http.failures import failures
from coordinator.api.write.handlers import WriteDependencies, write_routes
from coordinator.errors import Problem
from coordinator.intake.writer import IntakeFull
from tests.builders.objects import queue
from tests.coordinator.api.write.behind import PATHS, behind

pytestmark = pytest.mark.timeout(100)


async def test_bodies_that_are_too_much() -> None:
    limits = BodyLimits(body_bytes=2000, waiting_bytes=2000)
    async with behind(bodies=Bodies(limits)) as client:
        big = queue() | {"metadata": {"name": "q", "annotations": {"a": "x" * 2000}}}
        code, answer = await client.create(big)
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
        for pieces, code in ((50, 413), (1, 201)):
            text = orjson.dumps(queue())

            async def body(text: bytes = text, pieces: int = pieces) -> AsyncIterator[bytes]:
                for _ in range(pieces):
                    yield text  # of a size that nobody says before

            headers = {"Content-Type": "application/json"}
            async with client.session.post(PATHS["Queue"], data=body(), headers=headers) as reply:
                assert reply.status == code


async def test_a_body_that_does_not_come() -> None:
    async with behind(bodies=Bodies(BodyLimits(body_seconds=0.1))) as client:
        go_on = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"{"
            await go_on.wait()

        headers = {"Content-Type": "application/json"}
        async with client.session.post(PATHS["Queue"], data=body(), headers=headers) as reply:
            assert reply.status == 408
            go_on.set()


async def test_a_full_house_says_when_to_come_again() -> None:
    bodies, text, go_on = (
        Bodies(BodyLimits(waiting_bytes=1)),
        orjson.dumps(queue()),
        asyncio.Event(),
    )

    async def slowly() -> AsyncIterator[bytes]:
        yield text[:10]
        await go_on.wait()
        yield text[10:]

    async with behind(bodies=bodies) as client:
        held = client.session.post(
            PATHS["Queue"], data=slowly(), headers={"Content-Type": "application/json"}
        )
        task = asyncio.ensure_future(held.__aenter__())
        for _ in range(1000):
            if bodies._waiting:
                break
            await asyncio.sleep(0.01)
        code, answer = await client.create(queue())
        assert (code, answer["reason"]) == (429, "TooManyRequests")
        assert answer["details"]["retryAfterSeconds"] >= 1
        go_on.set()
        assert (await task).status == 201


async def test_a_full_writer_says_when_to_come_again() -> None:
    class Full:
        async def change(self, key: Any, make: Any, *, dry_run: bool = False) -> Any:
            raise IntakeFull("64 requests wait")

    async with behind() as client:
        app = web.Application(middlewares=[failures])
        app.add_routes(write_routes(WriteDependencies(Full(), client.seen)))
        async with TestClient(TestServer(app)) as other:
            reply = await other.post(PATHS["Queue"], json=queue())
            assert (reply.status, reply.headers["Retry-After"]) == (429, "0.2")


def test_yaml_has_to_be_small_and_json_not() -> None:
    big = queue() | {"metadata": {"name": "q", "annotations": {"a": "x" * (2 << 20)}}}
    data = orjson.dumps(big)
    assert patch_of(data, APPLY) == object_of(data, "application/json") == big
    for read, type in ((patch_of, APPLY), (object_of, "application/yaml")):
        with pytest.raises(Problem, match="larger than 1048576 bytes"):
            read(b"# YAML\n" + data, type)
