"""A client that lists in pages and then watches, while others write and it is cut again and again,
comes to the picture that a new list gives."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.read.server_sent_events import resumable
from tests.builders.objects import node
from tests.coordinator.api.client import PODS, SECONDS, Client
from tests.coordinator.api.conftest import job, running_pod
from tests.end_to_end.one_process.harness import Running, submit
from tests.examples import first_of

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
NODES = "/api/v1/nodes"
WRITES = 60
LOOKS = 20
"""Maximum looks of a follower that sees nothing new and still lacks something."""

Picture = dict[str, Any]


def fields_of(value: dict[str, Any]) -> Any:
    """Fields of an object that must never be stale."""
    meta, status = value["metadata"], value.get("status") or {}
    where = (value.get("spec") or {}).get("nodeName")
    return (
        meta["uid"],
        meta.get("labels"),
        meta.get("deletionTimestamp"),
        where,
        status.get("phase"),
    )


class WatchFollower:
    """Lists by pages of two, then watches; hangs up after a few events and comes again with the
    version of the last."""

    def __init__(self, client: Client, path: str, seed: int) -> None:
        self.client, self.path = client, path
        self.random = random.Random(f"{path} {seed}")
        self.known: Picture = {}
        self.since = ""

    async def list(self) -> None:
        token: dict[str, str] = {}
        while True:
            page = await self.client.get(self.path, limit="2", **token)
            self.known |= {o["metadata"]["name"]: fields_of(o) for o in page["items"]}
            self.since = self.since or page["metadata"]["resourceVersion"]
            if "continue" not in page["metadata"]:
                return
            token = {"continue": page["metadata"]["continue"]}
            await asyncio.sleep(0.01)

    async def follow(self, most: int) -> None:
        """At most so many events, as long as one comes within a moment."""
        async with self.client.watch(self.path, resourceVersion=self.since) as lines:
            for _ in range(most):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        self.take(orjson.loads(await lines.response.content.readline()))
                    continue
                return

    def take(self, event: dict[str, Any]) -> None:
        value = event["object"]
        name, version = value["metadata"]["name"], value["metadata"]["resourceVersion"]
        assert int(version) >= int(self.since), event
        self.since = version
        if event["type"] == "DELETED":
            self.known.pop(name, None)
        else:
            self.known[name] = fields_of(value)

    async def run(self, writing: asyncio.Event) -> None:
        await self.list()
        while not writing.is_set():
            await self.follow(self.random.randint(1, 4))
        for _ in range(LOOKS):  # where a machine is busy, the next event may come later
            await self.follow(10_000)
            if self.known == await self.fresh():
                break

    async def fresh(self) -> Picture:
        """Picture of a new list."""
        items = (await self.client.get(self.path))["items"]
        return {o["metadata"]["name"]: fields_of(o) for o in items}


async def write(service: Running, client: Client, chance: random.Random) -> None:
    """Gangs that come, are painted and go; nodes too."""
    for i in range(WRITES):
        name = f"s{chance.randrange(4)}"
        match chance.randrange(5):
            case 0:
                async with client.session.delete(f"{JOBS}/{name}") as answer:
                    assert answer.status in (200, 404), await answer.text()
            case 1 | 2:
                body = job(name, chance.randint(1, 3), colour=str(i))
                async with client.session.post(JOBS, json=body) as answer:
                    assert answer.status in (201, 409), await answer.text()
            case 3:
                colours = {"colour": str(i)}
                await submit(
                    service, *(running_pod(p, group="gang", **colours) for p in ("p1", "p2"))
                )
            case _:
                await submit(service, node(f"n{chance.randint(1, 2)}", labels={"colour": str(i)}))
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", first_of([1, 2]))
async def test_list_and_watch_lose_nothing(client: Client, service: Running, seed: int) -> None:
    followers = [WatchFollower(client, path, seed) for path in (PODS, JOBS, GROUPS, NODES)]
    written = asyncio.Event()

    async def writing() -> None:
        await write(service, client, random.Random(seed))
        written.set()

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        group.create_task(writing())
        for follower in followers:
            group.create_task(follower.run(written))
    for follower in followers:
        assert follower.known == await follower.fresh()


@pytest.mark.parametrize("count", first_of([3, 1, 5]))
async def test_members_of_a_gang_come_all_where_it_is_cut_among_them(
    client: Client, service: Running, count: int
) -> None:
    """All of them are placed at one version."""
    since = (await client.get(PODS))["metadata"]["resourceVersion"]
    await submit(service, job("six", 6))
    await service.until(lambda status: status["tasks"]["running"] == 11)
    report: set[str] = set()
    async with client.watch(PODS, resourceVersion=since) as lines:
        for _ in range(count):
            event = await lines.next()
            report.add(event["object"]["metadata"]["name"])
    since = event["object"]["metadata"]["resourceVersion"]
    async with client.watch(PODS, resourceVersion=since) as lines:
        while not report >= {f"six-w-{i}" for i in range(6)}:
            event = await lines.next()  # fails where none comes any more
            report.add(event["object"]["metadata"]["name"])


@given(st.lists(st.integers(1, 8), max_size=20).map(sorted))
def test_no_stream_id_hides_later_entries(versions: list[int]) -> None:
    numbers = resumable(versions)
    assert numbers == sorted(numbers)
    for i, number in enumerate(numbers):
        assert all(later > number for later in versions[i + 1 :])
        assert number in (versions[i], versions[i] - 1)
