"""The HTTP side of the service: its parts, health checks, and shutdown.

Shutdown goes in steps: report not ready; refuse writes; end open streams; close the remaining
connections.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from coordinator.api.app import Refresh, make_app, served_checks
from coordinator.api.http.failures import failures
from coordinator.api.http.health import HealthCheck, health_answer, health_routes
from coordinator.api.http.responses import signed
from coordinator.api.listener.listener import Listener, ListenerOptions
from coordinator.api.listener.provenance import provenance
from coordinator.api.parser.pool import Parsers
from coordinator.api.read.source import Source
from coordinator.api.read.streaming import Streams
from coordinator.api.write.bulk import SubmitItems
from coordinator.cluster.protocol import ClusterTimeout
from coordinator.cluster.simulated.client import ClusterError
from coordinator.core.coordinator import Coordinator
from coordinator.errors import Problem
from coordinator.intake.admission.result import Admission
from shared.ledger.errors import LedgerError
from shared.slices import Steps

LOOK_SECONDS = 1.0
"""Interval of the checks whether ledger and cluster answer."""
ANSWER_SECONDS = 3.0
"""Without an answer within this time a check fails."""
SLOW_SECONDS = 5.0
"""A list that waits longer than this suggests that intake hangs."""
CONNECTIONS_SECONDS = 3.0
"""Time for connections to close after their streams were ended."""
STANDBY_CONNECTIONS_SECONDS = 0.5
"""The same for a standby, which has no long answers and takes the leadership afterwards."""
STANDBY_SECONDS = 0.5
"""Retry-After of a server that does not lead: another does, or will soon."""


@dataclass(frozen=True, slots=True)
class ServedParts:
    """The parts that the HTTP server serves; see :func:`coordinator.api.app.make_app`."""

    core: Coordinator
    submit: SubmitItems
    status: Callable[[], dict[str, Any]]
    started: Callable[[], bool]
    """Whether a worker has been up."""
    ledger: Callable[[], Awaitable[object]]
    """Makes a small request to the ledger."""
    cluster: Callable[[], Awaitable[object]]
    metrics: Callable[[], Steps[bytes]]
    policy_error: Callable[[], str]
    """Why the policy file is not in use; "" if it is."""
    refresh_status: Refresh
    refresh_metrics: Refresh
    """Updates expensive counts before they are shown."""
    list_codes: Counter[int]
    objects: Source | None = None
    streams: Streams | None = None
    """Streams of these objects, where routes have streams too."""
    parsers: Parsers | None = None
    routes: Iterable[web.RouteDef] = ()
    virtual: Iterable[tuple[str, dict[str, Any]]] = ()
    middlewares: Iterable[Middleware] = ()
    checks: Sequence[HealthCheck] = ()
    """Checks in addition to those of this module."""
    listener: ListenerOptions = field(default_factory=ListenerOptions)


class Serving:
    def __init__(self, door: ServedParts) -> None:
        self._door = door
        self._submits: dict[object, float] = {}
        self._wrong = {"ledger": "not asked yet", "cluster": "not asked yet"}
        self._closed = asyncio.Event()
        self.streams = door.streams
        if self.streams is None and door.objects is not None:
            self.streams = Streams(door.objects)
        self.stopping = False

    def ready(self) -> bool:
        return self._door.started() and not self.stopping

    def app(self) -> web.Application:
        door = self._door
        return make_app(
            submit=self._submit,
            status=door.status,
            ready=self.ready,
            metrics=door.metrics,
            refresh_status=door.refresh_status,
            refresh_metrics=door.refresh_metrics,
            list_codes=door.list_codes,
            objects=door.objects,
            streams=self.streams,
            parsers=door.parsers,
            checks=self.checks(),
            stopping=lambda: self.stopping,
            routes=door.routes,
            dialect=door.core.order.session.policy.dialect,
            virtual=door.virtual,
            middlewares=[*_first(door.listener), *door.middlewares],
        )

    async def run(self, host: str, port: int) -> None:
        """Serve until :meth:`close`."""
        listener = Listener(self.app(), self._door.listener, shutdown_seconds=CONNECTIONS_SECONDS)
        try:
            async with asyncio.TaskGroup() as group, listener.open(host, port, group):
                asks = [
                    group.create_task(self._ask("ledger", self._door.ledger)),
                    group.create_task(self._ask("cluster", self._door.cluster)),
                ]
                await self._closed.wait()
                for ask in asks:
                    ask.cancel()
                self.stopping = True
        finally:
            self.stopping = True

    def stop(self) -> None:
        """Refuse writes from now on, and report not ready."""
        self.stopping = True

    def close(self) -> None:
        """End the streams, then the server; :meth:`run` returns afterwards."""
        self.stopping = True
        self._closed.set()

    # --- health -------------------------------------------------------------------------------

    def checks(self) -> list[HealthCheck]:
        """The health checks. All read known state; none blocks."""
        return [
            HealthCheck("ledger", lambda: self._wrong["ledger"]),
            HealthCheck("workers", self._workers),
            HealthCheck("cluster", lambda: self._wrong["cluster"]),
            HealthCheck("all_workers", self._all_workers, needed=False),
            HealthCheck("policy", self._policy, needed=False),
            HealthCheck("intake", self._intake, needed=False),
            *([] if (tls := self._door.listener.tls) is None else [tls.check()]),
            *self._door.checks,
        ]

    def health(self) -> dict[str, Any]:
        """The answer of ``/health``."""
        return health_answer(served_checks(self.ready, lambda: self.stopping, self.checks()))

    def _down(self) -> list[int]:
        shards = self._door.core.dispatcher.shards.values()
        return [state.shard for state in shards if state.epoch is None]

    def _workers(self) -> str:
        down = len(self._down())
        everyone = len(self._door.core.dispatcher.shards)
        return f"none of {everyone} shard workers is up" if down == everyone else ""

    def _all_workers(self) -> str:
        down = self._down()
        shown = ", ".join(map(str, down[:10])) + (" ..." if len(down) > 10 else "")
        return f"no worker is up for {len(down)} shards: {shown}" if down else ""

    def _policy(self) -> str:
        error = self._door.policy_error()
        return f"an older policy counts: {error}" if error else ""

    def _intake(self) -> str:
        if self.stopping:
            return "it is stopping"
        oldest = min(self._submits.values(), default=time.monotonic())
        waited = time.monotonic() - oldest
        return f"a list waits since {waited:.0f} s" if waited > SLOW_SECONDS else ""

    async def _ask(self, name: str, question: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._look(name, question)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, name: str, question: Callable[[], Awaitable[object]]) -> None:
        """Make one request; its error, if any, is stored in ``_wrong``."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await question()
            self._wrong[name] = ""
        except TimeoutError:
            self._wrong[name] = f"no answer within {ANSWER_SECONDS:g} s"
        except (LedgerError, ClusterError, ClusterTimeout, OSError) as error:
            self._wrong[name] = f"{type(error).__name__}: {error}"[:200]

    async def _submit(self, items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
        me = object()
        self._submits[me] = time.monotonic()
        try:
            return await self._door.submit(items, atomic=atomic)
        finally:
            del self._submits[me]


def _first(options: ListenerOptions) -> list[Middleware]:
    """Middlewares that see every request before all others."""
    return [provenance(options.hosts, authenticated=options.authenticated)]


class StandbyServer:
    """The HTTP server of a standby: reports health and who leads, nothing else."""

    def __init__(self, leader: Callable[[], str], options: ListenerOptions) -> None:
        """``leader``: returns who leads, "" if unknown."""
        self._leader = leader
        self._options = options

    def open(
        self, host: str, port: int, group: asyncio.TaskGroup
    ) -> AbstractAsyncContextManager[None]:
        """Serve inside the context; see :meth:`Listener.open`."""
        return Listener(
            self.app(), self._options, shutdown_seconds=STANDBY_CONNECTIONS_SECONDS
        ).open(host, port, group)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[failures, *_first(self._options)])
        app.on_response_prepare.append(signed)
        app.add_routes(health_routes([HealthCheck("leading", self._why)]))
        app.router.add_route("*", "/{path:.*}", self._refuse)
        return app

    def _why(self) -> str:
        leader = self._leader()
        return f"it stands by: {leader} leads" if leader else "it is becoming the leader"

    async def _refuse(self, request: web.Request) -> web.StreamResponse:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"this coordinator does not lead: {self._why()}; ask that one, or again later",
            retry_after=STANDBY_SECONDS,
        )
