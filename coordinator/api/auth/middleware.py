"""Authentication: checks the token of every request before anything else of it is read.

A token of the file has a role. Any other one is the API server's to know, where reviews are on: it
says who that is, and whether they may do just this (decision 0093).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.api.auth.access import Access, PathAccess, ResourceAccess, access_of
from coordinator.api.auth.gate import Gate
from coordinator.api.auth.reviews import (
    AccessRefused,
    ReviewedUser,
    ReviewFailed,
    Reviews,
    TokenUnknown,
    TooManyBadTokens,
)
from coordinator.api.auth.roles import needed, shows_all_namespaces
from coordinator.api.auth.tokens import PREFIX
from coordinator.api.http.failures import failure
from coordinator.errors import Problem
from coordinator.intake.body_budget import BodyRoom
from coordinator.intake.principal import (
    ANYONE,
    CALLER,
    NOBODY,
    STANDS,
    Principal,
    TokenRole,
    may_reach,
)
from shared.errors import shown
from shared.units.amount_text import some

log = structlog.get_logger(__name__)

KEY = web.RequestKey("principal", Principal)
"""Key of a request's principal."""

CHALLENGE = 'Bearer realm="quadrant"'

FORWARDED = "X-Quadrant-Authorization"
"""Counts before ``Authorization``: an API server's proxy takes that header away."""

Stands = Callable[[], bool]
"""Whether a request that lasts may go on."""


def middleware(gate: Gate) -> Middleware:
    """The middleware, which sets ``request[KEY]`` for every handler."""
    room = BodyRoom()

    @web.middleware
    async def gated(request: web.Request, handler: Handler) -> web.StreamResponse:
        if gate.open:  # nobody to share with
            with _as(request, ANYONE, _always):
                return await handler(request)
        with contextlib.ExitStack() as stack:
            try:
                principal, stands = await _admitted(request, gate, stack)
            except Problem as problem:
                return _answered(request, problem)
            stack.enter_context(_as(request, principal, stands))
            stack.enter_context(room.taken(principal.name, request))
            return await handler(request)

    return gated


@contextlib.contextmanager
def _as(request: web.Request, principal: Principal, stands: Stands) -> Iterator[None]:
    request[KEY] = principal
    token, standing = CALLER.set(principal), STANDS.set(stands)
    try:
        yield
    finally:
        CALLER.reset(token)
        STANDS.reset(standing)


def _always() -> bool:
    return True


async def _admitted(
    request: web.Request, gate: Gate, stack: contextlib.ExitStack
) -> tuple[Principal, Stands]:
    """Authenticate and authorize the request; return the sender and a test that the permission
    still holds. Resources that last as long as the request go on the stack. Raises Problem."""
    route = _route(request)
    role = needed(request.method, route)
    if role is None:
        return NOBODY, _always
    sent = _sent_token(request)
    if (tokens := gate.tokens) is not None and (principal := tokens.find(sent)) is not None:
        if principal.role < role:
            raise _forbidden(request, principal, role.word)
        _check_namespace(request, principal)
        # By the token and not once for all: a watch of an hour ends when its token is revoked, or
        # its rights change.
        return principal, lambda: tokens.find(sent) == principal
    # One of ours that is not in the file is told to nobody; what is not ASCII is none (RFC 6750).
    if (rechecks := gate.rechecks) is None or sent.startswith(PREFIX) or not sent.isascii():
        raise _unknown(request, "this token is not known; ask who runs the server for one")
    access = None if route is None else _access(request, route)
    judged = await _judged(request, rechecks.reviews, sent, access)
    stands = stack.enter_context(rechecks.opened(sent, access, judged))
    # The API server has judged this very request, and where it judges no objects are written here.
    return Principal(judged.user.name, TokenRole.ADMIN), stands


def _route(request: web.Request) -> str | None:
    resource = request.match_info.route.resource
    return None if resource is None else resource.canonical


