"""Loop of the controller doubles: each looks at everything again and again, and writes what is
missing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import aiohttp

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.errors import UnexpectedAnswer

ROUND_SECONDS = 0.4

Round = Callable[[ApiClient], Awaitable[None]]


async def rounds_forever(client: ApiClient, *controllers: Round) -> None:
    """One look of each in turns. Where the server does not answer, the next look comes in time."""
    while True:
        for look in controllers:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, UnexpectedAnswer):
                await look(client)
        await asyncio.sleep(ROUND_SECONDS)


async def patch_as_seen(client: ApiClient, path: str, seen: Json, change: Json) -> bool:
    """Merge a change into an object if it is still as it was seen. Raises UnexpectedAnswer where
    the server refuses it for another reason."""
    metadata = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    body = change | {"metadata": change.get("metadata", {}) | metadata}
    answer = await client.patch(path, body, code=None)
    code = answer.get("code", 0) if answer.get("kind") == "Status" else HTTPStatus.OK
    if code not in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
        raise UnexpectedAnswer(str(answer))
    return code == HTTPStatus.OK
