"""The double of the API server and clients of it, each a process on virtual time."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine
from typing import Any

import orjson

from laboratory.api_server.answers import Answer
from laboratory.api_server.http_edge import HttpEdge
from laboratory.api_server.server import ApiServer, Request
from laboratory.simulation.process import Process
from laboratory.simulation.virtual_time import CALM, START, Timeline
from laboratory.virtual_kubernetes.connections import Network
from laboratory.virtual_kubernetes.loop import ConnectingLoop, connecting_loop

ADDRESS = ("10.0.0.1", 6443)
URL = f"http://{ADDRESS[0]}:{ADDRESS[1]}"

Json = dict[str, Any]


class Stage:
    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline(seed, CALM)
        self.network = Network(self.timeline, mean_seconds=0.002)
        self.server = ApiServer(clock=lambda: self.timeline.now, new_uid=self._new_uid)
        self.edge = HttpEdge(self.server)
        self.seen: list[str] = []
        self.start()

    def _new_uid(self) -> str:
        return str(uuid.UUID(int=self.timeline.random.getrandbits(128), version=4))

    def start(self) -> None:
        """Serve, also again after a kill: what was written before is not told in watches then."""
        self.server.store.restart()
        self.serving = process = Process(self.timeline)
        loop = connecting_loop(process, self.network, seed=1)

        def listen() -> None:
            self.network.listen(ADDRESS, process, loop, self.edge.protocols())

        loop.call_soon(listen)
        self._loop = loop

    def kill(self) -> None:
        self.serving.alive = False
        self._loop.abandon()
        self.network.drop(self.serving)

    def process(self, main: Coroutine[Any, Any, None]) -> tuple[Process, ConnectingLoop]:
        """A client that runs ``main``."""
        process = Process(self.timeline)
        loop = connecting_loop(process, self.network, seed=2)
        loop.start(main)
        return process, loop

    def ask(self, method: str, path: str, body: Json | None = None, form: str = "") -> Json:
        """At the server itself, without a message."""
        request = Request(
            method,
            path,
            body=b"" if body is None else orjson.dumps(body),
            form=form or "application/json",
        )
        answer = self.edge.handle(request)
        assert isinstance(answer, Answer) and isinstance(answer.body, dict)
        assert answer.code < 300, answer.body
        return answer.body

    def note(self, what: str) -> None:
        self.seen.append(f"{self.timeline.now - START:.3f} {what}")

    def run(self, *, until: float) -> None:
        """Until so many seconds after the start. Raises what the double did not know."""
        while (due := self.timeline.next_event(START + until)) is not None:
            due[1]()
            if self.edge.failures:
                raise self.edge.failures[0]
