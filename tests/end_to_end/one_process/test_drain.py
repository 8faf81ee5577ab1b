"""A node is drained: its pods are made anew elsewhere, gangs as a whole, budgets kept, and all of
it stands in the history."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import redis

from coordinator.api.write.bulk import BASE
from coordinator.cluster.history.file import HistoryFile, LogFollower
from coordinator.verification.checker.check import check
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.coordinator.api.kubectl import Kubectl, found
from tests.coordinator.controllers.test_history import Recorded
from tests.coordinator.intake.objects import node
from tests.end_to_end.one_process.harness import Running, running

pytestmark = [pytest.mark.timeout(200)]
DURATION = {"quadrant.dev/duration": "600"}


def job(name: str, replicas: int, *, minimum: int, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": labels, "annotations": DURATION},
        "spec": {"containers": [container]},
    }
    task = {"name": "w", "replicas": replicas, "template": template}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minAvailable": minimum, "tasks": [task]},
    }


def budget(name: str, minimum: int, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": labels}},
    }


@pytest_asyncio.fixture
async def service(embedded_server: EmbeddedServer, short_dir: Path) -> AsyncIterator[Running]:
    """A service whose history is checked when the test is over."""
    url, path = embedded_server.url, short_dir / "h.jsonl"
    with redis.Redis.from_url(url) as client:
        client.flushall()
    history, ledger = HistoryFile(path), RedisLedger(url)
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    following = asyncio.create_task(follower.run())
    async with running(url, short_dir, kubelets=Recorded(history)) as service:
        yield service
        told = service.cluster.told
    history.acknowledged(time.time(), told)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.drain()
    history.end(time.time())
    await ledger.close()
    history.close()
    report = check(path)
    assert report.violations == ()
    rows = {row.rule: row.checked for row in report.rows}
    assert rows["eviction-reason"] > 0


@pytest_asyncio.fixture
async def session(service: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(service.url) as session:
        yield session


async def put(session: aiohttp.ClientSession, *items: dict[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    async with session.post(f"{BASE}/lists", json=body) as answer:
        assert (await answer.json())["refused"] == []


async def pods(session: aiohttp.ClientSession) -> dict[str, dict[str, Any]]:
    async with session.get("/api/v1/namespaces/ns/pods") as answer:
        return {item["metadata"]["name"]: item for item in (await answer.json())["items"]}


async def evict(session: aiohttp.ClientSession, name: str, **more: Any) -> tuple[int, Any]:
    sent = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    path = f"/api/v1/namespaces/ns/pods/{name}/eviction"
    async with session.post(path, json=sent) as answer:
        return answer.status, await answer.json()


async def until_other(session: aiohttp.ClientSession, name: str, uid: str) -> dict[str, Any]:
    """The next incarnation of a pod, once it runs."""
    async with asyncio.timeout(60):
        while True:
            pod = (await pods(session))[name]
            if pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running":
                return pod
            await asyncio.sleep(0.05)


async def test_a_gang_goes_whole_and_another_pod_alone(
    service: Running, session: aiohttp.ClientSession
) -> None:
    await put(session, node("n1"), node("n2"), job("gang", 3, minimum=3), job("free", 3, minimum=1))
    await service.until(lambda status: status["tasks"]["running"] == 6)
    before = await pods(session)
    code, said = await evict(session, "gang-w-0", deleteOptions={"dryRun": ["All"]})
    assert code == 201, said
    assert await pods(session) == before
    assert (await evict(session, "gang-w-0"))[0] == 201
    # the rest of the gang is on its way out too: asked for again, that is no error
    assert (await evict(session, "gang-w-1"))[0] == 201
    for name in ("gang-w-0", "gang-w-1", "gang-w-2"):
        await until_other(session, name, before[name]["metadata"]["uid"])
    async with session.delete("/api/v1/namespaces/ns/pods/free-w-1") as answer:
        assert answer.status == 200, await answer.text()
    await until_other(session, "free-w-1", before["free-w-1"]["metadata"]["uid"])
    after = await pods(session)
    for name in ("free-w-0", "free-w-2"):
        assert after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
    assert (await evict(session, "free-w-9"))[0] == 404
    wrong = {"preconditions": {"uid": before["free-w-1"]["metadata"]["uid"]}}
    assert (await evict(session, "free-w-1", deleteOptions=wrong))[0] == 409


async def test_a_budget_says_no_and_is_named(
    service: Running, session: aiohttp.ClientSession
) -> None:
    await put(
        session,
        node("n1"),
        job("web", 3, minimum=1, app="web"),
        budget("keep-two", 2, app="web"),
    )
    await service.until(lambda status: status["tasks"]["running"] == 3)
    answers = await asyncio.gather(*(evict(session, f"web-w-{i}") for i in range(3)))
    codes = sorted(code for code, _ in answers)
    assert codes == [201, 429, 429]
    refused = next(said for code, said in answers if code == 429)
    assert refused["reason"] == "TooManyRequests"
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "keep-two needs 2 healthy pods" in refused["details"]["causes"][0]["message"]
    # whoever deletes asks nobody
    kept = next(f"web-w-{i}" for i, (code, _) in enumerate(answers) if code == 429)
    async with session.delete(f"/api/v1/namespaces/ns/pods/{kept}") as answer:
        assert answer.status == 200
    await service.until(lambda status: status["tasks"]["running"] == 3)


@pytest.mark.skipif(found() is None, reason="no kubectl in PATH or $KUBECTL")
async def test_kubectl_drain_empties_a_node(
    service: Running, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    kubectl = Kubectl(service.url, tmp_path)
    await put(
        session,
        *(node(f"n{i}") for i in range(3)),
        job("gang", 6, minimum=6),
        job("web", 6, minimum=1, app="web"),
        budget("most", 4, app="web"),
    )
    await service.until(lambda status: status["tasks"]["running"] == 12)
    drained = next(iter((await pods(session)).values()))["spec"]["nodeName"]
    out = await kubectl.ok("drain", drained, "--timeout=80s", "--ignore-daemonsets")
    assert out.splitlines()[-1] == f"node/{drained} drained"
    await service.until(lambda status: status["tasks"]["running"] == 12)
    assert drained not in {pod["spec"]["nodeName"] for pod in (await pods(session)).values()}
    await kubectl.ok("uncordon", drained)
    shown = json.loads(await kubectl.ok("get", "node", drained, "-o", "json"))
    assert not shown["spec"].get("unschedulable")
