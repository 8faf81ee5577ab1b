"""Server-sent events: what a page reads, and how it goes on after it was cut off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from coordinator.api.read import server_sent_events
from tests.builders.objects import node
from tests.coordinator.api.client import SECONDS, Client
from tests.coordinator.api.conftest import running_pod
from tests.end_to_end.one_process.harness import Running, submit


class Events:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._lines = response.content

    async def next(self) -> dict[str, Any]:
        """The fields of the next event; a comment alone is one with the field ""."""
        results: dict[str, Any] = {}
        async with asyncio.timeout(SECONDS):
            while line := (await self._lines.readline()).decode().rstrip("\r\n"):
                name, _, value = line.partition(": ")
                results[name] = value
        if "data" in results:
            results["data"] = orjson.loads(results["data"])
        return results


@contextlib.asynccontextmanager
async def events(client: Client, last: str = "", query: str = "") -> AsyncIterator[Events]:
    headers = {"Last-Event-ID": last} if last else {}
    async with client.session.get(f"/stream{query}", headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-cache"
        yield Events(answer)


async def test_changes_come_with_ids(client: Client, service: Running) -> None:
    async with events(client) as report:
        ready = await report.next()
        assert (ready["event"], ready["retry"]) == ("ready", "2000")
        assert ready["data"] == {"resourceVersion": ready["id"]}
        await submit(service, node("n3"), running_pod("not-told"))
        added = await report.next()
        assert (added["event"], added["data"]["kind"]) == ("ADDED", "Node")
        assert int(added["id"]) > int(ready["id"])


async def test_it_goes_on_after_the_last_id(client: Client, service: Running) -> None:
    async with events(client) as report:
        ready = await report.next()
    await submit(service, node("n3"))
    await submit(service, node("n4"))
    async with events(client, last=ready["id"]) as report:
        first = await report.next()
        assert first["data"]["metadata"]["name"] == "n3"
    async with events(client, last=first["id"]) as report:
        assert (await report.next())["data"]["metadata"]["name"] == "n4"


@pytest.mark.parametrize("last", ["5", "none of ours", str(2**62)])
async def test_an_id_that_is_not_known_begins_anew(
    client: Client, service: Running, last: str
) -> None:
    async with events(client, last=last) as report:
        reset = await report.next()
        assert reset["event"] == "reset"
        await submit(service, node("n3"))
        assert (await report.next())["data"]["metadata"]["name"] == "n3"


async def test_kinds_are_chosen(client: Client, service: Running) -> None:
    async with events(client, query="?kind=Pod&kind=Event") as report:
        await report.next()
        await submit(service, node("n3"), running_pod("p9"))
        kinds: set[str] = set()
        while kinds != {"Pod", "Event"}:
            kinds.add((await report.next())["data"]["kind"])
            assert "Node" not in kinds
    code, text = await client.text("/stream?kind=Wheel")
    assert (code, orjson.loads(text)["title"]) == (400, "Bad Request")
    assert "'Wheel' is unknown" in text


async def test_a_silent_stream_shows_that_it_lives(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_sent_events.HEARTBEAT_SECONDS == 15.0
    monkeypatch.setattr(server_sent_events, "HEARTBEAT_SECONDS", 0.1)
    async with events(client) as report:
        assert (await report.next())["event"] == "ready"
        while (comment := await report.next()).keys() != {""}:
            pass  # the service may have come to something late: then it is silent later
    assert comment == {"": "ping"}
