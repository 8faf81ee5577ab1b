"""The faults are what they are called, and nothing else is spoilt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from tests.coordinator.api.client import Json, Lines
from tests.kubernetes.faults.effects import (
    Answer,
    CutStream,
    HoldAnswer,
    HoldRequest,
    LoseAnswer,
    LoseRequest,
)
from tests.kubernetes.faults.proxy import FaultyProxy

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest_asyncio.fixture
async def client(proxied: Identity) -> AsyncIterator[ApiClient]:
    """An administrator by way of the proxy."""
    async with client_of(proxied) as client:
        yield client


async def test_requests_without_a_fault_pass(client: ApiClient) -> None:
    await client.post(MAPS, config_map("a"))
    assert await client.names(MAPS, fieldSelector="metadata.name=a") == ["a"]
    async with client.watch(MAPS) as answer:
        lines = Lines(answer)
        assert await lines.named() == ("ADDED", "a")
    await client.delete(f"{MAPS}/a")
    assert await client.names(MAPS) == []


async def test_a_storm_answers_so_many_requests_and_then_ends(
    client: ApiClient, proxy: FaultyProxy
) -> None:
    proxy.inject(Answer(429, retry_after=1), method="POST", part="/configmaps", times=2)
    for name in ("a", "b"):
        assert (await client.post(MAPS, config_map(name), code=429))["reason"] == "TooManyRequests"
    await client.post(MAPS, config_map("c"))
    assert await client.names(MAPS) == ["c"]


async def test_a_lost_request_did_nothing_and_a_lost_answer_something(
    client: ApiClient, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    for effect, name in ((LoseRequest(), "a"), (LoseAnswer(), "b")):
        proxy.inject(effect, method="POST")
        with pytest.raises(aiohttp.ClientError):
            await client.post(MAPS, config_map(name))
    assert await cluster.names(MAPS) == ["b"]


async def test_a_held_request_lands_after_its_client_gave_up(
    client: ApiClient, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    effect = HoldRequest()
    fault = proxy.inject(effect, method="POST")
    sending = asyncio.create_task(client.post(MAPS, config_map("late")))
    await proxy.until_met(fault)
    sending.cancel()
    await asyncio.wait([sending])
    assert await cluster.names(MAPS) == []
    effect.released.set()
    await cluster.until(f"{MAPS}/late", lambda answer: answer["kind"] == "ConfigMap")


async def test_a_held_answer_is_to_something_that_was_done(
    client: ApiClient, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    effect = HoldAnswer()
    proxy.inject(effect, method="POST")
    sending = asyncio.create_task(client.post(MAPS, config_map("slow")))
    await cluster.until(f"{MAPS}/slow", lambda answer: answer["kind"] == "ConfigMap")
    assert not sending.done()
    effect.released.set()
    assert (await sending)["metadata"]["name"] == "slow"


async def test_a_watch_is_cut_in_the_middle_of_an_event(
    client: ApiClient, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    proxy.inject(CutStream(events=1), part="/configmaps")
    async with client.watch(MAPS) as answer:
        lines = Lines(answer)
        await cluster.create(config_map("a"))
        # Read before the cut: of a connection that is reset, what waits to be read is lost.
        assert await lines.named() == ("ADDED", "a")
        await cluster.create(config_map("b"))
        await cut_within_an_event(lines.response, proxy)
    async with client.watch(MAPS) as answer:
        lines = Lines(answer)
        assert [await lines.named(), await lines.named()] == [("ADDED", "a"), ("ADDED", "b")]
        assert proxy.cut_watches("/configmaps") == 1
        await cluster.create(config_map("c"))
        await cut_within_an_event(lines.response, proxy)


async def cut_within_an_event(response: aiohttp.ClientResponse, proxy: FaultyProxy) -> None:
    """Read to the end, which is an error, after a part of an event. Of a connection that is reset
    a client may lose what it had not read, so that the proxy tells what it sent."""
    rest = b""
    with pytest.raises(aiohttp.ClientError):
        async for chunk in response.content.iter_any():
            rest += chunk
    assert proxy.parts[-1].startswith(rest)
    assert proxy.parts[-1].startswith(b"{")
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(proxy.parts[-1])


async def test_a_watch_from_before_a_compaction_expires(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    (old,) = await cluster.create(config_map("a"))
    version = old["metadata"]["resourceVersion"]
    async with cluster.watch(MAPS, resourceVersion=version):
        await cluster.create(config_map("b"))
    control_plane.api_server.kill()
    control_plane.compact()
    control_plane.launch()
    await asyncio.to_thread(control_plane.wait)
    assert await cluster.names(MAPS) == ["a", "b"]
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert (await cluster.get(MAPS, code=410, **exact))["reason"] == "Expired"
    async with cluster.watch(MAPS, resourceVersion=version) as answer:
        lines = Lines(answer)
        event = await lines.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
