"""The stream of a whole service: its figures are those of the API's answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from coordinator.api.auth.roles import FRAMES
from coordinator.api.read.streaming import Streams
from coordinator.api.web.frames import Frames
from coordinator.api.web.stream import frame_routes
from coordinator.cli.scheduling.queue_figures import queue_figures
from shared.units.quantity import quantity, unit_of
from tests.builders.objects import simple_job
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.api.client import SECONDS, TABLE, Client
from tests.coordinator.api.web.test_frames import MadePicture, until
from tests.coordinator.api.web.world import HeldShards
from tests.end_to_end.one_process.harness import Running, running, submit

Json = dict[str, Any]
VIEW, TENANT = "qdt_" + "v" * 40, "qdt_" + "t" * 40


class PageStore:
    """What a page makes of a stream, as its script does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._held = b""
        self.values: Json = {}
        self.tables: dict[str, dict[Any, list[Any]]] = {}
        self.columns: dict[str, list[str]] = {}
        self.version = ""

    async def next(self) -> str:
        """Take the next event in; its name."""
        async with asyncio.timeout(SECONDS):
            while b"\n\n" not in self._held:
                part = await self._response.content.readany()
                assert part, "the stream ended"
                self._held += part
        message, _, self._held = self._held.partition(b"\n\n")
        head, _, data = message.partition(b"\ndata: ")
        event, frame = head.decode().removeprefix("event: "), orjson.loads(data)
        match event:
            case "snapshot":
                self.values = frame["values"]
                self.columns = {name: t["columns"] for name, t in frame["tables"].items()}
                self.tables = {
                    name: {row[0]: row for row in t["rows"]} for name, t in frame["tables"].items()
                }
            case "delta":
                self.values |= frame["values"]
                for name, changed in frame["tables"].items():
                    for key in changed["gone"]:
                        del self.tables[name][key]
                    self.tables[name] |= {row[0]: row for row in changed["rows"]}
            case _:
                assert event == "alive", event
        self.version = frame.get("resourceVersion", self.version)
        return event

    async def until(self, done: Callable[[], bool]) -> None:
        """Read on until a frame is so."""
        async with asyncio.timeout(SECONDS):
            while not done():
                await self.next()

    def reasons(self) -> set[str]:
        """Reasons of the events."""
        return {row["reason"] for row in self.rows("events")}

    def rows(self, table: str) -> list[Json]:
        columns = self.columns[table]
        return [dict(zip(columns, row, strict=True)) for row in self.tables[table].values()]


