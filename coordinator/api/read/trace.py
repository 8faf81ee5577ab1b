"""``GET .../NAME/trace``: each step of a job's next turns, as one line of JSON each, live.

``?turns=`` (3) and ``?timeoutSeconds=`` (60) bound it. The last line has the stage ``end``, and
says why it ended.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import orjson
from aiohttp import ClientConnectionResetError, web

from coordinator.api.read.streaming import Streams, send
from coordinator.api.subresources import EXPLAINED, Handler, subresource_path
from coordinator.errors import Problem
from coordinator.explain.job_trace import JobTrace, Tracer
from coordinator.intake.documents.kinds import Kind
from shared.errors import shown

TURNS = 3
MOST_TURNS = 50
SECONDS = 60
MOST_SECONDS = 600
LONGEST_SECONDS = float(MOST_SECONDS)
POLL_SECONDS = 0.1
"""Interval at which new steps are sent; only while somebody reads them."""


def trace_routes(tracer: Tracer, streams: Streams) -> list[web.RouteDef]:
    return [
        web.get(subresource_path(kind, "trace"), _traces(tracer, streams, kind), allow_head=False)
        for kind in EXPLAINED
    ]


def _traces(tracer: Tracer, streams: Streams, kind: Kind) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        turns = _number(request, "turns", TURNS, most=MOST_TURNS)
        seconds = _number(request, "timeoutSeconds", SECONDS, most=MOST_SECONDS)
        at = request.match_info
        with (
            streams.one(),
            tracer.trace(kind.kind, at["namespace"], at["name"], turns=turns) as trace,
        ):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await _stream(request, response, streams, trace, seconds)
            return response

    return handler


async def _stream(
    request: web.Request,
    response: web.StreamResponse,
    streams: Streams,
    trace: JobTrace,
    seconds: int,
) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + min(seconds, LONGEST_SECONDS)
    while True:
        why = trace.ended
        if not why and streams.ended:
            why = "the server is stopping, or the token is no longer valid"
        elif not why and clock() >= end:
            why = f"{seconds} s are over"
        steps = trace.take()
        if why:
            steps.append({"stage": "end", "message": why})
        if steps:
            lines = b"".join(orjson.dumps(step) + b"\n" for step in steps)
            await send(request, response, lines, seconds=streams.send_seconds)
        if why:
            return
        if request.transport is None or request.transport.is_closing():
            raise ClientConnectionResetError("the client left")
        await asyncio.sleep(POLL_SECONDS)


def _number(request: web.Request, name: str, usual: int, *, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most):
        raise Problem(
            HTTPStatus.BAD_REQUEST, f"{name}={shown(text)}: write a number from 1 to {most}"
        )
    return int(text)
