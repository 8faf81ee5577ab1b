"""Turns every failure into an answer in the path's format, without a traceback."""

from __future__ import annotations

import logging
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from coordinator.errors import Problem, rendered
from shared.errors import shown

log = structlog.get_logger(__name__)

LONGEST_URL = 4096
"""Maximum characters of path and query; longer URLs are refused before they are parsed."""
LONGEST_REASON = 120


class OneLine(logging.Filter):
    """Shortens aiohttp's log of malformed HTTP requests to one line. It answers them with 400 and
    would log a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            text = " ".join(str(error).split())
            log.info("Refused what is no request", why=text[:LONGEST_REASON])
            return False
        return True


ONE_LINE = OneLine()


@web.middleware
async def failures(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The outermost middleware."""
    try:
        if len(request.path_qs) > LONGEST_URL:
            raise Problem(
                HTTPStatus.REQUEST_URI_TOO_LONG,
                f"the URL has more than {LONGEST_URL} characters; ask for less at once",
            )
        return await handler(request)
    except Problem as problem:
        return failure(request, problem)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return _of_the_server(request, error)
    except Exception as error:
        if _client_left(request, error):
            return web.Response()  # to nobody, and no news for the log
        log.exception("A request failed", method=request.method, path=shown(request.path))
        message = "an error of the server, which is in its log; the request may be sent again"
        return failure(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, message))


def _client_left(request: web.Request, error: Exception) -> bool:
    """Whether it failed because the client closed the connection.

    aiohttp has two errors for this: one for a read that is waiting, one for a read that begins
    after the end.
    """
    if isinstance(error, RuntimeError):
        return request.transport is None
    return isinstance(error, ConnectionResetError)


def failure(request: web.Request, problem: Problem) -> web.Response:
    code, headers, body = rendered(problem, request.path)
    return web.Response(status=code, headers=headers, body=body)


def _of_the_server(request: web.Request, error: web.HTTPException) -> web.Response:
    """The answer to a request that aiohttp itself refused: an unknown path, method or size."""
    status = HTTPStatus(error.status)
    answer = failure(request, Problem(status, _said(request, status)))
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer


def _said(request: web.Request, status: HTTPStatus) -> str:
    match status:
        case HTTPStatus.NOT_FOUND:
            return f"{shown(request.path)} does not exist; /apis lists what does"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return f"{request.method} is not possible here; see the Allow header"
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return "the body is too large; send less at once"
        case _:
            return status.description or status.phrase
