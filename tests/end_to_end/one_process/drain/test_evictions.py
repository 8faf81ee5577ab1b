"""Pods are evicted and deleted on request, one after the other: gangs leave as a whole, budgets are
kept, and all of it is in the history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from laboratory.checker.report.report import CheckReport
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import TaskState
from tests.builders.objects import budget, node
from tests.coordinator.api.kubectl import Kubectl, found
from tests.end_to_end.one_process.drain.support import (
    PODS,
    cordon,
    evict,
    job,
    pods,
    put,
    recorded,
    until_other,
)
from tests.end_to_end.one_process.harness import (
    PATIENCE,
    AdvancedCluster,
    Running,
    running,
)

pytestmark = [pytest.mark.timeout(200)]


@pytest_asyncio.fixture
async def service(embedded_server: EmbeddedServer, short_dir: Path) -> AsyncIterator[Running]:
    """A service whose history is checked when the test is over."""
    reports: list[CheckReport] = []
    async with recorded(embedded_server.url, short_dir / "h.jsonl", reports) as service:
        yield service
    (report,) = reports
    assert report.violations == ()
    rows = {row.rule: row.checked for row in report.rows}
    assert rows["eviction-reason"] > 0


@pytest_asyncio.fixture
async def session(service: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(service.url) as session:
        yield session


def places(pods: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Pod -> its uid, its node, and since when it is leaving. Kubelets may tell more of one that
    runs at any moment."""
    return {
        name: (
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            pod["metadata"].get("deletionTimestamp", ""),
        )
        for name, pod in pods.items()
    }


async def test_a_gang_goes_whole_and_another_pod_alone(
    service: Running, session: aiohttp.ClientSession
) -> None:
    await put(session, node("n1"), node("n2"), job("gang", 3, minimum=3), job("free", 3, minimum=1))
    await service.until(lambda status: status["tasks"]["running"] == 6)
    before = await pods(session)
    code, output = await evict(session, "gang-w-0", deleteOptions={"dryRun": ["All"]})
    assert code == 201, output
    assert places(await pods(session)) == places(before)
    assert (await evict(session, "gang-w-0"))[0] == 201
    # The rest of the gang is on its way out too: asked for again, that is no error. On a slow
    # machine it has left by then, or is being placed anew.
    assert (await evict(session, "gang-w-1"))[0] in (201, 404, 429)
    for name in ("gang-w-0", "gang-w-1", "gang-w-2"):
        await until_other(session, name, before[name]["metadata"]["uid"])
    async with session.delete(f"{PODS}/free-w-1") as answer:
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
    await cordon(session, "n1")  # the evicted pod comes back nowhere, so the budget stays spent
    answers = await asyncio.gather(*(evict(session, f"web-w-{i}") for i in range(3)))
    codes = sorted(code for code, _ in answers)
    assert codes == [201, 429, 429]
    refused_pod = next(f"web-w-{i}" for i, (code, _) in enumerate(answers) if code == 429)
    refused: dict[str, Any] = {"details": {}}
    async with asyncio.timeout(PATIENCE):
        while "causes" not in refused["details"]:  # while a place is looked for, its job is busy
            code, refused = await evict(session, refused_pod)
            assert (code, refused["reason"]) == (429, "TooManyRequests")
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "keep-two needs 2 healthy pods" in refused["details"]["causes"][0]["message"]
    # whoever deletes asks no budget
    code = 429
    async with asyncio.timeout(PATIENCE):
        while code == 429:
            async with session.delete(f"{PODS}/{refused_pod}") as answer:
                code = answer.status
    assert code == 200
    await service.until(lambda status: status["tasks"]["running"] == 1)
    await put(session, node("n1"))
    await service.until(lambda status: status["tasks"]["running"] == 3)


async def test_a_job_may_begin_anew_where_a_pod_is_evicted(
    service: Running, session: aiohttp.ClientSession
) -> None:
    free = job("free", 3, minimum=1)
    free["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    await put(session, node("n1"), node("n2"), free)
    await service.until(lambda status: status["tasks"]["running"] == 3)
    before = await pods(session)
    assert (await evict(session, "free-w-1"))[0] == 201
    for name, pod in before.items():
        await until_other(session, name, pod["metadata"]["uid"])
    async with session.get("/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/free") as answer:
        assert (await answer.json())["status"]["retryCount"] == 1


async def test_a_pod_that_waits_for_a_node_is_on_none(
    service: Running, session: aiohttp.ClientSession
) -> None:
    await put(session, node("n1"), job("gang", 2, minimum=2))
    await service.until(lambda status: status["tasks"]["running"] == 2)
    await cordon(session, "n1")
    assert (await evict(session, "gang-w-0"))[0] == 201
    await service.until(lambda status: status["tasks"]["pending"] == 2)
    code, output = await evict(session, "gang-w-1")  # it left with the other one
    assert (code, output["reason"]) == (404, "NotFound")
    async with session.delete(f"{PODS}/gang-w-1") as answer:
        assert answer.status == 409, await answer.text()


async def test_a_pod_that_ends_by_itself_is_asked_for_again_until_it_has(
    redis_url: str, short_dir: Path
) -> None:
    kubelets = AdvancedCluster(grace=600.0)
    async with (
        running(redis_url, short_dir, kubelets=kubelets) as service,
        aiohttp.ClientSession(service.url) as session,
    ):
        await put(session, node("n1"), job("brief", 1, minimum=1, seconds=0.1))
        tasks = service.service.core.order.accounts.tasks
        await service.until(lambda _: tasks[TaskState.RELEASING] == 1)
        code, output = await evict(session, "brief-w-0")
        assert (code, output["message"]) == (429, "the pod is ending by itself; send it again")
        async with session.delete(f"{PODS}/brief-w-0") as answer:
            assert answer.status == 200  # who deletes does not wait for what ends anyhow
        kubelets.ahead = 1200.0
        await service.until(lambda status: status["tasks"]["finished"] == 1)
        assert (await evict(session, "brief-w-0"))[0] == 404


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
    live = json.loads(await kubectl.ok("get", "node", drained, "-o", "json"))
    assert not live["spec"].get("unschedulable")
