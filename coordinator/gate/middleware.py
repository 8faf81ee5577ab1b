"""Asks everyone who comes for a token, before anything of the request is looked at."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.gate.body_room import BodyRoom
from coordinator.gate.principal import ANYONE, CALLER, NOBODY, STANDS, Principal
from coordinator.gate.rules import needed
from coordinator.gate.token_file import TokenFile
from coordinator.kube.failures import failure
from coordinator.kube.problems import Problem
from shared.errors import shown

log = structlog.get_logger(__name__)

KEY = web.RequestKey("principal", Principal)
"""Where a request has its principal."""

CHALLENGE = 'Bearer realm="quadrant"'


def middleware(tokens: TokenFile | None) -> Middleware:
    """``request[KEY]`` is there for every handler. ``tokens`` None: anyone may do all."""
    room = BodyRoom()

    @web.middleware
    async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
        principal = ANYONE if tokens is None else NOBODY
        stands = _always
        if tokens is not None:
            resource = request.match_info.route.resource
            role = needed(request.method, None if resource is None else resource.canonical)
            if role is not None:
                try:
                    principal, stands = _known(request, tokens)
                except Problem as problem:
                    return _challenged(request, problem)
                if principal.role < role:
                    raise _forbidden(request, principal, role.word)
        request[KEY] = principal
        token, standing = CALLER.set(principal), STANDS.set(stands)
        try:
            if tokens is None:  # nobody to share with
                return await handler(request)
            with room.taken(principal.name, request):
                return await handler(request)
        finally:
            CALLER.reset(token)
            STANDS.reset(standing)

    return gate


def _always() -> bool:
    return True


def _known(request: web.Request, tokens: TokenFile) -> tuple[Principal, Callable[[], bool]]:
    """Whose token it is, and what tells later whether it still is."""
    header = request.headers.get("Authorization", "")
    scheme, _, token = header.partition(" ")
    if not header:
        raise _unauthorized("no token; send Authorization: Bearer TOKEN")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized("Authorization is not of the form Bearer TOKEN; send it so")
    given = token.strip()
    found = tokens.find(given)
    if found is None:
        log.info("Refused an unknown token", path=shown(request.path), peer=request.remote)
        raise _unauthorized("this token is not known; ask who runs the server for one")
    return found, lambda: tokens.find(given) == found


def _unauthorized(message: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "Unauthorized", message)


def _challenged(request: web.Request, problem: Problem) -> web.Response:
    answer = failure(request, problem)
    answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def _forbidden(request: web.Request, principal: Principal, role: str) -> Problem:
    message = (
        f"{request.method} {shown(request.path)} needs role {role}; the token "
        f"{principal.name} has role {principal.role.word}; use one that has more"
    )
    return Problem(HTTPStatus.FORBIDDEN, "Forbidden", message)
