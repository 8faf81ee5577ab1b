"""Jobs of a KAI policy that are not flat through a whole service with three workers: parts of GPUs,
trees of sub groups with minima of groups, topology constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from tests.builders.objects import kai_group, kai_queue, node, pod
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running
from tests.end_to_end.one_process.test_kai_walk import (
    GPUS,
    TOPOLOGY_OF_RACKS,
    member,
    nodes_of,
    read,
    submit,
    waits_as,
)

Json = dict[str, Any]
QUEUE = kai_queue("team")


def sharing(name: str, **marks: str) -> Json:
    """A pod that asks for parts of GPUs."""
    pod_item = pod(name, schedulerName="kai-scheduler")
    pod_item["metadata"] |= {"labels": {"kai.scheduler/queue": "team"}, "annotations": marks}
    return pod_item


def racked(racks: Iterable[str]) -> list[Json]:
    return [
        node(f"{rack}{i}", labels={"rack": rack}) | {"status": {"allocatable": GPUS}}
        for rack in racks
        for i in range(2)
    ]


async def test_parts_of_gpus_share_devices(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    memory = {"nvidia.com/gpu.memory": "100"}
    nodes = [node(f"n{i}", labels=memory) | {"status": {"allocatable": GPUS}} for i in range(3)]
    halves = [sharing(f"half-{i}", **{"gpu-fraction": "0.5"}) for i in range(18)]
    two = sharing("two", **{"gpu-fraction": "0.3", "gpu-fraction-num-devices": "2"})
    late = sharing("late", **{"gpu-fraction": "0.9", "gpu-fraction-num-devices": "4"})
    by_memory = sharing("memory", **{"gpu-memory": "40"})
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *nodes, QUEUE, two, by_memory)
        await service.until(lambda status: status["tasks"]["running"] == 2)
        await submit(http, service, *halves)
        await service.until(lambda status: status["tasks"]["running"] == 20)
        devices_before = await devices_of(http, service)
        assert len(devices_before) == 20
        assert len(set(devices_before["two"])) == 2, "distinct devices"
        assert all(len(devices) == 1 for name, devices in devices_before.items() if name != "two")
        parts = {"two": 300, "memory": 400}
        used = Counter[str]()
        for name, devices in devices_before.items():
            used.update(dict.fromkeys(devices, parts.get(name, 500)))
        assert max(used.values()) <= 1000
        await submit(http, service, late)
        await service.until(partial(waits_as, service, "late", Reason.NOT_ENOUGH_RESOURCES))
        for i in range(18):
            async with http.delete(f"{service.url}/api/v1/namespaces/ns/pods/half-{i}") as answer:
                assert answer.status == 200
        await service.until(lambda status: status["jobs"]["pending"] == 0)
        assert len((await devices_of(http, service))["late"]) == 4


async def devices_of(http: aiohttp.ClientSession, service: Running) -> dict[str, list[str]]:
    """Pod -> its devices with their nodes, as its annotations and labels tell them."""
    pods = (await read(http, service, "/api/v1/namespaces/ns/pods"))["items"]
    reports: dict[str, list[str]] = {}
    for each in pods:
        metadata = each["metadata"]
        if "received-resource-type" not in metadata["annotations"]:
            continue
        assert metadata["annotations"]["received-resource-type"] == "Fraction"
        groups = [v for k, v in metadata["labels"].items() if k.startswith("runai-gpu-group")]
        reports[metadata["name"]] = [f"{each['spec']['nodeName']}/{group}" for group in groups]
    return reports


async def test_a_whole_gpu_is_not_given_beside_a_part(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    one = node("n") | {"status": {"allocatable": {**GPUS, "nvidia.com/gpu": "2"}}}
    whole = member("whole", "pair", gpus=2)
    async with (
        running(embedded_server.url, tmp_path, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        part = sharing("part", **{"gpu-fraction": "0.1"})
        await submit(http, service, one, QUEUE, part)
        await service.until(lambda status: status["tasks"]["running"] == 1)
        await submit(http, service, kai_group("pair"), whole, kai_group("one"), member("o", "one"))
        await service.until(lambda status: status["tasks"]["running"] == 2)
        await service.until(partial(waits_as, service, "pair", Reason.NOT_ENOUGH_RESOURCES))
        assert (await nodes_of(http, service)).keys() == {"part", "o"}


async def test_one_of_two_sub_groups_is_enough(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    nodes = [node("n") | {"status": {"allocatable": GPUS}}]
    tree = kai_group(
        "tree",
        minSubGroup=1,
        subGroups=[
            {"name": "left"},
            {"name": "right", "minSubGroup": 2},
            {"name": "l1", "parent": "left", "minMember": 2},
            {"name": "l2", "parent": "left", "minMember": 1},
            {"name": "r1", "parent": "right", "minMember": 2},
            {"name": "r2", "parent": "right", "minMember": 2},
        ],
    )
    pods = [member(f"{sub}-{i}", "tree", sub) for sub in ("l1", "r1", "r2") for i in range(2)]
    pods.append(member("l2-0", "tree", "l2"))
    async with (
        running(embedded_server.url, tmp_path, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *nodes, QUEUE, tree, *pods)
        await service.until(lambda status: status["tasks"]["running"] == 3)
        # The right one needs four GPUs, of which one is left.
        await service.until(partial(waits_as, service, "tree", Reason.NOT_ENOUGH_RESOURCES))
        assert (await nodes_of(http, service)).keys() == {"l1-0", "l1-1", "l2-0"}
        more = node("m") | {"status": {"allocatable": GPUS}}
        await submit(http, service, more)
        await service.until(lambda status: status["tasks"]["running"] == 7)


async def test_a_gang_stays_in_one_rack(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    near = kai_group(
        "near",
        topologyConstraint={"topology": "t", "requiredTopologyLevel": "rack"},
        minMember=6,
    )
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *racked("abc"), TOPOLOGY_OF_RACKS, QUEUE)
        await submit(http, service, near, *(member(f"near-{i}", "near") for i in range(6)))
        await service.until(lambda status: status["tasks"]["running"] == 6)
        nodes = await nodes_of(http, service)
        assert len({name[0] for name in nodes.values()}) == 1
        far = kai_group("far", topologyConstraint=near["spec"]["topologyConstraint"], minMember=9)
        await submit(http, service, far, *(member(f"far-{i}", "far") for i in range(9)))
        await service.until(partial(waits_as, service, "far", Reason.TOPOLOGY_PLACEMENT_FAILED))
        assert (await nodes_of(http, service)).keys() == nodes.keys()


UNEQUAL = [
    node(name, labels={"nvidia.com/gpu.memory": memory}) | {"status": {"allocatable": GPUS}}
    for name, memory in (("small", "400"), ("medium", "600"), ("large", "2000"))
]


async def test_memory_is_charged_by_its_node_also_after_a_restart(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    """350 MiB are 0.18 of a large device: the limit has room for two there, for none elsewhere."""
    flush(embedded_server)
    team = kai_queue("team", gpu={"quota": -1, "overQuotaWeight": 1, "limit": 0.5})
    shares = [sharing(f"share-{i}", **{"gpu-memory": "350"}) for i in range(5)]
    cluster = LocalCluster()
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=kai, kubelets=cluster) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *UNEQUAL, team, *shares[:3])
        await service.until(lambda status: status["tasks"]["running"] == 2)
        await service.until(lambda status: status["pending_reasons"] == {"WaitingForQuota": 1})
        assert set((await nodes_of(http, service)).values()) == {"large"}
        service.service.core.order.validate()
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=kai, kubelets=cluster) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *shares[3:])
        await service.until(lambda status: status["pending_reasons"] == {"WaitingForQuota": 3})
        assert len(await nodes_of(http, service)) == 2
        await submit(http, service, kai_queue("team"))
        await service.until(lambda status: status["tasks"]["running"] == 5)
