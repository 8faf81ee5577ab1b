"""Turn order under a KAI policy, on running services with several shards."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cluster.simulated.cluster import LocalCluster
from shard_worker.dialects.kai.service.queues import QueueShares
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from tests.builders.objects import UNLIMITED, kai_group, kai_queue, node
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, running_pods
from tests.end_to_end.one_process.test_kai_walk import (
    GPUS,
    NODES,
    gpu_pod,
    member,
    read,
    submit,
    waits_as,
)

Json = dict[str, Any]
TREE = "/apis/quadrant.dev/v1alpha1/queuetree"


def gpus(quota: int, limit: int = -1) -> Json:
    return {"quota": quota, "overQuotaWeight": 1, "limit": limit}


def leaf(name: str, quota: int, parent: str = "all", limit: int = -1) -> Json:
    return kai_queue(name, parent, cpu=UNLIMITED, memory=UNLIMITED, gpu=gpus(quota, limit))


def gang(name: str, queue: str, pods: int) -> list[Json]:
    group = kai_group(name, queue, minMember=pods)
    return [group, *(member(f"{name}{at}", name) for at in range(pods))]


async def order(http: aiohttp.ClientSession, service: Running) -> list[tuple[str, list[str]]]:
    """(the next job, the steps that decided) of each queue, as told."""
    report = (await read(http, service, TREE))["order"]
    return [(job["job"], [d["step"] for d in job["decided"]]) for job in report]


def total(service: Running) -> int:
    """The GPUs that are divided among the queues, in thousandths."""
    order = service.service.core.order
    shares = order.session.queue_choice
    assert isinstance(shares, QueueShares)
    return shares.total(order.accounts.cluster).gpu


def waiting(service: Running) -> int:
    """Jobs in the lines of their queues."""
    return sum(queue.waiting for queue in service.service.core.order.lines.queues.values())


def single(name: str, queue: str, gpus: int = 1) -> Json:
    return gpu_pod(name, gpus, labels={"kai.scheduler/queue": queue})


async def delete(http: aiohttp.ClientSession, service: Running, path: str) -> None:
    async with http.delete(f"{service.url}{path}") as answer:
        assert answer.status == 200, await answer.text()


async def test_turns_go_by_the_next_jobs_and_totals_are_of_what_can_be_used(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    policy = tmp_path / "kai.yaml"
    policy.write_text("dialect: kai\n")
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    down = node("down", taints=[taint]) | {"status": {"allocatable": GPUS}}
    queues = [
        kai_queue("all"),
        leaf("fill", -1),
        leaf("amber", 2),
        leaf("green", 2),
        leaf("blue", 0),
    ]
    kubelets = LocalCluster(grace=0.05)
    kubelets.occupy("n2", {"nvidia.com/gpu": 1000})
    async with (
        running(
            embedded_server.url,
            tmp_path,
            shards=3,
            policy=str(policy),
            kubelets=kubelets,
            reconcile_seconds=0.2,
        ) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *NODES, down, *queues, single("three", "fill", 3))
        await service.until(lambda _: total(service) == 11_000)
        singles = [f"b{at}" for at in range(8)]
        await submit(http, service, *(single(name, "fill") for name in singles))
        await service.until(lambda _: running_pods(service) == {"three", *singles})
        # Amber is the first queue by name, of equal age. Its job is more than its quota, that of
        # green is not.
        await submit(http, service, *gang("amber", "amber", 3))
        await submit(http, service, *gang("green", "green", 2))
        await service.until(lambda _: waiting(service) == 2)
        assert await order(http, service) == [("ns/green", ["QUOTA"]), ("ns/amber", [])]
        await delete(http, service, "/api/v1/namespaces/ns/pods/three")
        await service.until(lambda _: {"green0", "green1"} <= running_pods(service))
        # One GPU is left. Amber's three do not fit, and keep nobody from it; of the two pods that
        # would fit, the master goes first.
        kube = [kai_group("kube", "blue"), member("worker", "kube"), member("master", "kube")]
        kube[2]["metadata"]["labels"] = {"training.kubeflow.org/job-role": "master"}
        await submit(http, service, *kube)
        await service.until(lambda _: "master" in running_pods(service))
        assert running_pods(service) == {"green0", "green1", "master", *singles}


async def test_a_depth_of_one_and_a_tree_that_is_flat(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    policy = tmp_path / "kai.yaml"
    policy.write_text(
        # Allocate alone: who is too deep for it, consolidation may move others for.
        "dialect: kai\nactions: allocate\nqueueDepthPerAction: {allocate: 1}\n"
        "options: {full-hierarchy-fairness: false}\n"
    )
    options: Json = {"shards": 3, "policy": str(policy)}
    queues = [kai_queue("all", gpu=gpus(0, 2)), leaf("red", -1), leaf("blue", -1)]
    async with (
        running(embedded_server.url, tmp_path, **options) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *NODES, *queues)
        admission = await submit(http, service, *gang("hopeless", "red", 13))
        await submit(http, service, single("behind", "red"))
        # The limit of all is nobody's, and blue does not wait behind red.
        await submit(http, service, *gang("blue", "blue", 3))
        await service.until(lambda _: len(running_pods(service)) >= 3)
        assert running_pods(service) == {"blue0", "blue1", "blue2"}, admission
        path = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/hopeless"
        await delete(http, service, path)
        await service.until(lambda _: "behind" in running_pods(service))
        tree = await read(http, service, TREE)
        assert {(q["name"], q["depth"]) for q in tree["queues"]} == {("red", 0), ("blue", 0)}
    policy.write_text("dialect: kai\n")
    async with (
        running(embedded_server.url, tmp_path, **options) as service,
        aiohttp.ClientSession() as http,
    ):
        await service.until(lambda status: status["tasks"]["running"] == 4)
        await submit(http, service, single("more", "blue"))
        await service.until(partial(waits_as, service, "more", Reason.WAITING_FOR_QUOTA))