@contextlib.asynccontextmanager
async def page(session: aiohttp.ClientSession, token: str = "") -> AsyncIterator[PageStore]:
    """An open page with its first frame."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(FRAMES, headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        store = PageStore(response)
        assert await store.next() == "snapshot"
        yield store


async def settled(store: PageStore, client: Client) -> None:
    """Read on until the frame has the version that a list has."""
    version = (await client.get("/api/v1/pods"))["metadata"]["resourceVersion"]
    await store.until(lambda: int(store.version) >= int(version))


async def test_the_figures_are_those_of_the_commands(client: Client) -> None:
    async with page(client.session) as store:
        await settled(store, client)
        status = await client.get("/apis/quadrant.dev/v1alpha1/status")
        assert store.values["status"] | {"worker_busy_seconds": 0} == status | {
            "worker_busy_seconds": 0
        }
        assert store.values["health"] == await client.get("/health")
        shards = await client.get("/apis/quadrant.dev/v1alpha1/shards")
        for shown, shard in zip(store.values["shards"], shards["items"], strict=True):
            assert shown["name"] == shard["metadata"]["name"]
            assert shown.items() >= shard["status"].items()
        placed = sum(shard["levels"].get("L2", 0) for shard in store.values["shards"])
        assert placed == status["levels"]["L2"]
        await same_jobs(store, client)
        await same_nodes(store, client)
        await same_queues(store, client)
        reasons = {(event["reason"], event["name"]) for event in store.rows("events")}
        listed = (await client.get("/api/v1/events"))["items"]
        assert reasons == {(e["reason"], e["involvedObject"]["name"]) for e in listed}


async def same_jobs(store: PageStore, client: Client) -> None:
    rows = {row["name"]: row for row in store.rows("jobs")}
    assert rows.keys() == {"gang", "train", "big"}
    paths = {
        "gang": "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/gang",
        "train": "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/train",
        "big": "/api/v1/namespaces/ns/pods/big",
    }
    for name, path in paths.items():
        row, shown = rows[name], await client.get(path)
        status, annotations = shown["status"], shown["metadata"].get("annotations") or {}
        assert row["phase"] == (status.get("phase") or status["state"]["phase"])
        assert row["reason"] == annotations.get("quadrant.dev/reason", "")
        for count in ("pending", "running", "succeeded", "failed"):
            assert status.get(count, row[count]) == row[count]
        kind = store.values["kinds"][row["kind"]]
        assert path == f"{kind['root']}/namespaces/ns/{kind['plural']}/{name}"


async def same_nodes(store: PageStore, client: Client) -> None:
    rows = {row["name"]: row for row in store.rows("nodes")}
    table = await client.get("/api/v1/nodes", accept=TABLE)
    words = {row["cells"][0]: row["cells"][1] for row in table["rows"]}
    for node in (await client.get("/api/v1/nodes"))["items"]:
        row = rows[node["metadata"]["name"]]
        assert row["state"] == words[row["name"]]
        assert f"shard-{row['shard']}" == node["metadata"]["annotations"]["quadrant.dev/shard"]
        for at, resource in enumerate(store.values["resources"]):
            for field, amounts in (("used", "allocated"), ("total", "allocatable")):
                shown = node["status"][amounts].get(resource, "0")
                assert quantity(resource, row[field][at]) == shown


async def same_queues(store: PageStore, client: Client) -> None:
    _, text = await client.text("/metrics")
    figures = queue_figures(text)
    rows = {row["name"]: row for row in store.values["queues"]["rows"]}
    assert {"default", "research"} <= rows.keys()
    for name, row in rows.items():
        of_queue = figures[name]
        assert (row["share"], row["waiting"]) == (of_queue.share, of_queue.waiting)
        for kind, amounts in row["amounts"].items():
            shown = {r: a / unit_of(r) for r, a in amounts.items()}
            metrics = {r: a for r, a in of_queue.amounts.get(kind, {}).items() if a}
            assert shown == pytest.approx(metrics), (name, kind)


async def test_deltas_lead_to_what_a_new_page_gets(client: Client, service: Running) -> None:
    async with page(client.session) as store:
        await submit(service, *(simple_job(f"late-{at}", 2, seconds=600) for at in range(3)))
        await service.until(lambda status: status["jobs"]["submitted"] == 6)
        async with client.session.delete(
            "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/late-0"
        ) as answer:
            assert answer.status == 200
        await service.until(
            lambda status: status["jobs"]["submitted"] == 5 and status["tasks"]["running"] == 9
        )
        await settled(store, client)
        async with page(client.session) as fresh:
            await settled(fresh, client)
            await settled(store, client)
            while store.version != fresh.version:  # the older of them reads on
                await min((store, fresh), key=lambda each: int(each.version)).next()
            assert store.tables["jobs"] == fresh.tables["jobs"]
            assert store.tables["nodes"] == fresh.tables["nodes"]
            assert store.values["status"]["jobs"] == fresh.values["status"]["jobs"]
            assert "late-0" not in {row["name"] for row in store.rows("jobs")}


async def test_a_lost_worker_is_told(redis_url: str, short_dir: Path) -> None:
    workers = HeldShards(redis_url)
    async with (
        running(redis_url, short_dir, workers=workers) as service,
        aiohttp.ClientSession(service.url) as session,
        page(session) as store,
    ):
        workers.may_start.clear()
        workers.deaf.add(0)
        await store.until(lambda: not store.values["shards"][0]["up"])
        await store.until(lambda: "ShardLost" in store.reasons())
        assert store.values["shards"][0]["epoch"] is None
        workers.may_start.set()
        await store.until(lambda: bool(store.values["shards"][0]["up"]))
        await store.until(lambda: "ShardRecovered" in store.reasons())


async def test_a_token_is_needed_and_its_namespaces_bound_what_it_shows(
    redis_url: str, short_dir: Path
) -> None:
    tokens = write_tokens(
        short_dir / "tokens",
        entry("viewer", "view", VIEW),
        entry("tenant", "view", TENANT, namespaces=["theirs"]),
        entry("admin", "admin", "qdt_" + "a" * 40),
    )
    async with running(redis_url, short_dir, tokens_file=tokens) as service:
        headers = {"Authorization": f"Bearer qdt_{'a' * 40}"}
        async with aiohttp.ClientSession(service.url) as session:
            for namespace in ("ours", "theirs"):
                path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
                item = simple_job("j", 1, namespace=namespace)
                async with session.post(path, json=item, headers=headers) as answer:
                    assert answer.status == 201, await answer.text()
            async with session.get(FRAMES) as refused:
                assert refused.status == 401
            async with session.get(FRAMES, headers={"Host": "evil.example"}) as refused:
                assert refused.status == 403
            for token, expected in ((VIEW, {"ours", "theirs"}), (TENANT, {"theirs"})):
                async with page(session, token) as store:
                    async with asyncio.timeout(SECONDS):
                        while {row["namespace"] for row in store.rows("jobs")} != expected:
                            await store.next()
                    if token == TENANT:
                        assert {row["namespace"] for row in store.rows("events")} <= expected


async def test_a_reader_that_reads_nothing_is_disconnected() -> None:
    """It holds no more than the buffers of its connection."""
    picture = MadePicture()
    picture.painted = {"large": "x" * (16 << 20)}
    frames = Frames(picture)  # type: ignore[arg-type]
    streams = Streams(None, send_seconds=0.2)  # type: ignore[arg-type]
    app = web.Application()
    app.add_routes(frame_routes(frames, streams))
    task = asyncio.create_task(frames.run_forever())
    try:
        async with TestServer(app) as server:
            assert server.port is not None
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(reader, ("127.0.0.1", server.port))
                await loop.sock_sendall(
                    reader, f"GET {FRAMES} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
                )
                await until(lambda: streams.open > 0)
                await until(lambda: not streams.open)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
