"""A service whose history is checked at the end, and the requests of who drains its nodes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.api.write.bulk import BASE
from coordinator.cluster.history.file import HistoryFile, LogFollower
from laboratory.checker.check import check
from laboratory.checker.report.report import CheckReport
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from tests.builders.objects import Item, a_list, simple_job
from tests.conftest import flush
from tests.coordinator.controllers.test_history import RecordingCluster
from tests.end_to_end.one_process.harness import DirectShards, Running, running

PODS = "/api/v1/namespaces/ns/pods"


def job(name: str, replicas: int, *, minimum: int, seconds: float = 600, **labels: str) -> Item:
    return simple_job(name, replicas, minimum=minimum, seconds=seconds, labels=labels)


@contextlib.asynccontextmanager
async def recorded(
    url: str, path: Path, reports: list[CheckReport], **settings: Any
) -> AsyncIterator[Running]:
    """A service over an empty ledger. At the end its history is in ``path``, and ``reports`` has
    what the checker says of it."""
    flush(url)
    history, ledger = HistoryFile(path), RedisLedger(url)
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    following = asyncio.create_task(follower.run())
    workers = DirectShards(url)
    cluster = RecordingCluster(history)
    async with running(url, path.parent, kubelets=cluster, workers=workers, **settings) as service:
        yield service
        report = service.cluster.told
    history.acknowledged(time.time(), report)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.drain()
    history.end(time.time())
    await ledger.close()
    history.close()
    reports.append(check(path))


async def put(session: aiohttp.ClientSession, *items: Item) -> None:
    async with session.post(f"{BASE}/lists", json=a_list(*items)) as answer:
        assert (await answer.json())["refused"] == []


async def pods(session: aiohttp.ClientSession, node: str = "") -> dict[str, Item]:
    """Pods by name; those of a node if one is given."""
    query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
    async with session.get(PODS, params=query) as answer:
        return {item["metadata"]["name"]: item for item in (await answer.json())["items"]}


async def evict(session: aiohttp.ClientSession, name: str, **more: Any) -> tuple[int, Any]:
    sent = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    async with session.post(f"{PODS}/{name}/eviction", json=sent) as answer:
        return answer.status, await answer.json()


async def until_other(session: aiohttp.ClientSession, name: str, uid: str) -> Item:
    """The next incarnation of a pod, once it runs."""
    async with asyncio.timeout(60):
        while True:
            pod = (await pods(session))[name]
            if pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running":
                return pod
            await asyncio.sleep(0.05)


# --- what kubectl drain does ----------------------------------------------------------------------


async def drain(session: aiohttp.ClientSession, nodes: Iterable[str]) -> None:
    """Cordon the nodes and evict their pods, as kubectl does."""
    for node in nodes:
        await cordon(session, node)
    for node in nodes:
        leaving = await pods(session, node)
        async with asyncio.timeout(60):
            await asyncio.gather(*(_until_gone(session, pod) for pod in leaving.values()))


async def cordon(session: aiohttp.ClientSession, node: str) -> None:
    kind = {"Content-Type": "application/merge-patch+json"}
    patch = '{"spec": {"unschedulable": true}}'
    async with session.patch(f"/api/v1/nodes/{node}", data=patch, headers=kind) as answer:
        assert answer.status == 200, await answer.text()


async def _until_gone(session: aiohttp.ClientSession, pod: Item) -> None:
    """Ask for the eviction until it is granted, and wait until this incarnation is gone."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    while True:
        code, output = await evict(session, name)
        if code == 404:  # it ended, or waits for a node; kubectl does not wait for it
            return
        if code == 201:
            break
        assert code == 429, output
        await asyncio.sleep(0.1)
    while True:
        async with session.get(f"{PODS}/{name}") as answer:
            if answer.status == 404 or (await answer.json())["metadata"]["uid"] != uid:
                return
        await asyncio.sleep(0.05)
