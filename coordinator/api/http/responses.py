"""Answers of plain JSON values, and the name that every answer has."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web


def json_answer(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value), content_type="application/json")


SERVER = "quadrant"
"""Header of every answer, so that a client behind somebody's proxy knows whose answer it is."""


async def signed(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER
