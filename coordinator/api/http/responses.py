"""Answers of plain JSON values."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web


def json_answer(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value), content_type="application/json")
