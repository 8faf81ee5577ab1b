"""A span per request if tracing is on."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.errors import Problem
from shared.telemetry.tracing import request_span, tracing


def traces() -> list[Middleware]:
    """The middleware; empty without tracing, so that requests cost nothing extra."""
    return [_traced] if tracing() else []


@web.middleware
async def _traced(request: web.Request, handler: Handler) -> web.StreamResponse:
    resource = request.match_info.route.resource
    route = "" if resource is None else resource.canonical
    with request_span(request.method, route, request.headers) as span:
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            answer = await handler(request)
            status = answer.status
            return answer
        except (Problem, web.HTTPException) as error:
            status = int(error.status)
            raise
        finally:
            if span is not None:
                span.set_attribute("http.response.status_code", status)
