"""The handlers that write, behind a real HTTP server, in front of the real writer and a ledger in
memory; what they show is made from documents alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from coordinator.api.http.failures import failures
from coordinator.api.write.handlers import WriteDependencies, write_routes
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun

INTAKE = "intake"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
PATHS = {
    "Pod": "/api/v1/namespaces/ns/pods",
    "Node": "/api/v1/nodes",
    "Queue": f"{VOLCANO}/queues",
    "PodGroup": f"{VOLCANO}/namespaces/ns/podgroups",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Namespace": "/api/v1/namespaces",
    "Event": "/api/v1/namespaces/ns/events",
    "Secret": "/api/v1/namespaces/ns/secrets",
    "ConfigMap": "/api/v1/namespaces/ns/configmaps",
}
STATUS = {"Pod": {"phase": "Pending"}}


class PublishedStore:
    """Store behind the handlers, with a version that grows."""

    def __init__(self) -> None:
        self.documents: dict[Key, Document] = {}
        self.others: dict[Key, dict[str, Any]] = {}
        """Objects that nobody wrote."""
        self.version = 0
        self.nodes: dict[str, str] = {}
        """Pod -> its node, if it is on one."""

    def node_of(self, namespace: str, name: str) -> str:
        return self.nodes.get(name, "")

    def stored(self, changes: Changes) -> None:
        for document in changes.documents:
            self.version += 1
            self.documents[document.key] = document.at(self.version)
        for key in changes.documents_gone:
            self.documents.pop(key, None)

    def document(self, key: Key) -> Document | None:
        return self.documents.get(key)

    def version_of(self, kind: Kind, namespace: str, name: str) -> str | None:
        value = self.get(kind, namespace, name)
        return None if value is None else str(value["metadata"].get("resourceVersion", ""))

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        key = Key(kind.kind, namespace, name)
        document = self.documents.get(key)
        if document is None:
            return self.others.get(key)
        obj = document.object()
        obj["metadata"] |= {
            "uid": document.uid,
            "resourceVersion": str(document.version),
            "generation": document.generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        if document.deleting is not None:
            obj["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        if kind.kind == "Pod" and name in self.nodes:
            obj["spec"]["nodeName"] = self.nodes[name]
        obj["status"] = obj.get("status", {}) | STATUS.get(kind.kind, {})
        return obj


class WriteClient:
    def __init__(
        self, session: aiohttp.ClientSession, writer: IntakeWriter, seen: PublishedStore
    ) -> None:
        self.session, self.writer, self.seen = session, writer, seen
        self.warnings: list[str] = []

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = "application/json",
        agent: str = "test/1",
        **query: str,
    ) -> tuple[int, dict[str, Any]]:
        kind, _, rest = path.partition("/")
        if kind in PATHS:
            path = PATHS[kind] + (f"/{rest}" if rest else "")
        data = body if isinstance(body, bytes | str | None) else orjson.dumps(body)
        headers = {"User-Agent": agent} | ({"Content-Type": type} if body is not None else {})
        async with self.session.request(
            method, path, data=data, headers=headers, params=query
        ) as reply:
            self.warnings = reply.headers.getall("Warning", [])
            answer = await reply.json()
            assert reply.status < 500, answer
            return reply.status, answer

    async def create(self, obj: Mapping[str, Any], **query: str) -> tuple[int, dict[str, Any]]:
        return await self.send("POST", str(obj["kind"]), obj, **query)


@asynccontextmanager
async def behind(**parts: Any) -> AsyncIterator[WriteClient]:
    ledger = MemoryLedger()
    leader = await ledger.claim(COORDINATOR)
    await ledger.bless(leader)
    observed = PublishedStore()
    intake = Intake()
    intake.node_of = observed.node_of
    writer = IntakeWriter(
        intake,
        ledger,
        writer=INTAKE,
        epoch=await ledger.claim(INTAKE, leader=leader),
        run=AcceptedRun(lambda: ledger.bless(leader), await ledger.run_id()),
        stored=observed.stored,
    )
    app = web.Application(middlewares=[failures], client_max_size=1 << 24)
    writing = WriteDependencies(writer, observed, **parts)
    app.add_routes(write_routes(writing))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    task = asyncio.create_task(writer.run())
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            yield WriteClient(session, writer, observed)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await writing.parsers.close()
        await runner.cleanup()
