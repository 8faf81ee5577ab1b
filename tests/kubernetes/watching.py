"""Every change of the objects below a path, across cut streams and restarts of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import orjson

from tests.coordinator.api.client import Json
from tests.kubernetes.client import ApiClient

_PAUSE = 0.1
"""Seconds after a failed request."""


async def changes(client: ApiClient, path: str, **query: str) -> AsyncIterator[tuple[str, Json]]:
    """Pairs (``ADDED`` | ``MODIFIED`` | ``DELETED``, object), for ever.

    After an expired version everything is listed anew, as ADDED; what was deleted meanwhile is
    not told.
    """
    version = ""
    while True:
        try:
            if not version:
                listed = await client.get(path, **query)
                version = listed["metadata"]["resourceVersion"]
                for item in listed["items"]:
                    yield "ADDED", item
            async with client.watch(
                path, resourceVersion=version, allowWatchBookmarks="true", **query
            ) as lines:
                async for line in lines.response.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, AssertionError, orjson.JSONDecodeError, TimeoutError):
            await asyncio.sleep(_PAUSE)  # the server is away, or overloaded
