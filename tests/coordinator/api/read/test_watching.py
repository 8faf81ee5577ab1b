"""Watches over HTTP: what comes, from when on, in which order, and when it ends."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import ClientSession

from coordinator.api.read import streaming, watch
from tests.builders.objects import node
from tests.coordinator.api.client import PODS, TABLE, Client, Lines
from tests.coordinator.api.conftest import running_pod
from tests.end_to_end.one_process.harness import Running, submit

NODES = "/api/v1/nodes"
INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


def streams_of(service: Running) -> streaming.Streams:
    serving = service.service._serving
    assert serving is not None
    assert serving.streams is not None
    return serving.streams


async def version(client: Client, path: str = PODS) -> str:
    value: str = (await client.get(path))["metadata"]["resourceVersion"]
    return value


async def test_from_a_version_on(client: Client, service: Running) -> None:
    before = await version(client, NODES)
    await submit(service, node("n3"))
    async with client.watch(NODES, resourceVersion=before) as lines:
        event = await lines.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "n3")
        await submit(service, node("n3", labels={"zone": "c"}))
        changed = await lines.next()
        assert changed["type"] == "MODIFIED"
        assert changed["object"]["metadata"]["labels"]["zone"] == "c"
        async with client.session.delete(f"{NODES}/n3") as answer:
            assert answer.status == 200
        gone = await lines.next()
        assert gone["type"] == "DELETED"
        assert gone["object"]["metadata"]["labels"]["zone"] == "c"
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in (event, changed, gone)]
    assert int(before) < versions[0] < versions[1] < versions[2]
    # From each of them a client can go on, and misses nothing.
    async with client.watch(NODES, resourceVersion=str(versions[1])) as lines:
        assert await lines.named() == ("DELETED", "n3")


@pytest.mark.parametrize("since", [{}, {"resourceVersion": "0"}])
async def test_a_watch_begins_with_the_present_objects(
    client: Client, service: Running, since: dict[str, str]
) -> None:
    async with client.watch(NODES, **since) as lines:
        assert [await lines.named() for _ in range(2)] == [("ADDED", "n1"), ("ADDED", "n2")]
        await submit(service, node("n3"))
        assert await lines.named() == ("ADDED", "n3")


async def test_the_end_of_the_present_objects_is_marked(client: Client) -> None:
    async with client.watch(NODES, allowWatchBookmarks="true", **INITIAL) as lines:
        for _ in range(2):
            assert (await lines.next())["type"] == "ADDED"
        mark = await lines.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "Node"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["object"]["metadata"]["resourceVersion"]) > 0


async def test_bookmarks_come_now_and_then(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BOOKMARK_SECONDS", 0.1)
    now = await version(client)
    async with client.watch(PODS, resourceVersion=now, allowWatchBookmarks="1") as lines:
        # What the fixture's pods wait for may have been reported in between.
        while (line := await lines.next())["type"] != "BOOKMARK":
            pass
    now = line["object"]["metadata"]["resourceVersion"]
    async with client.watch(PODS, resourceVersion=now, timeoutSeconds="1") as lines:
        assert await lines.end() == []


async def test_it_ends_when_its_time_is_over(client: Client) -> None:
    started = time.monotonic()
    async with client.watch(NODES, timeoutSeconds="1") as lines:
        assert len(await lines.end()) == 2
    assert time.monotonic() - started > 0.9


@pytest.mark.parametrize("since", ["5", str(2**62)])
async def test_a_version_that_is_not_known_is_told_inside(client: Client, since: str) -> None:
    async with client.watch(PODS, resourceVersion=since) as lines:
        (event,) = await lines.end()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_object_that_leaves_the_selector_is_a_deleted_event(
    client: Client, service: Running, fresh: bool
) -> None:
    since = {} if fresh else {"resourceVersion": await version(client)}
    async with client.watch(PODS, labelSelector="tier=web", **since) as lines:
        if fresh:
            assert await lines.named() == ("ADDED", "p1")
        await submit(service, running_pod("p2", group="gang", tier="web"))
        # Changes are sent once the watch has learnt what satisfied the selector at its begin.
        while (await lines.named())[1] != "p2":
            pass
        for pod_name in ("p1", "p2"):
            await submit(service, running_pod(pod_name, group="gang", tier="db"))
            assert await _came_or_went(lines) == ("DELETED", pod_name)
            await submit(service, running_pod(pod_name, group="gang", tier="db", colour="red"))
            await submit(service, running_pod(pod_name, group="gang", tier="web"))
            assert await _came_or_went(lines) == ("ADDED", pod_name)


async def _came_or_went(lines: Lines) -> tuple[str, str]:
    """The next object that enters or leaves the selector.

    Pods within it may be reported MODIFIED in between: the status of a gang is written later than
    the change of its pod.
    """
    while (event := await lines.named())[0] == "MODIFIED":
        pass
    return event


async def test_other_namespaces_and_kinds_are_not_told(client: Client, service: Running) -> None:
    since = await version(client)
    elsewhere = "/api/v1/namespaces/default/pods"
    async with client.watch(elsewhere, resourceVersion=since, timeoutSeconds="1") as lines:
        await submit(service, running_pod("late"), node("n3"))
        assert await lines.end() == []


async def test_the_pods_of_a_job_are_told(client: Client, service: Running) -> None:
    since = await version(client)
    async with client.session.delete(
        "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/train"
    ) as answer:
        assert answer.status == 200
    gone: set[str] = set()
    async with client.watch(PODS, resourceVersion=since) as lines:
        while len(gone) < 3:
            kind, name = await lines.named()
            if kind == "DELETED":
                gone.add(name)
    assert gone == {"train-w-0", "train-w-1", "train-w-2"}


async def test_a_table_for_each_event(client: Client) -> None:
    async with client.watch(NODES, accept=TABLE) as lines:
        first, second = await lines.next(), await lines.next()
    assert first["object"]["kind"] == "Table"
    assert [c["name"] for c in first["object"]["columnDefinitions"]][:2] == ["Name", "Status"]
    assert second["object"]["columnDefinitions"] == []
    assert [e["object"]["rows"][0]["cells"][0] for e in (first, second)] == ["n1", "n2"]


async def test_their_number_is_bounded(
    client: Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = streams_of(service)
    monkeypatch.setattr(streams, "_most", 1)
    async with client.watch(NODES) as lines:
        await lines.next()
        body = await client.get(NODES, watch="true", code=429)
        assert (body["reason"], body["details"]["retryAfterSeconds"]) == ("TooManyRequests", 5)
        assert (await client.text("/stream"))[0] == 429
    await service.until(lambda _: not streams.open)
    async with client.watch(NODES) as lines:
        await lines.next()


async def test_a_watch_client_that_does_not_read_is_disconnected(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = streams_of(service)
    monkeypatch.setattr(streams, "send_seconds", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
    writer.write(b"GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"n2")
    deadline = time.monotonic() + 60
    text = "x" * 200_000
    for i in range(10_000):
        if not streams.open:
            break
        assert time.monotonic() < deadline
        item = node("n2")
        item["metadata"]["annotations"] = {"much": text + str(i)}
        await submit(service, item)
        await asyncio.sleep(0.1)
    assert not streams.open
    writer.close()


async def test_a_client_that_leaves_is_forgotten_quietly(
    service: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 0.1)
    streams = streams_of(service)
    for path in ("/api/v1/nodes?watch=1", "/stream"):
        async with ClientSession(service.url) as session, session.get(path) as answer:
            await answer.content.readline()
            assert streams.open == 1
        await service.until(lambda _: not streams.open)
    assert caplog.records == []


async def test_rendering_leaves_time_for_others() -> None:
    """Two of three parts of the time, whatever is to be told."""
    streams = streaming.Streams(None)  # type: ignore[arg-type]
    started = time.monotonic()
    for _ in range(5):
        async with streams.turn():
            time.sleep(0.02)  # noqa: ASYNC251 - what rendering does to the loop
    assert time.monotonic() - started > 0.28
