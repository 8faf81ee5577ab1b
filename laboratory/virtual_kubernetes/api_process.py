"""The API server's process in a seeded run: it is killed and started, its objects stay."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

import orjson

from laboratory.api_server.answers import Answer
from laboratory.api_server.effects import Effect
from laboratory.api_server.http_edge import HttpEdge
from laboratory.api_server.server import ApiServer, Request
from laboratory.simulation.process import Process
from laboratory.simulation.virtual_time import Event, Timeline
from laboratory.virtual_kubernetes.connections import Network
from laboratory.virtual_kubernetes.loop import ConnectingLoop, connecting_loop
from laboratory.virtual_kubernetes.server_faults import ServerFaults

ADDRESS = ("10.0.0.1", 6443)
URL = f"http://{ADDRESS[0]}:{ADDRESS[1]}"
MERGE_PATCH = "application/merge-patch+json"
MEAN_SECONDS = 0.001
"""How long bytes take from one process to another."""

Json = dict[str, Any]


class ApiProcess:
    def __init__(self, timeline: Timeline, *, seed: int) -> None:
        self.timeline = timeline
        self.network = Network(timeline, mean_seconds=MEAN_SECONDS)
        self.faults = ServerFaults(timeline)
        uids = Random(f"uids {seed}")
        self.server = ApiServer(
            clock=lambda: timeline.now,
            new_uid=lambda: str(uuid.UUID(int=uids.getrandbits(128), version=4)),
        )
        self.edge = HttpEdge(self.server, effect=self._effect, later=self._later)
        self._process: Process | None = None
        self._loop: ConnectingLoop | None = None
        self.start()

    def _later(self, seconds: float, event: Event) -> None:
        """What is on its way arrives whoever serves by then; where nobody does it is lost."""
        self.timeline.after(seconds, lambda: event() if self.runs else None)

    def _effect(self, request: Request) -> Effect | None:
        return self.faults.effect(request)

    @property
    def runs(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Watches from before begin anew: what was written before is not told in them."""
        self.server.store.restart()
        self._process = process = Process(self.timeline)
        self._loop = loop = connecting_loop(process, self.network, seed=0)

        def listen() -> None:
            self.network.listen(ADDRESS, process, loop, self.edge.protocols())

        loop.call_soon(listen)

    def kill(self, *, away: float, compacts: bool = False) -> None:
        """For so many seconds; ``compacts``: etcd forgets all old versions meanwhile."""
        if self._process is None or self._loop is None:
            return
        process, loop = self._process, self._loop
        self._process = self._loop = None
        process.alive = False
        self.network.close(ADDRESS)
        self.network.drop(process)
        loop.abandon()
        if compacts:
            self.server.store.compact()
        self.timeline.after(away, self.start)

    def end(self) -> None:
        """The run is over."""
        self.kill(away=0.0)

    # --- without messages -----------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Json | None = None) -> int:
        """What somebody asks who is at the server; the code of the answer. 503 while it is away."""
        if not self.runs:
            return 503
        form = MERGE_PATCH if method == "PATCH" else "application/json"
        text = b"" if body is None else orjson.dumps(body)
        answer = self.edge.handle(Request(method, path, body=text, form=form))
        assert isinstance(answer, Answer)
        return answer.code

    def objects(self, resource: str) -> dict[str, Json]:
        """Path -> object."""
        return self.server.store.at(resource, self.server.store.version)
