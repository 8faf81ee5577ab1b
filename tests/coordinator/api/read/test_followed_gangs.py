"""Members of one gang that change one after the other, while others of it are being told."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.api.read import streaming, watch
from tests.coordinator.api.client import PODS, Client
from tests.coordinator.api.conftest import running_pod
from tests.end_to_end.one_process.harness import Running, submit


def painted(name: str, colour: str) -> dict[str, Any]:
    return running_pod(name, group="gang", colour=colour)


async def test_none_is_skipped_because_another_moved_meanwhile(
    client: Client, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, report = streaming.send, 0

    async def sending(*args: Any, **kwargs: Any) -> None:
        nonlocal report
        await send(*args, **kwargs)
        report += 1
        if report == 1:
            await submit(service, painted("p1", "green"))

    monkeypatch.setattr(watch, "SLICE", 1)
    monkeypatch.setattr(watch, "send", sending)
    since = (await client.get(PODS))["metadata"]["resourceVersion"]
    await submit(service, painted("p1", "red"), painted("p2", "red"))
    observed: dict[str, str] = {}
    async with client.watch(PODS, resourceVersion=since, timeoutSeconds="1") as lines:
        for event in await lines.end():
            metadata = event["object"]["metadata"]
            observed[metadata["name"]] = metadata["labels"]["colour"]
    assert observed == {"p1": "green", "p2": "red"}


async def test_from_each_event_a_client_can_go_on(client: Client, service: Running) -> None:
    since = (await client.get(PODS))["metadata"]["resourceVersion"]
    for name in ("p2", "p1"):
        await submit(service, painted(name, "red"))
    async with client.watch(PODS, resourceVersion=since) as lines:
        first = (await lines.next())["object"]["metadata"]
        assert first["name"] == "p2"
    async with client.watch(PODS, resourceVersion=first["resourceVersion"]) as lines:
        assert (await lines.named())[1] == "p1"


async def test_a_watched_version_can_be_written_until_another_write(
    client: Client, service: Running
) -> None:
    """The version of a member moves when another one does, which is no reason to refuse it."""
    since = (await client.get(PODS))["metadata"]["resourceVersion"]
    await submit(service, painted("p1", "red"), painted("p2", "red"))
    async with client.watch(PODS, resourceVersion=since) as lines:
        reports = {
            (e := await lines.next())["object"]["metadata"]["name"]: e["object"] for _ in "12"
        }
    await submit(service, painted("p2", "green"))
    p1 = reports["p1"]
    live = await client.get(f"{PODS}/p1")
    assert int(live["metadata"]["resourceVersion"]) > int(p1["metadata"]["resourceVersion"])
    p1["metadata"]["labels"] = {"colour": "blue"}
    for expected in (200, 409):
        async with client.session.put(f"{PODS}/p1", json=p1) as answer:
            assert answer.status == expected, await answer.text()
        p1["metadata"]["labels"] = {"colour": "white"}
    ahead = p1["metadata"] | {"resourceVersion": str(2**62)}
    async with client.session.put(f"{PODS}/p1", json=p1 | {"metadata": ahead}) as answer:
        assert answer.status == 409
    assert (await client.get(f"{PODS}/p1"))["metadata"]["labels"] == {"colour": "blue"}
