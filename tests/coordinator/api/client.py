"""A client that speaks what it is told to, for what kubectl never sends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/ns/pods"
SECONDS = 60.0

Json = dict[str, Any]


class Lines:
    """An open watch, read event by event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Json:
        async with asyncio.timeout(SECONDS):
            line = await self.response.content.readline()
        assert line, "the watch ended"
        event: Json = orjson.loads(line)
        return event

    async def named(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def end(self) -> list[Json]:
        """Everything up to the end, which must come."""
        async with asyncio.timeout(SECONDS):
            return [orjson.loads(line) async for line in self.response.content]


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(
        self, path: str, *, code: Any = 200, accept: str = "application/json", **query: Any
    ) -> Json:
        """The JSON answer, which must have this code."""
        async with self.session.get(path, params=query, headers={"Accept": accept}) as answer:
            text = await answer.read()
            assert answer.status == code, text
            value: Json = orjson.loads(text)
            return value

    async def names(self, path: str, **query: Any) -> list[str]:
        return [o["metadata"]["name"] for o in (await self.get(path, **query))["items"]]

    async def text(self, path: str) -> tuple[int, str]:
        async with self.session.get(path) as answer:
            return answer.status, await answer.text()

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, *, accept: str = "application/json", **query: Any
    ) -> AsyncIterator[Lines]:
        async with self.session.get(
            path, params={"watch": "true"} | query, headers={"Accept": accept}
        ) as answer:
            assert answer.status == 200, await answer.read()
            yield Lines(answer)
