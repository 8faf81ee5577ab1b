"""The HTTP side of the service: what the door is made of, how well it is, how it closes.

Closing goes in steps: not ready any more; what would change something is refused; open streams are
told to end; what is left of connections is cut.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry

from coordinator.cluster.client import ClusterError
from coordinator.cluster.protocol import ClusterTimeout
from coordinator.core import Coordinator
from coordinator.intake import Admission
from coordinator.kube.app import make_app
from coordinator.kube.failures import ONE_LINE, failures
from coordinator.kube.health import Check, health_routes
from coordinator.kube.lists import Submit
from coordinator.kube.problems import Problem
from coordinator.kube.source import Source
from coordinator.kube.streaming import Streams
from shared.ledger.errors import LedgerError

LOOK_SECONDS = 1.0
"""How often ledger and cluster are asked whether they are there."""
ANSWER_SECONDS = 3.0
"""Without an answer for so long they are not."""
SLOW_SECONDS = 5.0
"""A list that waits longer than this is a sign that intake hangs."""
CONNECTIONS_SECONDS = 3.0
"""How long connections may take to end, after their streams were told to."""
STANDBY_SECONDS = 0.5
"""Retry-After of who does not lead: another does, or will soon."""
LONGEST_LINE = 8190
"""Bytes of a request's first line, and of each of its headers."""


@dataclass(frozen=True, slots=True)
class Door:
    """What stands behind the door; see :func:`coordinator.kube.app.make_app`."""

    core: Coordinator
    submit: Submit
    status: Callable[[], dict[str, Any]]
    started: Callable[[], bool]
    """Whether a worker has been up."""
    ledger: Callable[[], Awaitable[object]]
    """Asks the ledger for something small."""
    cluster: Callable[[], Awaitable[object]]
    metrics: CollectorRegistry
    list_codes: Counter[int]
    objects: Source | None = None
    routes: Iterable[web.RouteDef] = ()
    virtual: Iterable[tuple[str, dict[str, Any]]] = ()
    middlewares: Iterable[Middleware] = ()
    checks: Sequence[Check] = ()
    """Beyond those of this module."""


class Serving:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._submits: dict[object, float] = {}
        self._wrong = {"ledger": "not asked yet", "cluster": "not asked yet"}
        self._closed = asyncio.Event()
        self.streams = None if door.objects is None else Streams(door.objects)
        self.stopping = False

    def ready(self) -> bool:
        return self._door.started() and not self.stopping

    def app(self) -> web.Application:
        door = self._door
        return make_app(
            submit=self._submit,
            status=door.status,
            ready=self.ready,
            metrics_registry=door.metrics,
            list_codes=door.list_codes,
            objects=door.objects,
            streams=self.streams,
            checks=self.checks(),
            stopping=lambda: self.stopping,
            routes=door.routes,
            virtual=door.virtual,
            middlewares=door.middlewares,
        )

    async def run(self, host: str, port: int) -> None:
        """Serve until :meth:`close`."""
        logging.getLogger("aiohttp.server").addFilter(ONE_LINE)
        runner = web.AppRunner(
            self.app(),
            access_log=None,
            shutdown_timeout=CONNECTIONS_SECONDS,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            auto_decompress=False,  # a small body must not become a large one
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            async with asyncio.TaskGroup() as group:
                asks = [
                    group.create_task(self._ask("ledger", self._door.ledger)),
                    group.create_task(self._ask("cluster", self._door.cluster)),
                ]
                await self._closed.wait()
                for ask in asks:
                    ask.cancel()
        finally:
            self.stopping = True
            await runner.cleanup()

    def stop(self) -> None:
        """From now on nothing is taken in, and probes are told so."""
        self.stopping = True

    def close(self) -> None:
        """End the streams, then the server; :meth:`run` returns when that is done."""
        self.stopping = True
        self._closed.set()

    # --- health -------------------------------------------------------------------------------

    def checks(self) -> list[Check]:
        """All look at what is known; none waits."""
        return [
            Check("ledger", lambda: self._wrong["ledger"]),
            Check("workers", self._workers),
            Check("cluster", lambda: self._wrong["cluster"]),
            Check("all_workers", self._all_workers, needed=False),
            Check("policy", self._policy, needed=False),
            Check("intake", self._intake, needed=False),
            *self._door.checks,
        ]

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
        error = self._door.status()["policy"]["error"]
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
        """Ask once; the answer is in ``_wrong``."""
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


class StandbyDoor:
    """The door while another leads: that we live, who leads, and nothing else."""

    def __init__(self, leader: Callable[[], str]) -> None:
        """``leader``: who leads, "" where that is not known."""
        self._leader = leader

    @asynccontextmanager
    async def open(self, host: str, port: int) -> AsyncIterator[None]:
        logging.getLogger("aiohttp.server").addFilter(ONE_LINE)
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield
        finally:
            await runner.cleanup()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[failures])
        app.add_routes(health_routes([Check("leading", self._why)]))
        app.router.add_route("*", "/{path:.*}", self._refuse)
        return app

    def _why(self) -> str:
        leader = self._leader()
        return f"it stands by: {leader} leads" if leader else "it is taking the seat"

    async def _refuse(self, request: web.Request) -> web.StreamResponse:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            f"this coordinator does not lead: {self._why()}; ask that one, or again later",
            retry_after=STANDBY_SECONDS,
        )
