"""KAI's evicting actions on a running service with three shards and the real ledger: who goes,
where the promised places are, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.redis.server import EmbeddedServer
from shared.manifests.kai.groups import STALE_SINCE
from shared.messages.messages import TaskState
from shared.policy.kai_names import DEFAULT_PLUGINS
from tests.builders.objects import kai_group, kai_queue
from tests.conftest import flush
from tests.end_to_end.one_process.harness import AdvancedCluster, Running, running, running_pods
from tests.end_to_end.one_process.test_kai_order import delete, gpus, leaf, single
from tests.end_to_end.one_process.test_kai_walk import NODES, member, nodes_of, read, submit

Json = dict[str, Any]
MOVING = "dialect: kai\nactions: allocate, consolidation\n"


def service_of(
    url: str,
    tmp_path: Path,
    policy: str,
    *,
    kubelets: LocalCluster | None = None,
    shards: int = 3,
) -> Any:
    file = tmp_path / "kai.yaml"
    file.write_text(policy)
    its_kubelets = kubelets or LocalCluster(grace=0.05)
    return running(url, tmp_path, shards=shards, policy=str(file), kubelets=its_kubelets)


async def events(http: aiohttp.ClientSession, service: Running, kind: str, name: str) -> list[str]:
    query = f"involvedObject.kind={kind},involvedObject.name={name}"
    path = f"/api/v1/namespaces/ns/events?fieldSelector={query}"
    return [event["message"] for event in (await read(http, service, path))["items"]]


async def test_a_queue_below_its_share_reclaims_from_one_above_its_own(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n") as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [leaf("red", 6, parent=""), leaf("blue", 6, parent="")]
        reds = [f"r{at:02}" for at in range(12)]
        await submit(http, service, *NODES, *queues, *(single(name, "red") for name in reds))
        await service.until(lambda _: running_pods(service) == set(reds))
        gang = [kai_group("gang", "blue", minMember=4), *(member(f"g{i}", "gang") for i in "abcd")]
        await submit(http, service, *gang)
        blues = {f"g{i}" for i in "abcd"}
        await service.until(lambda _: blues <= running_pods(service))
        left = running_pods(service) & set(reds)
        assert len(left) == 8
        gone = min(set(reds) - left)
        text = " ".join(await events(http, service, "Pod", gone))
        assert "reclaim" in text
        assert "ns/gang" in text
        # The others of blue's quota stay where they are: two more are reclaimed, a seventh is not.
        more = [single(f"m{at}", "blue") for at in range(3)]
        await submit(http, service, *more)
        await service.until(lambda _: len(running_pods(service) & set(reds)) == 6)
        await service.until(lambda _: len(running_pods(service)) == 12)


async def test_a_limit_of_both_queues_does_not_stop_a_reclaim(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    """The reclaimer gets the victims' part of the limit of the queue above."""
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n") as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [kai_queue("all", gpu=gpus(8, 8)), leaf("red", 4), leaf("blue", 4)]
        reds = {f"r{at}" for at in range(8)}
        await submit(http, service, *NODES, *queues, *(single(n, "red") for n in sorted(reds)))
        await service.until(lambda _: running_pods(service) == reds)
        await submit(http, service, single("b", "blue", 2))
        await service.until(lambda _: "b" in running_pods(service))
        assert len(running_pods(service) & reds) == 6


def at(number: int) -> Json:
    labels = {"spot": str(number)}
    plain = NODES[number]
    return {**plain, "metadata": {**plain["metadata"], "labels": labels}}


def pinned(name: str, number: int, gpus: int) -> Json:
    item = single(name, "red", gpus)
    return {**item, "spec": {**item["spec"], "nodeSelector": {"spot": str(number)}}}


async def in_pieces(http: aiohttp.ClientSession, service: Running) -> tuple[str, str]:
    """Two GPUs are free on each of two nodes, and ``x``, which has two, could move from one to the
    other: (where it is, where it may go)."""
    nodes = [at(number) for number in range(3)]
    fixed = [pinned("a", 0, 2), pinned("b", 1, 2), pinned("z", 2, 4)]
    await submit(http, service, *nodes, leaf("red", -1, parent=""), *fixed)
    await service.until(lambda _: running_pods(service) == {"a", "b", "z"})
    await submit(http, service, single("x", "red", 2))
    await service.until(lambda _: "x" in running_pods(service))
    here = (await nodes_of(http, service))["x"]
    gone, there = ("a", "n1") if here == "n0" else ("b", "n0")
    await delete(http, service, f"/api/v1/namespaces/ns/pods/{gone}")
    await service.until(lambda _: gone not in running_pods(service))
    return here, there


async def test_a_running_job_moves_so_that_another_fits(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, MOVING) as service,
        aiohttp.ClientSession() as http,
    ):
        here, there = await in_pieces(http, service)
        await submit(http, service, single("whole", "red", 4))
        await service.until(lambda _: {"x", "whole"} <= running_pods(service))
        after = await nodes_of(http, service)
        assert (after["whole"], after["x"]) == (here, there)
        text = " ".join(await events(http, service, "Pod", "x"))
        assert "evicted for ns/whole by consolidation" in text


