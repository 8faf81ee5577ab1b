"""Objects that name very many things of a node, sent by a tenant who may only submit.

Each of them ended in a half written ledger, or in the end of the coordinator, before scripts wrote
from a plan and a refused store answered its own request alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from aiohttp import ClientSession

from coordinator.api.auth.tokens import new_token
from coordinator.ledger_refusals import WriteKind
from laboratory.workloads.generators import DURATION
from shared.ledger.keys import key
from shared.ledger.records import (
    NOMINATED,
    RELEASING,
    USED,
    WIDTH,
    pack_class,
    unpack_node,
    unpack_thing,
)
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.units.slots import MOST_ASKED
from tests.builders.objects import a_list, node, queue
from tests.conftest import flush
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.api.auth.objects import pod
from tests.end_to_end.one_process.harness import Running, running

pytestmark = pytest.mark.all

LISTS = "/apis/quadrant.dev/v1alpha1/lists"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
ADMIN, TENANT, OTHER = (new_token() for _ in range(3))

Json = dict[str, Any]


class WideClient:
    def __init__(self, service: Running, session: ClientSession) -> None:
        self.service = service
        self._session = session

    async def send(
        self, token: str, method: str, path: str, body: Json | None = None
    ) -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {token}"}
        url = self.service.url + path
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.text())

    async def delete(self, token: str, *pods: str) -> None:
        """Not more at once than may wait for a queue."""
        for at in range(0, len(pods), 32):
            async with asyncio.TaskGroup() as group:
                sent = [
                    group.create_task(self.send(token, "DELETE", f"{PODS}/{name}"))
                    for name in pods[at : at + 32]
                ]
            assert [task.result()[0] for task in sent] == [200] * len(sent)

    async def list(self, token: str, *items: Json) -> Json:
        status, body = await self.send(token, "POST", LISTS, a_list(*items))
        assert status == 200, body
        return body


@asynccontextmanager
async def two_tenants(
    server: EmbeddedServer, path: Path, *, emptied: bool = True, **settings: Any
) -> AsyncIterator[WideClient]:
    """Four nodes, the queues of two tenants, and a token each that may submit to its own."""
    if emptied:
        flush(server)
    tokens = write_tokens(
        path / "tokens",
        entry("root", "admin", ADMIN),
        entry("tenant", "submit", TENANT, queues=["tenant"]),
        entry("other", "submit", OTHER, queues=["other"]),
    )
    quick: dict[str, Any] = {"speedup": 10.0, "tokens_file": tokens} | settings
    async with running(server.url, path, **quick) as service, ClientSession() as session:
        client_ = WideClient(service, session)
        limited = queue("other")
        limited["spec"]["capability"] = {"cpu": "4"}
        if emptied:
            body = await client_.list(ADMIN, queue("tenant"), limited, *map(wide_node, range(4)))
            assert body["refused"] == []
        yield client_


def wide_node(number: int) -> Json:
    node_item = node(f"n{number}")
    node_item["status"]["allocatable"] = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
    return node_item


def with_ports(name: str, ports: range, *, cpu: str = "100m", seconds: str = "") -> Json:
    pod_item = pod(name, queue="tenant")
    container = pod_item["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    all_ports = [{"containerPort": 80, "hostPort": port} for port in ports]
    container["ports"] = all_ports[:1000]  # as many as one container may name
    for first in range(1000, len(ports), 1000):
        more = {"name": f"c{first}", "image": "i", "ports": all_ports[first : first + 1000]}
        pod_item["spec"]["containers"].append(more)
    if seconds:
        pod_item["metadata"]["annotations"][DURATION] = seconds
    return pod_item


def of_other(name: str, *, cpu: str = "1") -> Json:
    pod_item = pod(name, queue="other")
    pod_item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod_item


def running_jobs(count: int) -> Any:
    return lambda status: status["tasks"]["running"] == count


async def held(server: EmbeddedServer) -> dict[str, int]:
    """Amounts of nodes and queues that count as used, leaving or promised; empty when all is given
    back."""
    ledger = RedisLedger(server.url)
    try:
        now = await ledger.snapshot()
    finally:
        await ledger.close()
    results: dict[str, int] = {}
    for row, record in zip(now.nodes.rows, now.nodes.records, strict=True):
        slots = unpack_node(record)[2]
        for part in (USED, RELEASING, NOMINATED):
            if any(amounts := slots[part::WIDTH]):
                results[f"node {row}.{part}"] = sum(map(abs, amounts))
    for row, name, record in now.nodes.things:
        results[f"thing {row}/{name}"] = sum(map(abs, unpack_thing(record)[1]))
    for qid, queue_ in now.queues.items():
        for what, amounts_ in (("used", queue_.used), ("leaving", queue_.leaving)):
            if amounts_:
                results[f"queue {qid}.{what}"] = sum(map(abs, amounts_.values()))
    return results


async def nothing_held(server: EmbeddedServer, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while result := await held(server):
        assert time.monotonic() < deadline, result
        await asyncio.sleep(0.05)


async def test_a_list_of_1100_host_ports_leaves_the_books_right(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    async with two_tenants(embedded_server, short_dir) as client:
        await client.list(OTHER, *(of_other(f"innocent-{i}", cpu="100m") for i in range(8)))
        ports = [with_ports(f"p{i}", range(1001 + i, 1002 + i)) for i in range(1100)]
        body = await client.list(TENANT, *ports)
        assert body["refused"] == []
        await client.service.until(running_jobs(1108), within=60.0)
        for token, name, count in ((TENANT, "p", 1100), (OTHER, "innocent-", 8)):
            await client.delete(token, *(f"{name}{i}" for i in range(count)))
        await nothing_held(embedded_server)
        # The capability still means what it says.
        await client.list(OTHER, *(of_other(f"late-{i}") for i in range(7)))
        status = await client.service.until(running_jobs(4))
        assert status["tasks"]["running"] == 4


async def test_pods_with_very_many_host_ports_end_nothing(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """Such a pod is refused by the port that is one too many, and all others go on."""
    async with two_tenants(embedded_server, short_dir) as client:
        wide = [with_ports("wide", range(1, 3001)), with_ports("wider", range(1, 6001))]
        wide += [with_ports(f"w{i}", range(10_000 + 1000 * i, 11_000 + 1000 * i)) for i in range(4)]
        for node_item in wide:
            status, body = await client.send(TENANT, "POST", PODS, node_item)
            if status != 400:  # one with very many values is refused before anybody reads them
                assert status == 422, body
                assert "spec.containers[0].ports[32].hostPort" in body["message"], body
        # Each of these once met the records of the pods above.
        node_item = wide_node(7)
        node_item["status"]["allocatable"]["example.com/fpga"] = "4"
        status, body = await client.send(ADMIN, "POST", NODES, node_item)
        assert status == 201, body
        node_item = of_other("new-resource")
        node_item["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
        status, body = await client.send(OTHER, "POST", PODS, node_item)
        assert status == 201, body
        await client.service.until(lambda status: status["tasks"]["running"] >= 1)
        assert not client.service.ended.done()


async def test_a_store_that_the_ledger_refuses_is_answered_and_counted(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """The next task class is in the ledger already, as another one: nobody can say why, and the
    ledger does not take it. The tenant who needs it is told so; nobody else notices."""
    async with two_tenants(embedded_server, short_dir) as client:
        intake = client.service.service.intake
        await client.list(OTHER, of_other("known"))
        cid = len(intake.registry.classes)
        with redis.Redis.from_url(embedded_server.url) as ledger:
            ledger.hset(key("class"), str(cid), pack_class([(0, 1, 0)], b""))
        async with asyncio.TaskGroup() as group:
            requests = [
                group.create_task(client.send(token, "POST", PODS, item))
                for token, item in (
                    (OTHER, of_other("a")),
                    (TENANT, with_ports("bad", range(80, 81), cpu="7")),
                    (OTHER, of_other("b")),
                )
            ]
        answers = [task.result() for task in requests]
        refused = [body for status, body in answers if status == 422]
        assert [status for status, _ in answers].count(201) == 2, answers
        assert f"class {cid}: its requests cannot change" in refused[0]["message"]
        assert client.service.service.probes.refusals.count == {WriteKind.STORE: 1}
        assert not client.service.ended.done()


def asking(name: str, resource: str, queue_name: str = "tenant") -> Json:
    pod_item = pod(name, queue=queue_name)
    pod_item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", resource: "1"}}
    return pod_item


async def test_names_of_resources_are_bounded_and_come_back(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant uses up the names that pods may give; nodes have theirs, and when its pods are gone,
    the slots go to other names, in the workers' views too."""
    monkeypatch.setattr("coordinator.service.reconcile_loop.AGAIN_SECONDS", 0.2)
    async with two_tenants(embedded_server, short_dir, reconcile_seconds=0.2) as client:
        slots = client.service.service.intake.registry.slots
        bogus = [asking(f"p{i}", f"bogus.example.com/r{i}") for i in range(MOST_ASKED + 8)]
        body = await client.list(TENANT, *bogus)
        assert (body["accepted"], len(body["refused"])) == (MOST_ASKED, 8)
        report = body["refused"][0]
        assert report["field"] == "resources.requests"
        assert "ask for what nodes offer" in report["remedy"]
        node_item = wide_node(7)
        node_item["status"]["allocatable"]["example.com/fpga"] = "2"
        assert (await client.list(ADMIN, node_item))["refused"] == []
        await client.list(OTHER, asking("good", "example.com/fpga", "other"))
        await client.service.until(running_jobs(1))
        used = set(range(3, 3 + MOST_ASKED))
        await client.delete(TENANT, *(f"p{i}" for i in range(MOST_ASKED)))
        await client.service.until(lambda _: not any(slots.names[slot] for slot in used))
        node_item["status"]["allocatable"]["example.com/tpu"] = "1"
        assert (await client.list(ADMIN, node_item))["refused"] == []
        assert slots.find("example.com/tpu") in used
        await client.list(OTHER, *(asking(f"t{i}", "example.com/tpu", "other") for i in range(2)))
        await client.service.until(running_jobs(2))
        assert client.service.service.status()["tasks"]["pending"] == 1
        names = [*slots.names]
    # The next leader knows the same numbers by the same names.
    async with two_tenants(embedded_server, short_dir, emptied=False) as client:
        assert client.service.service.intake.registry.slots.names == names
