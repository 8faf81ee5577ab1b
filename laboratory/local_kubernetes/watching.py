"""Every change of the objects below a path, across cut streams and restarts of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.errors import UnexpectedAnswer

_PAUSE = 0.1
"""Seconds after a failed request."""


async def changes(client: ApiClient, path: str, **query: Any) -> AsyncIterator[tuple[str, Json]]:
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
            ) as answer:
                async for line in answer.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, UnexpectedAnswer, orjson.JSONDecodeError, TimeoutError):
            await asyncio.sleep(_PAUSE)  # the server is away, or overloaded