async def test_the_place_of_a_moving_job_is_kept_across_a_takeover(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    kubelets = AdvancedCluster(grace=600.0)
    url = embedded_server.url
    async with (
        service_of(url, tmp_path, MOVING, kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        here, there = await in_pieces(http, service)
        await submit(http, service, single("whole", "red", 4))
        await service.until(lambda _: is_leaving(service, "x"))
    async with (
        service_of(url, tmp_path, MOVING, kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        assert is_leaving(service, "x"), "it has not left before the next coordinator leads"
        # It would fit where x was promised to go.
        await submit(http, service, single("r", "red", 2))
        await service.until(lambda _: has_reason(service, "r"))
        kubelets.ahead = 1200.0
        await service.until(lambda _: {"x", "whole"} <= running_pods(service))
        after = await nodes_of(http, service)
        assert (after["whole"], after["x"]) == (here, there)
        assert "r" not in running_pods(service)


async def test_since_when_a_gang_is_broken_is_the_same_after_a_takeover(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    kubelets = LocalCluster(grace=0.05)
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/pair"
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n", kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        group = kai_group("pair", "red", minMember=2, stalenessGracePeriod="1h")
        pods = [member(f"p{at}", "pair") for at in range(2)]
        await submit(http, service, *NODES, leaf("red", -1, parent=""), group, *pods)
        await service.until(lambda _: running_pods(service) == {"p0", "p1"})
        await delete(http, service, "/api/v1/namespaces/ns/pods/p1")
        since = await annotation(http, service, path, lambda text: text is not None)
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n", kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, single("other", "red"))
        await service.until(lambda _: running_pods(service) == {"p0", "other"})
        assert await annotation(http, service, path, lambda _: True) == since
        await submit(http, service, member("p2", "pair"))
        await service.until(lambda _: running_pods(service) == {"p0", "p2", "other"})
        assert await annotation(http, service, path, lambda text: text is None) is None


async def annotation(
    http: aiohttp.ClientSession, service: Running, path: str, fits: Callable[[str | None], bool]
) -> str | None:
    """Wait until the PodGroup's staleness annotation fits."""
    async with asyncio.timeout(60):
        while True:
            annotations = (await read(http, service, path))["metadata"].get("annotations", {})
            result: str | None = annotations.get(STALE_SINCE)
            if fits(result):
                return result
            await asyncio.sleep(0.05)


def is_leaving(service: Running, pod: str) -> bool:
    return any(
        state.job.pod_name(tix) == pod and now == TaskState.RELEASING
        for state in service.service.core.order.jobs.values()
        for tix, now in enumerate(state.states)
    )


def has_reason(service: Running, name: str) -> bool:
    """Whether the job was tried, and waits."""
    jobs = service.service.core.order.jobs.values()
    return any(state.job.name == name and state.reason is not None for state in jobs)


async def test_a_job_within_its_min_runtime_is_not_reclaimed(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    policy = "dialect: kai\ntiers:\n- plugins:\n" + "".join(
        f"  - {{name: {name}}}\n" for name in DEFAULT_PLUGINS if name != "minruntime"
    )
    protecting = policy + "  - {name: minruntime, arguments: {defaultReclaimMinRuntime: 1h}}\n"
    async with (
        service_of(embedded_server.url, tmp_path, protecting) as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [leaf("red", 6, parent=""), leaf("blue", 6, parent="")]
        reds = {f"r{at:02}" for at in range(12)}
        await submit(http, service, *NODES, *queues, *(single(n, "red") for n in sorted(reds)))
        await service.until(lambda _: running_pods(service) == reds)
        await submit(http, service, single("b", "blue"))
        await service.until(lambda _: service.service.core.order.contention.turns >= 3)
        assert running_pods(service) == reds


@pytest.mark.parametrize("priority", ["build-preemptible", "train"])
async def test_a_job_of_higher_priority_takes_the_place_of_one_of_its_queue(
    embedded_server: EmbeddedServer, tmp_path: Path, priority: str
) -> None:
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n") as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *NODES, leaf("red", 12, parent="", limit=12))
        reds = {f"r{at:02}" for at in range(12)}
        await submit(http, service, *(single(name, "red") for name in sorted(reds)))
        await service.until(lambda _: running_pods(service) == reds)
        group = kai_group("urgent", "red", minMember=1, priorityClassName=priority)
        await submit(http, service, group, member("u", "urgent", gpus=1))
        if priority == "train":  # as important as the others: it waits
            await service.until(lambda _: service.service.core.order.contention.turns >= 2)
            assert running_pods(service) == reds
        else:
            await service.until(lambda _: "u" in running_pods(service))
            assert len(running_pods(service) & reds) == 11