def _access(request: web.Request, route: str) -> Access | None:
    watch = request.query.get("watch", "false") not in ("0", "false", "False")
    return access_of(request.method, route, request.match_info, watch=watch)


async def _judged(
    request: web.Request, reviews: Reviews, token: str, access: Access | None
) -> ReviewedUser:
    """Raises Problem."""
    try:
        return await reviews.judge(token, access, source=request.remote or "")
    except TokenUnknown:
        message = (
            "the Kubernetes cluster does not know this token, or it is not one for Quadrant; make "
            "one with kubectl create token NAME --audience quadrant"
        )
        raise _unknown(request, message) from None
    except TooManyBadTokens as error:
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many tokens came from this address that the Kubernetes cluster does not know; "
            "send a good one, later",
            retry_after=error.seconds,
        ) from None
    except AccessRefused as refusal:
        assert access is not None
        raise _refused(refusal, access) from None
    except ReviewFailed as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"nobody can tell who this is and what they may do: {error}; until then every request "
            "with a token of the cluster is refused; send it again later",
            retry_after=1.0,
        ) from None


def _sent_token(request: web.Request) -> str:
    """Raises Problem."""
    name = FORWARDED if FORWARDED in request.headers else "Authorization"
    header = request.headers.get(name, "")
    if not header:
        raise _unauthorized("no token; send Authorization: Bearer TOKEN")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized(f"{name} is not of the form Bearer TOKEN; send it so")
    return token.strip()


def _unknown(request: web.Request, message: str) -> Problem:
    log.info("Refused an unknown token", path=shown(request.path), peer=request.remote)
    return _unauthorized(message)


def _refused(refusal: AccessRefused, access: Access) -> Problem:
    """In the words of an API server, with the remedy."""
    user = f"User {_quoted(refusal.user.name)} cannot"
    why = f" ({refusal.reason})" if refusal.reason else ""
    remedy = "; have a Role or ClusterRole bound to them that allows it"
    match access:
        case PathAccess(verb, path):
            message = f"{_quoted(path)} is forbidden: {user} {verb} path {_quoted(path)}"
            return Problem(HTTPStatus.FORBIDDEN, message + why + remedy)
        case ResourceAccess():
            resource, namespace = _quoted(access.full_resource), _quoted(access.namespace)
            place = f"in the namespace {namespace}" if access.namespace else "at the cluster scope"
            return Problem(
                HTTPStatus.FORBIDDEN,
                f"{access.full_resource} {_quoted(access.name)} is forbidden: {user} {access.verb} "
                f"resource {resource} in API group {_quoted(access.group)} {place}{why}{remedy}",
                kind=access.resource,
                group=access.group,
                name=access.name,
            )


def _quoted(text: str) -> str:
    return f'"{shown(text)[1:-1]}"'


def _check_namespace(request: web.Request, principal: Principal) -> None:
    """Raise Problem if the path is in a namespace, or spans all, that the principal may not
    access."""
    if principal.namespaces is None:
        return
    has = some(sorted(principal.namespaces), 5)
    namespace = request.match_info.get("namespace")
    route = _route(request)
    if namespace is not None and not may_reach(principal, namespace):
        message = f"namespace {shown(namespace)} is not for the token {principal.name}: "
    elif route is not None and shows_all_namespaces(route):
        message = (
            f"{shown(request.path)} shows all namespaces, the token {principal.name} may not: "
        )
    else:
        return
    message += f"it is for {has} only; name one of them"
    raise Problem(HTTPStatus.FORBIDDEN, message)


def _unauthorized(message: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, message)


def _answered(request: web.Request, problem: Problem) -> web.Response:
    answer = failure(request, problem)
    if problem.status is HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def _forbidden(request: web.Request, principal: Principal, role: str) -> Problem:
    message = (
        f"{request.method} {shown(request.path)} needs role {role}; the token "
        f"{principal.name} has role {principal.role.word}; use one that has more"
    )
    return Problem(HTTPStatus.FORBIDDEN, message)
