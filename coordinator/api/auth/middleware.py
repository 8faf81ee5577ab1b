"""Authentication: checks the token of every request before anything else of it is read."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.api.auth.roles import needed, shows_all_namespaces
from coordinator.api.auth.token_file import TokenFile
from coordinator.api.http.failures import failure
from coordinator.errors import Problem
from coordinator.intake.body_budget import BodyRoom
from coordinator.intake.principal import ANYONE, CALLER, NOBODY, STANDS, Principal, may_reach
from shared.errors import shown

log = structlog.get_logger(__name__)

KEY = web.RequestKey("principal", Principal)
"""Key of a request's principal."""

CHALLENGE = 'Bearer realm="quadrant"'


def middleware(tokens: TokenFile | None) -> Middleware:
    """The middleware, which sets ``request[KEY]`` for every handler. ``tokens`` None: anyone may do
    everything."""
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
                _check_namespace(request, principal)
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


def _check_namespace(request: web.Request, principal: Principal) -> None:
    """Raise Problem if the path is in a namespace, or spans all, that the principal may not
    access."""
    if principal.namespaces is None:
        return
    has = ", ".join(sorted(principal.namespaces))
    namespace = request.match_info.get("namespace")
    resource = request.match_info.route.resource
    if namespace is not None and not may_reach(principal, namespace):
        message = f"namespace {shown(namespace)} is not for the token {principal.name}: "
    elif resource is not None and shows_all_namespaces(resource.canonical):
        message = (
            f"{shown(request.path)} shows all namespaces, the token {principal.name} may not: "
        )
    else:
        return
    message += f"it is for {has} only; name one of them"
    raise Problem(HTTPStatus.FORBIDDEN, message)


def _always() -> bool:
    return True


def _known(request: web.Request, tokens: TokenFile) -> tuple[Principal, Callable[[], bool]]:
    """The token's principal, and a function that tells later whether the token is still valid."""
    header = request.headers.get("Authorization", "")
    scheme, _, token = header.partition(" ")
    if not header:
        raise _unauthorized("no token; send Authorization: Bearer TOKEN")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized("Authorization is not of the form Bearer TOKEN; send it so")
    sent = token.strip()
    principal = tokens.find(sent)
    if principal is None:
        log.info("Refused an unknown token", path=shown(request.path), peer=request.remote)
        raise _unauthorized("this token is not known; ask who runs the server for one")
    # By the token and not once for all: a watch of an hour ends when its token is revoked, or its
    # rights change.
    return principal, lambda: tokens.find(sent) == principal


def _unauthorized(message: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, message)


def _challenged(request: web.Request, problem: Problem) -> web.Response:
    answer = failure(request, problem)
    answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def _forbidden(request: web.Request, principal: Principal, role: str) -> Problem:
    message = (
        f"{request.method} {shown(request.path)} needs role {role}; the token "
        f"{principal.name} has role {principal.role.word}; use one that has more"
    )
    return Problem(HTTPStatus.FORBIDDEN, message)
