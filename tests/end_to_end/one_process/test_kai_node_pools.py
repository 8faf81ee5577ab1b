"""Node pools in a running service of several shards: what is in another pool does not exist, and
what moves is there, or is not, from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.service.observed.kubernetes import names_of_leases
from shared.ledger.redis.server import EmbeddedServer
from shared.model.node_pool import NodePool
from tests.builders.objects import kai_group, kai_queue, node
from tests.conftest import flush
from tests.end_to_end.one_process.harness import PATIENCE, Running, running
from tests.end_to_end.one_process.test_kai_walk import (
    GPUS,
    gpu_pod,
    member,
    nodes_of,
    read,
    submit,
)

Json = dict[str, Any]
POOL = "kai.scheduler/node-pool"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
TREE = "/apis/quadrant.dev/v1alpha1/queuetree"
OVER_QUOTA = {"quota": 0, "overQuotaWeight": 1, "limit": -1}
BLUE = {POOL: "blue"}


def labelled(value: Json, labels: Json) -> Json:
    value["metadata"]["labels"] = (value["metadata"].get("labels") or {}) | labels
    return value


def gpu_node(name: str, **labels: str) -> Json:
    return labelled(node(name) | {"status": {"allocatable": GPUS}}, labels)


def gang(name: str, queue: str, pods: int, labels: Json = BLUE) -> list[Json]:
    members = [member(f"{name}-{i}", name) for i in range(pods)]
    return [labelled(kai_group(name, queue, minMember=pods), labels), *members]


@pytest.fixture
async def service(embedded_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Running]:
    """The scheduler of pool blue: three nodes of four GPUs each, beside two of others."""
    flush(embedded_server)
    file = tmp_path / "kai.yaml"
    file.write_text("dialect: kai\noptions: {partition-label-value: blue}\n")
    async with (
        running(
            embedded_server.url,
            tmp_path,
            shards=3,
            policy=str(file),
            ledger_audit_seconds=0.1,
            reconcile_seconds=0.2,
        ) as service,
        aiohttp.ClientSession() as http,
    ):
        nodes = [gpu_node(f"blue-{i}", **BLUE) for i in range(3)]
        others = [gpu_node("red", **{POOL: "red"}), gpu_node("plain")]
        queue = labelled(kai_queue("q", gpu=OVER_QUOTA), BLUE)
        await submit(http, service, *nodes, *others, queue, kai_queue("elsewhere", gpu=OVER_QUOTA))
        yield service


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def label(
    http: aiohttp.ClientSession, service: Running, path: str, value: str | None
) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"metadata": {"labels": {POOL: value}}}
    async with http.patch(f"{service.url}{path}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def until(done: Callable[[], Any]) -> Any:
    """The first answer of ``done`` that is true."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not (answer := await done()):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)
    return answer


async def total(http: aiohttp.ClientSession, service: Running) -> str:
    tree = await read(http, service, TREE)
    gpus: str = tree["total"]["nvidia.com/gpu"]
    return gpus


