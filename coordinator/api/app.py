"""The HTTP door of the coordinator, put together.

==================================================  ============================================
``/api``, ``/apis``, ``/version``, ``/openapi/v3``  discovery, for kubectl and other clients
``/api/v1/...``, ``/apis/GROUP/VERSION/...``        objects: get, list, watch; what writes is
                                                    given by ``routes``
``POST /apis/quadrant.dev/v1alpha1/lists``          a JSON List; each object is judged alone, with
                                                    ``?atomic=true`` all are taken or none
``GET /apis/quadrant.dev/v1alpha1/status``          counts, for progress and the final table
``GET /stream``                                     changes as server-sent events
``GET /ui/``                                        the page (``/`` leads there)
``GET /livez``, ``/readyz``, ``/health``            for probes and people (``/healthz``: livez)
``GET /metrics``                                    for Prometheus
==================================================  ============================================

Below ``/apis`` an error is a Kubernetes ``Status``; elsewhere it is ``application/problem+json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coordinator.api.discovery.discovery import discovery_routes
from coordinator.api.discovery.openapi import openapi_routes
from coordinator.api.http.failures import failures
from coordinator.api.http.health import HealthCheck, health_routes
from coordinator.api.http.responses import json_answer, signed
from coordinator.api.parser.pool import Parsers
from coordinator.api.read.list import listing_routes
from coordinator.api.read.server_sent_events import stream_routes
from coordinator.api.read.source import Source
from coordinator.api.read.streaming import Streams
from coordinator.api.write.bulk import BASE, BulkLimits, Lists, SubmitItems, counted
from coordinator.errors import Problem
from coordinator.intake.documents.kinds import kinds_of
from shared.policy.model import Dialect
from shared.slices import Steps, in_slices

STOPPING_SECONDS = 2.0
"""Retry-After of requests refused during shutdown, until another process leads."""


Refresh = Callable[[], Awaitable[None]]
"""Updates expensive counts, in slices, before they are shown."""


async def _nothing() -> None:
    """For counts that are computed when shown."""


def make_app(
    submit: SubmitItems,
    status: Callable[[], dict[str, Any]],
    ready: Callable[[], bool],
    metrics: Callable[[], Steps[bytes]] | None = None,
    *,
    refresh_status: Refresh = _nothing,
    refresh_metrics: Refresh = _nothing,
    limits: BulkLimits | None = None,
    list_codes: Counter[int] | None = None,
    objects: Source | None = None,
    streams: Streams | None = None,
    parsers: Parsers | None = None,
    checks: Sequence[HealthCheck] = (),
    stopping: Callable[[], bool] = lambda: False,
    routes: Iterable[web.RouteDef] = (),
    virtual: Iterable[tuple[str, dict[str, Any]]] = (),
    dialect: Dialect = Dialect.VOLCANO,
    middlewares: Iterable[Middleware] = (),
) -> web.Application:
    """Build the application. Serve it with the access log off.

    ``status`` returns plain JSON values. ``metrics`` None: no series are shown.
    ``list_codes`` counts answers to lists by HTTP status. Without ``objects`` nothing can be read;
    ``streams`` tracks open streams. ``parsers`` read large bodies; their creator closes them.
    ``routes`` are mounted as they are, and ``virtual`` is their discovery entries. ``dialect``: of
    the policy, whose kinds come first. ``middlewares``
    run inside the error handling and around everything else. Once ``stopping`` returns true, writes
    are refused.
    """
    limits = limits or BulkLimits()
    app = web.Application(
        middlewares=[failures, *middlewares, _open_until(stopping)],
        client_max_size=limits.body_bytes,
    )
    app.on_response_prepare.append(signed)
    lists = Lists(submit, limits, parsers or Parsers())
    app.router.add_post(f"{BASE}/lists", counted(lists.post, list_codes))
    app.router.add_get(f"{BASE}/status", _shows(lambda: json_answer(status()), refresh_status))
    app.router.add_get("/metrics", _metrics(metrics, refresh_metrics))
    app.add_routes(health_routes(served_checks(ready, stopping, checks)))
    app.add_routes(discovery_routes(virtual, kinds_of(dialect)))
    app.add_routes(openapi_routes())
    app.add_routes(routes)
    if objects is not None:
        streams = streams or Streams(objects)
        app.on_shutdown.append(streams.stop)
        app.add_routes(listing_routes(objects, streams))
        app.add_routes(stream_routes(objects, streams))
    return app


def served_checks(
    ready: Callable[[], bool], stopping: Callable[[], bool], checks: Sequence[HealthCheck]
) -> list[HealthCheck]:
    """The checks of the application's health: whether it serves at all, then its parts."""
    return [HealthCheck("serving", lambda: _unready(ready(), stopping())), *checks]


def _unready(ready: bool, stopping: bool) -> str:
    if stopping:
        return "it is stopping"
    return "" if ready else "no worker has been up yet"


def _open_until(stopping: Callable[[], bool]) -> Middleware:
    """While stopping, let reads finish and refuse writes, which the next leader will accept.

    Encoded bodies are refused at any time.
    """

    @web.middleware
    async def open_until(request: web.Request, handler: Handler) -> web.StreamResponse:
        if stopping() and request.method not in ("GET", "HEAD"):
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "this coordinator is stopping; send it again, its successor will take it",
                retry_after=STOPPING_SECONDS,
            )
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "Content-Encoding: bodies are taken as they are only; send it without",
            )
        return await handler(request)

    return open_until


def _shows(
    make: Callable[[], web.Response], refresh: Refresh
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that ignores the request."""

    async def handler(_: web.Request) -> web.Response:
        await refresh()
        return make()

    return handler


def _metrics(
    metrics: Callable[[], Steps[bytes]] | None, refresh: Refresh
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(_: web.Request) -> web.Response:
        await refresh()
        body = b"" if metrics is None else await in_slices(metrics())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return handler
