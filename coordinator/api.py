"""The HTTP door: lists of objects in, an answer per object out; health, metrics and counts.

==================================================  ============================================
``POST /apis/quadrant.dev/v1alpha1/lists``          a JSON List; each object is judged alone, with
                                                    ``?atomic=true`` all are taken or none
``GET /apis/quadrant.dev/v1alpha1/status``          counts, for progress and the final table
``GET /livez``, ``/readyz``, ``/metrics``           for probes and Prometheus
==================================================  ============================================

Below ``/apis`` an error is a Kubernetes ``Status``; elsewhere it is ``application/problem+json``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import orjson
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coordinator.intake import Admission, Notice
from coordinator.intake_writer import IntakeFull
from shared.errors import Refusal, shown
from shared.telemetry import METRICS

log = structlog.get_logger(__name__)

BASE = "/apis/quadrant.dev/v1alpha1"
RETRY_AFTER = "0.2"
"""Seconds a client should wait when the door is full: a store takes a few milliseconds."""


class Submit(Protocol):
    def __call__(
        self, items: list[dict[str, Any]], *, atomic: bool = False
    ) -> Awaitable[Admission]:
        """Judge and store; raises IntakeFull at once where too many requests wait."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all waiting ones together, may cost."""

    body_bytes: int = 16 << 20
    objects: int = 20_000
    waiting_bytes: int = 128 << 20
    """Bodies that are being read, judged or stored; beyond it the answer is 429."""
    body_seconds: float = 20.0
    store_seconds: float = 25.0


