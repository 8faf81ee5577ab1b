"""A KAI policy, its queues and a gang by PodGroup, through a whole service with several shards."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from tests.builders.objects import a_list, kai_group, kai_queue, node, pod, queue
from tests.conftest import flush
from tests.coordinator.intake.test_kai_objects import TOPOLOGY
from tests.end_to_end.one_process.harness import Running, running

Json = dict[str, Any]
GPUS = {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "4"}


def gpu_pod(name: str, gpus: int = 1, *, labels: Json | None = None, **metadata: Any) -> Json:
    ask = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    pod_item = pod(
        name,
        containers=[{"name": "c", "resources": {"requests": ask}}],
        schedulerName="kai-scheduler",
    )
    pod_item["metadata"] |= {"labels": labels or {}} | metadata
    return pod_item


def member(name: str, group: str, sub: str = "", gpus: int = 1) -> Json:
    labels = {"kai.scheduler/subgroup-name": sub} if sub else {}
    return gpu_pod(name, gpus, labels=labels, annotations={"pod-group-name": group})


def share(limit: int) -> Json:
    return {"quota": 2, "overQuotaWeight": 1, "limit": limit}


QUEUES = [
    kai_queue("all", gpu=share(-1)),
    kai_queue("red", "all", gpu=share(6)),
    kai_queue("blue", "all", gpu=share(-1)),
]
NODES = [node(f"n{i}") | {"status": {"allocatable": GPUS}} for i in range(3)]


async def submit(http: aiohttp.ClientSession, service: Running, *items: Json) -> Json:
    """The answer to a list of objects that is accepted whole."""
    async with http.post(
        f"{service.url}/apis/quadrant.dev/v1alpha1/lists", json=a_list(*items)
    ) as answer:
        output: Json = await answer.json()
    assert output["refused"] == [], output
    return output


async def read(http: aiohttp.ClientSession, service: Running, path: str) -> Json:
    async with http.get(f"{service.url}{path}") as answer:
        assert answer.status == 200, await answer.text()
        body: Json = await answer.json()
    return body


async def nodes_of(http: aiohttp.ClientSession, service: Running) -> dict[str, str]:
    """Pod -> its node, of those that have one."""
    pods = (await read(http, service, "/api/v1/namespaces/ns/pods"))["items"]
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
    return {name: node for name, node in nodes.items() if node}


async def test_a_gang_and_a_pod_of_their_own_are_bound(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    gang = kai_group(
        "train",
        "red",
        subGroups=[{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 3}],
    )
    members = [member("lead-0", "train", "lead")]
    members += [member(f"work-{i}", "train", "work") for i in range(3)]
    alone = gpu_pod("alone", labels={"kai.scheduler/queue": "blue"})
    too_many = [kai_group("large", "red", minMember=3), *(member(f"l{i}", "large") for i in "abc")]
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        admission = await submit(http, service, *NODES, *QUEUES, gang, *members, alone)
        assert {notice["kind"] for notice in admission["notices"]} == {"Queue"}, "quotas alone"
        await service.until(lambda status: status["tasks"]["running"] == 5)
        placed = await nodes_of(http, service)
        assert placed.keys() == {"lead-0", "work-0", "work-1", "work-2", "alone"}
        assert len(set(placed.values())) == 2, "the fullest node first"
        await submit(http, service, *too_many)
        await service.until(partial(waits_as, service, "large", Reason.WAITING_FOR_QUOTA))
        assert (await nodes_of(http, service)).keys() == placed.keys()
        path = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/train"
        async with http.delete(f"{service.url}{path}") as answer:
            assert answer.status == 200, await answer.text()
        await service.until(lambda _: "kaipodgroup/ns/train" not in stored(service))
        await service.until(lambda status: status["tasks"]["running"] == 4)
        assert (await nodes_of(http, service)).keys() == {"alone", "la", "lb", "lc"}
    async with (
        running(embedded_server.url, tmp_path, shards=2, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await service.until(lambda status: status["tasks"]["running"] == 4)
        assert {"kaiqueue/red", "kaipodgroup/ns/large"} <= stored(service)
        await submit(http, service, gpu_pod("later", labels={"kai.scheduler/queue": "blue"}))
        await service.until(lambda status: status["tasks"]["running"] == 5)


async def test_a_gang_waits_for_its_missing_topology_or_queue(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    racked = node("racked", labels={"rack": "r1"}) | {"status": {"allocatable": GPUS}}
    items = [
        kai_group("near", "red", topologyConstraint={"topology": "t", **LEVEL}),
        member("n", "near"),
        kai_group("nowhere", "green"),
        member("w", "nowhere"),
    ]
    async with (
        running(embedded_server.url, tmp_path, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        admission = await submit(http, service, *NODES, *QUEUES, *items, queue("red"))
        notices = [n["message"] for n in admission["notices"] if n["kind"] == "Queue"]
        unread = "the policy in force is KAI's; it counts under one of Volcano's"
        assert any(unread in notice for notice in notices)
        await service.until(partial(waits_as, service, "near", Reason.MISCONFIGURED))
        await service.until(partial(waits_as, service, "nowhere", Reason.MISCONFIGURED))
        await submit(http, service, kai_queue("green", "all"))
        await service.until(lambda status: status["tasks"]["running"] == 1)
        assert (await nodes_of(http, service)).keys() == {"w"}
        await submit(http, service, TOPOLOGY_OF_RACKS, racked)
        await service.until(lambda status: status["tasks"]["running"] == 2)
        assert (await nodes_of(http, service))["n"] == "racked"
        groups = [group["name"] for group in (await read(http, service, "/apis"))["groups"]]
        assert groups.index("scheduling.run.ai") < groups.index("scheduling.volcano.sh")


LEVEL = {"requiredTopologyLevel": "rack"}
TOPOLOGY_OF_RACKS = TOPOLOGY | {"spec": {"levels": [{"nodeLabel": "rack"}]}}


def waits_as(service: Running, name: str, reason: Reason, _: Json) -> bool:
    """Whether the job of this name waits for this reason."""
    jobs = service.service.core.order.jobs.values()
    return any(state.job.name == name and state.reason is reason for state in jobs)


def stored(service: Running) -> set[str]:
    return set(service.service.intake.registry.objects)
