"""ResourceClaims of tasks on a service with two shards: devices, and who uses them, stand in the
claims' status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.reasons.reasons import why
from laboratory.workloads.demands import ask_device, claim_template, devices
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import job, node, pod, task
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit

Json = dict[str, Any]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
PODS = "/api/v1/namespaces/ns/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
NODES = [node("n0"), node("n1")]


def asking(name: str, *, pods: int) -> Json:
    """A Job of pods with a device each, by claims of their own."""
    role = task("w", replicas=pods)
    ask_device(role["template"])
    return job(name, tasks=[role], minAvailable=1)


def sharing(name: str) -> Json:
    """A pod that uses the claim ``both``."""
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": "both"}])


def claim(name: str) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {"requests": [request]}},
    }


async def read(parts: Running, path: str) -> dict[str, Json]:
    async with aiohttp.ClientSession(parts.url) as client, client.get(path) as reply:
        items = (await reply.json())["items"]
    return {item["metadata"]["name"]: item for item in items}


async def delete(parts: Running, path: str) -> None:
    async with aiohttp.ClientSession(parts.url) as client, client.delete(path) as reply:
        assert reply.status == 200, await reply.text()


async def until_claims(parts: Running, done: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
    """Until the claims are like this; all of them, name -> status."""
    async with asyncio.timeout(60):
        while True:
            claims = await read(parts, CLAIMS)
            states = {name: item.get("status") or {} for name, item in claims.items()}
            if done(states):
                return states
            await asyncio.sleep(0.05)


async def claimed_devices(parts: Running) -> dict[str, list[tuple[str, str]]]:
    """Pod -> (pool, device) of its claims, each of which names the pod and its node alone."""
    pods, matches = await read(parts, PODS), dict[str, list[tuple[str, str]]]()
    for item in (await read(parts, CLAIMS)).values():
        status = item.get("status") or {}
        for user in status.get("reservedFor") or ():
            using = pods[user["name"]]
            names = {"name": using["metadata"]["name"], "uid": using["metadata"]["uid"]}
            assert user == {"resource": "pods", **names}
            [term] = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
            [field] = term["matchFields"]
            assert field["values"] == [using["spec"]["nodeName"]]
            results = status["allocation"]["devices"]["results"]
            assert {result["request"] for result in results} == {"gpu"}
            matches[user["name"]] = [(result["pool"], result["device"]) for result in results]
    return matches


async def test_claims_say_which_devices_they_have_and_who_uses_them(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """Four devices. Also read by the next leader, and given back when pods have left."""
    flush(embedded_server)
    kubelets = LocalCluster(speedup=1.0, grace=0.05)
    objects = [*NODES, claim_template("ns"), *devices(("n0", "n1"), each=2)]
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as parts:
        await submit(parts, *objects, asking("first", pods=3))
        await parts.until(lambda status: status["tasks"]["running"] == 3)
        before = await claimed_devices(parts)
        assert sorted(before) == ["first-w-0", "first-w-1", "first-w-2"]
        assert len({device for each in before.values() for device in each}) == 3
        pods = await read(parts, PODS)
        for name, item in (await read(parts, CLAIMS)).items():
            [owner], [user] = item["metadata"]["ownerReferences"], item["status"]["reservedFor"]
            assert (owner["kind"], owner["uid"]) == ("Pod", user["uid"])
            entry = {"name": "gpu", "resourceClaimName": name}
            assert pods[user["name"]]["status"]["resourceClaimStatuses"] == [entry]
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as parts:
        assert await claimed_devices(parts) == before
        await submit(parts, asking("second", pods=2))
        await parts.until(lambda status: status["tasks"]["running"] == 4)
        after = await claimed_devices(parts)
        assert before.items() <= after.items()
        assert len({device for each in after.values() for device in each}) == 4
        core = parts.service.core
        [state] = [s for s in core.order.jobs.values() if s.job.name == "second"]
        await parts.until(lambda _: "cannot allocate all claims" in str(why(core, state)))
        await delete(parts, f"{JOBS}/first")
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        await until_claims(parts, lambda claims: all(n.startswith("second") for n in claims))
        assert sorted(await claimed_devices(parts)) == ["second-w-0", "second-w-1"]
        core.order.validate()


async def test_a_claim_that_several_pods_share_is_free_after_the_last_of_them(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    objects = [*NODES, claim_template("ns"), *devices(("n1",), each=2), claim("both")]
    async with running(embedded_server.url, short_dir) as parts:
        await submit(parts, *objects, sharing("a"), sharing("b"))
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        result = await claimed_devices(parts)
        assert result == {name: [("n1", "gpu-0"), ("n1", "gpu-1")] for name in "ab"}
        await submit(parts, claim("both"))
        assert await claimed_devices(parts) == result, (
            "its author, who sends it again, takes nothing away"
        )
        await delete(parts, f"{PODS}/a")
        one = await until_claims(parts, lambda claims: len(claims["both"]["reservedFor"]) == 1)
        assert one["both"]["allocation"], "the other pod still has them"
        await submit(parts, asking("next", pods=1))
        await parts.until(lambda status: bool(status["pending_reasons"]))
        await delete(parts, f"{PODS}/b")
        await until_claims(parts, lambda claims: "allocation" not in claims["both"])
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        assert list(await claimed_devices(parts)) == ["next-w-0"]