class ApiError(Exception):
    """An answer other than the wanted one. ``reason`` is Kubernetes' word for it."""

    def __init__(
        self,
        status: HTTPStatus,
        reason: str,
        message: str,
        *,
        refused: list[dict[str, str]] | None = None,
        retry: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.refused = refused
        self.retry = retry


def make_app(
    submit: Submit,
    status: Callable[[], dict[str, Any]],
    ready: Callable[[], bool],
    metrics_registry: CollectorRegistry | None = None,
    *,
    limits: Limits | None = None,
    list_codes: Counter[int] | None = None,
) -> web.Application:
    """The application. ``status`` gives plain JSON values. Serve it with the access log off.

    ``metrics_registry`` None shows this process's own series. ``list_codes`` counts the answers to
    lists by HTTP status.
    """
    limits = limits or Limits()
    app = web.Application(middlewares=[_errors], client_max_size=limits.body_bytes)
    door = _Door(submit, limits)
    app.router.add_post(f"{BASE}/lists", _counted(door.lists, list_codes))
    app.router.add_get(f"{BASE}/status", _shows(lambda: _json(status())))
    app.router.add_get("/livez", _shows(lambda: web.Response(text="ok\n")))
    app.router.add_get("/readyz", _shows(lambda: _readiness(ready())))
    app.router.add_get("/metrics", _shows(lambda: _metrics(metrics_registry)))
    return app


def _shows(make: Callable[[], web.Response]) -> Handler:
    """A handler that looks at nothing of the request."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return make()

    return handler


def _counted(handler: Handler, codes: Counter[int] | None) -> Handler:
    """The same handler; its answers are counted."""
    if codes is None:
        return handler

    async def counted(request: web.Request) -> web.StreamResponse:
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            response = await handler(request)
            status = response.status
        except ApiError as error:
            status = error.status
            raise
        finally:
            codes[int(status)] += 1
        return response

    return counted


def _readiness(ready: bool) -> web.Response:
    if ready:
        return web.Response(text="ok\n")
    return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="not ready\n")


def _metrics(registry: CollectorRegistry | None) -> web.Response:
    body = generate_latest(METRICS.registry if registry is None else registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


# --- lists ------------------------------------------------------------------------------------


class _Door:
    """Takes lists in, as many at a time as the limits allow."""

    def __init__(self, submit: Submit, limits: Limits) -> None:
        self._submit = submit
        self._limits = limits
        self._waiting = 0

    async def lists(self, request: web.Request) -> web.Response:
        atomic = _atomic(request)
        if request.content_type != "application/json":
            raise ApiError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                f"Content-Type is {request.content_type}; send application/json",
            )
        size = self._size(request)
        self._waiting += size
        try:
            items = _items(await self._body(request), self._limits)
            admission = await self._store(items, atomic=atomic)
        finally:
            self._waiting -= size
        refused = [_refusal(r) for r in admission.refused]
        if atomic and refused:
            raise ApiError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "Invalid",
                f"nothing was taken: {len(refused)} of {len(items)} objects are wrong, "
                f"the first: {admission.refused[0]}",
                refused=refused,
            )
        return _json(
            {
                "accepted": admission.accepted,
                "unchanged": admission.unchanged,
                "refused": refused,
                "notices": [_notice(n) for n in admission.notices],
            }
        )

    def _size(self, request: web.Request) -> int:
        """Bytes to set aside for a body; one that does not say its size counts as the largest."""
        size = request.content_length
        size = self._limits.body_bytes if size is None else size
        if size > self._limits.body_bytes:
            raise _too_large(self._limits)
        if self._waiting and self._waiting + size > self._limits.waiting_bytes:
            raise _full(f"{self._waiting} bytes of lists wait to be stored")
        return size

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._limits) from error
        except TimeoutError as error:
            message = "the body did not arrive in time; send it again"
            raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "Timeout", message) from error

    async def _store(self, items: list[dict[str, Any]], *, atomic: bool) -> Admission:
        try:
            async with asyncio.timeout(self._limits.store_seconds):
                return await self._submit(items, atomic=atomic)
        except IntakeFull as error:
            raise _full(str(error)) from error
        except TimeoutError as error:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "not stored in time, but it may still be; send the same list again, that is safe",
                retry=True,
            ) from error


def _atomic(request: web.Request) -> bool:
    for name in request.query:
        if name != "atomic":
            raise _bad(f"query parameter {shown(name)} is unknown; leave it out")
    value = request.query.get("atomic", "false")
    if value not in ("true", "false"):
        raise _bad(f"atomic is {shown(value)}; write true or false")
    return value == "true"


def _items(body: bytes, limits: Limits) -> list[dict[str, Any]]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _bad(f"the body is not JSON: {error}; send a List as JSON") from error
    if not isinstance(value, dict):
        raise _bad("the body is not an object; send a List with apiVersion, kind and items")
    for field, wanted in (("apiVersion", "v1"), ("kind", "List")):
        if value.get(field) != wanted:
            raise _bad(f"{field} is {shown(value.get(field)) or 'missing'}; write {wanted}")
    unknown = value.keys() - {"apiVersion", "kind", "metadata", "items"}
    if unknown:
        raise _bad(f"{shown(min(unknown))} is no field of a List; leave it out")
    items = value.get("items")
    if not isinstance(items, list):
        raise _bad("items is not a list; write the objects between [ and ]")
    if len(items) > limits.objects:
        raise _bad(f"items holds {len(items)} objects; send at most {limits.objects} at a time")
    return items


def _refusal(refusal: Refusal) -> dict[str, str]:
    reason, _, remedy = refusal.message.partition("; ")
    return {
        "kind": refusal.kind,
        "name": refusal.name,
        "field": refusal.field,
        "value": refusal.value,
        "message": refusal.message,
        "reason": reason,
        "remedy": remedy,
    }


def _notice(notice: Notice) -> dict[str, str | int]:
    return {
        "kind": notice.kind,
        "name": notice.name,
        "message": notice.message,
        "count": notice.count,
    }


# --- errors -----------------------------------------------------------------------------------


def _bad(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def _full(why: str) -> ApiError:
    message = f"{why}; send the list again after the time in Retry-After"
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", message, retry=True)


def _too_large(limits: Limits) -> ApiError:
    message = f"the body is larger than {limits.body_bytes} bytes; send smaller lists"
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", message)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure becomes an answer in the form of its path; none shows a traceback."""
    try:
        return await handler(request)
    except ApiError as error:
        return _failure(request, error)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        status = HTTPStatus(error.status)
        reason = status.phrase.replace(" ", "")
        failure = _failure(request, ApiError(status, reason, _said(request, status)))
        if "Allow" in error.headers:
            failure.headers["Allow"] = error.headers["Allow"]
        return failure
    except Exception:
        log.exception("A request failed", method=request.method, path=request.path)
        message = "an error of the server, which is in its log; the request may be sent again"
        return _failure(
            request, ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", message)
        )


def _said(request: web.Request, status: HTTPStatus) -> str:
    match status:
        case HTTPStatus.NOT_FOUND:
            return f"{shown(request.path)} does not exist; lists go to {BASE}/lists"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return f"{request.method} is not possible here; see the Allow header"
        case _:
            return status.description or status.phrase


def _failure(request: web.Request, error: ApiError) -> web.Response:
    headers = {"Retry-After": RETRY_AFTER} if error.retry else {}
    code = int(error.status)
    if not request.path.startswith("/api"):
        problem = {
            "type": "about:blank",
            "title": error.status.phrase,
            "status": code,
            "detail": error.message,
        }
        headers["Content-Type"] = "application/problem+json"
        return web.Response(status=code, body=orjson.dumps(problem), headers=headers)
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": code,
    }
    if error.refused is not None:
        body["details"] = {"refused": error.refused}
    response = _json(body)
    response.set_status(code)
    response.headers.update(headers)
    return response


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