async def test_only_objects_of_the_pool_count(
    service: Running, http: aiohttp.ClientSession
) -> None:
    assert await total(http, service) == "12"
    tree = await read(http, service, TREE)
    assert [queue["name"] for queue in tree["queues"]] == ["q"]
    await submit(http, service, *gang("fits", "q", 12), *gang("none-left", "q", 4))
    await service.until(lambda status: status["tasks"]["running"] == 12)
    assert set((await nodes_of(http, service)).values()) == {"blue-0", "blue-1", "blue-2"}
    explained = await read(http, service, f"{GROUPS}/none-left/explain")
    assert "plain" not in str(explained)
    (ready,) = (await read(http, service, "/api/v1/nodes/red"))["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "NotInNodePool")
    assert ready["message"].startswith("it is in node pool red, and this scheduler has node pool b")


async def test_groups_and_pods_of_other_pools_are_left_to_their_scheduler(
    service: Running, http: aiohttp.ClientSession
) -> None:
    admission = await submit(http, service, gpu_node("far", **{POOL: "red"}), kai_queue("far"))
    notices = {
        (notice["kind"], notice["name"]): notice["message"] for notice in admission["notices"]
    }
    assert notices[("Node", "far")].startswith("it is kept, and not used: it is in node pool red,")
    assert notices[("Queue", "far")].startswith(
        "it is kept, and nothing counts in it: queue far is"
    )
    alone = gpu_pod("alone", labels={"kai.scheduler/queue": "q"})
    ours = gpu_pod("ours", labels={"kai.scheduler/queue": "q"} | BLUE)
    admission = await submit(http, service, *gang("theirs", "q", 2, {}), alone, ours)
    (message,) = {notice["message"] for notice in admission["notices"]}
    assert message.startswith("it is kept and waits (OtherScheduler): it is in node pool default,")
    await service.until(lambda status: status["tasks"]["running"] == 1)
    await service.until(lambda status: status["pending_reasons"] == {"OtherScheduler": 2})
    assert (await nodes_of(http, service)).keys() == {"ours"}
    tree = await read(http, service, TREE)
    assert tree["queues"][0]["resources"]["gpu"]["requested"] == "1", "theirs ask nobody here"
    async with http.get(f"{service.url}/metrics") as answer:
        text = await answer.text()
    assert 'quadrant_unadmitted_jobs{queue="",reason="OtherScheduler"} 2.0' in text
    group = await read(http, service, f"{GROUPS}/theirs")
    assert group["metadata"]["annotations"]["quadrant.dev/reason"] == "OtherScheduler"


async def test_a_group_whose_queue_is_in_another_pool_waits_and_says_so(
    service: Running, http: aiohttp.ClientSession
) -> None:
    await submit(http, service, *gang("lost", "elsewhere", 1))
    await service.until(lambda status: status["pending_reasons"] == {"Misconfigured": 1})
    explained = await read(http, service, f"{GROUPS}/lost/explain")
    assert explained["message"].startswith("queue elsewhere is in node pool default, and this")
    queue = await read(http, service, f"{QUEUES}/elsewhere")
    (condition,) = queue["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NotInNodePool")
    await label(http, service, f"{QUEUES}/elsewhere", "blue")
    await service.until(lambda status: status["tasks"]["running"] == 1)


async def test_pods_that_come_before_their_group_wait_for_it_in_any_pool(
    service: Running, http: aiohttp.ClientSession
) -> None:
    group, pod = gang("late", "q", 1)
    admission = await submit(http, service, pod)
    assert "OtherScheduler" not in str(admission["notices"])
    await service.until(lambda status: status["pending_reasons"] == {"Misconfigured": 1})
    await submit(http, service, group)
    await service.until(lambda status: status["tasks"]["running"] == 1)


async def test_a_node_entering_the_pool_takes_tasks_and_a_leaving_one_keeps_them(
    service: Running, http: aiohttp.ClientSession
) -> None:
    await submit(http, service, *gang("first", "q", 12))
    await service.until(lambda status: status["tasks"]["running"] == 12)
    await submit(http, service, *gang("second", "q", 4))
    await label(http, service, "/api/v1/nodes/red", "blue")
    await service.until(lambda status: status["tasks"]["running"] == 16)
    assert await total(http, service) == "16"
    await label(http, service, "/api/v1/nodes/red", "red")
    await until(lambda: equal(total(http, service), "12"))
    placed = await nodes_of(http, service)
    assert [name for name, at in placed.items() if at == "red"], "nobody is evicted for it"
    tree = await read(http, service, TREE)
    assert tree["queues"][0]["resources"]["gpu"]["allocated"] == "16", "their queue has them still"
    async with http.delete(f"{service.url}{GROUPS}/second") as answer:
        assert answer.status == 200
    await service.until(lambda status: status["tasks"]["running"] == 12)
    await submit(http, service, *gang("third", "q", 4))
    await service.until(lambda status: "NotEnoughResources" in status["pending_reasons"])
    await label(http, service, "/api/v1/nodes/red", "blue")
    await service.until(lambda status: status["tasks"]["running"] == 16)
    service.service.core.validate()


async def test_a_deleted_group_and_queue_keep_running_pods_and_count_no_more(
    service: Running, http: aiohttp.ClientSession
) -> None:
    await submit(http, service, *gang("first", "q", 8))
    await service.until(lambda status: status["tasks"]["running"] == 8)
    await label(http, service, f"{GROUPS}/first", "red")
    await until(lambda: equal(allocated(http, service), "0"))
    # Their places are taken all the same, and nobody may evict them.
    await submit(http, service, *gang("large", "q", 8), *gang("small", "q", 4))
    await service.until(lambda status: status["tasks"]["running"] == 12)
    await label(http, service, f"{GROUPS}/first", "blue")
    await until(lambda: equal(allocated(http, service), "12"))
    await label(http, service, f"{QUEUES}/q", "red")
    await until(lambda: equal(queue_names(http, service), []))
    await submit(http, service, *gang("late", "q", 1))
    await service.until(lambda status: status["pending_reasons"].get("Misconfigured") == 2)
    await label(http, service, f"{QUEUES}/q", "blue")
    await until(lambda: equal(allocated(http, service), "12"))
    assert (await service.until(lambda _: True))["tasks"]["running"] == 12
    service.service.core.validate()


async def equal(answer: Any, expected: object) -> bool:
    return bool(await answer == expected)


async def allocated(http: aiohttp.ClientSession, service: Running) -> str:
    """GPUs that queue q holds."""
    queues = (await read(http, service, TREE))["queues"]
    gpus: str = next(q for q in queues if q["name"] == "q")["resources"]["gpu"]["allocated"]
    return gpus


async def queue_names(http: aiohttp.ClientSession, service: Running) -> list[str]:
    return [queue["name"] for queue in (await read(http, service, TREE))["queues"]]


async def test_victims_are_not_taken_from_another_pool(
    service: Running, http: aiohttp.ClientSession
) -> None:
    """The younger of two groups beyond the share of their queue goes first, unless it belongs to
    another scheduler by now."""
    quota = {"quota": 12, "overQuotaWeight": 1, "limit": -1}
    await submit(http, service, labelled(kai_queue("strong", gpu=quota), BLUE))
    for name, pods in (("older", 4), ("younger", 8)):
        await submit(http, service, *gang(name, "q", pods))
        await until(lambda name=name: runs(http, service, f"{name}-0"))  # type: ignore[misc]
    await label(http, service, f"{GROUPS}/younger", "red")
    await until(lambda: equal(allocated(http, service), "4"))
    await submit(http, service, *gang("claims", "strong", 4))
    await until(lambda: runs(http, service, "claims-0"))
    placed = await nodes_of(http, service)
    assert {name.rpartition("-")[0] for name in placed} == {"younger", "claims"}


async def runs(http: aiohttp.ClientSession, service: Running, pod: str) -> bool:
    return pod in await nodes_of(http, service)


def test_two_pools_of_a_cluster_have_leases_of_their_own() -> None:
    names = {"quadrant", "kai-scheduler"}
    assert names_of_leases(names, None) == names
    assert names_of_leases(names, NodePool(POOL, "")) == names
    blue = {"quadrant-gpu-blue.1", "kai-scheduler-gpu-blue.1"}
    assert names_of_leases(names, NodePool(POOL, "GPU_blue.1")) == blue


async def test_another_pool_takes_a_restart(
    embedded_server: EmbeddedServer, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    flush(embedded_server)
    file = tmp_path / "kai.yaml"
    file.write_text("dialect: kai\n")
    async with running(embedded_server.url, tmp_path, policy=str(file)) as service:
        items = [gpu_node("plain"), gpu_node("blue", **BLUE), kai_queue("q", gpu=OVER_QUOTA)]
        await submit(http, service, *items, *gang("first", "q", 1, {}))
        await service.until(lambda status: status["tasks"]["running"] == 1)
        file.write_text("dialect: kai\noptions: {partition-label-value: blue}\n")
        await service.until(lambda status: "takes a restart" in (status["policy"]["error"] or ""))
        assert await total(http, service) == "4"
    async with running(embedded_server.url, tmp_path, policy=str(file)) as service:
        assert await total(http, service) == "4", "of the other node"
        assert await queue_names(http, service) == []
        status = await service.until(lambda status: status["tasks"]["running"] == 1)
        assert status["jobs"]["running"] == 1
