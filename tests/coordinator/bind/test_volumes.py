"""Binds that wait for volumes: one service, two shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.controllers.prebind import StoredPreBind
from coordinator.controllers.volume_controller import WITHDRAWN, ClaimBinding
from coordinator.core.pod_evictions import EvictionObstacle
from coordinator.intake.admission.result import Admission
from laboratory.workloads.demands import HOSTNAME, disk, storage_class, volume_claim
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import job, node, task
from tests.conftest import flush
from tests.end_to_end.one_process.drain.support import cordon, evict
from tests.end_to_end.one_process.harness import Running, running, submit

Json = dict[str, Any]
NODES = [node(name, labels={HOSTNAME: name}) for name in ("n0", "n1")]


def asking(name: str, *claims: str) -> Json:
    """A Job of one task with these claims."""
    role = task("w", replicas=1)
    role["template"]["spec"]["volumes"] = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
        for i, claim in enumerate(claims)
    ]
    return job(name, tasks=[role])


async def read(parts: Running, path: str) -> list[Json]:
    async with aiohttp.ClientSession(parts.url) as client, client.get(f"/api/v1/{path}") as reply:
        items: list[Json] = (await reply.json())["items"]
    return items


async def volumes_of_claims(parts: Running) -> dict[str, str]:
    """Claim -> its volume, where both say so."""
    volumes = {v["metadata"]["name"]: v for v in await read(parts, "persistentvolumes")}
    pairs: dict[str, str] = {}
    for claim in await read(parts, "namespaces/ns/persistentvolumeclaims"):
        name, volume = claim["metadata"]["name"], claim["spec"].get("volumeName", "")
        if volume:
            assert volumes[volume]["spec"]["claimRef"]["name"] == name
            assert (claim["status"]["phase"], volumes[volume]["status"]["phase"]) == ("Bound",) * 2
        pairs[name] = volume
    return pairs


async def test_claims_get_their_volumes_before_the_binds_go_out(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    disks = [disk(f"d{i}", f"n{i % 2}") for i in range(4)]
    claims = [volume_claim(f"c{i}", "ns") for i in range(5)]
    jobs = [asking("two", "c0", "c1"), asking("one", "c2"), asking("last", "c3")]
    async with running(embedded_server.url, short_dir) as parts:
        await submit(parts, *NODES, storage_class(), *disks, *claims, *jobs)
        await parts.until(lambda status: status["tasks"]["running"] == 3)
        pairs = await volumes_of_claims(parts)
        assert sorted(filter(None, pairs.values())) == ["d0", "d1", "d2", "d3"]
        assert pairs["c4"] == ""
        reach = {f"d{i}": f"n{i % 2}" for i in range(4)}
        for pod in await read(parts, "namespaces/ns/pods"):
            names = [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"]]
            assert {reach[pairs[name]] for name in names} == {pod["spec"]["nodeName"]}
        await submit(parts, asking("none-left", "c4"))
        await parts.until(lambda status: status["tasks"]["pending"] == 1)


async def test_a_class_with_a_provisioner_makes_the_volume_for_the_node(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    items = {**storage_class(), "provisioner": "csi.example.com"}
    zone = {"key": "zone", "values": ["a", "b"]}
    items["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
    nodes = [node(f"n{i}", labels={"zone": "ab"[i]}) for i in range(2)]
    claims = [volume_claim(f"c{i}", "ns") for i in range(2)]
    jobs = [asking(f"j{i}", f"c{i}") for i in range(2)]
    async with running(embedded_server.url, short_dir) as parts:
        await submit(parts, *nodes, items, *claims, *jobs)
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        assert all((await volumes_of_claims(parts)).values())
        zones = {n["metadata"]["name"]: n["metadata"]["labels"]["zone"] for n in nodes}
        pods = await read(parts, "namespaces/ns/pods")
        at = {p["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]: p for p in pods}
        for volume in await read(parts, "persistentvolumes"):
            [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            on = at[volume["spec"]["claimRef"]["name"]]["spec"]["nodeName"]
            assert term["matchExpressions"][0]["values"] == [zones[on]]
            assert volume["spec"]["csi"]["driver"] == "csi.example.com"


async def test_a_successor_binds_tasks_that_waited_for_volumes(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush(embedded_server)
    kubelets = LocalCluster(speedup=1.0, grace=0.05)

    def never(*_: object) -> Admission:
        """The first leader dies before it has written what it chose."""
        return Admission()

    items = [*NODES, storage_class(), disk("d", "n1"), volume_claim("c", "ns"), asking("j", "c")]
    monkeypatch.setattr(f"{StoredPreBind.__module__}.bind_claims", never)
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as parts:
        await submit(parts, *items, job("plain", tasks=[task("w", replicas=1)]))
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        await parts.until(lambda status: status["tasks"]["pending"] == 0)
        assert not kubelets.listing("").tasks or len(kubelets.listing("").tasks) == 1
    monkeypatch.undo()
    async with running(embedded_server.url, short_dir, kubelets=kubelets) as parts:
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        assert await volumes_of_claims(parts) == {"c": "d"}


def unanswered(monkeypatch: pytest.MonkeyPatch) -> list[ClaimBinding]:
    """The bindings of claims that are asked for from now on; nobody answers."""
    asked: list[ClaimBinding] = []

    def note(_: object, bindings: list[ClaimBinding], __: float) -> Admission:
        asked.extend(bindings)
        return Admission()

    monkeypatch.setattr(f"{StoredPreBind.__module__}.bind_claims", note)
    return asked


async def test_a_pod_that_waits_for_a_volume_leaves_a_node_that_is_drained(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not hold the drain up until its wait is over."""
    flush(embedded_server)
    asked = unanswered(monkeypatch)
    items = [*NODES, storage_class(), disk("d", "n1"), volume_claim("c", "ns"), asking("j", "c")]
    async with (
        running(embedded_server.url, short_dir) as parts,
        aiohttp.ClientSession(parts.url) as session,
    ):
        await submit(parts, *items)
        await parts.until(lambda _: bool(asked))
        await cordon(session, "n1")
        code, output = await evict(session, "j-w-0")
        assert (code, output["message"]) == (429, EvictionObstacle.VOLUME.value)
        await parts.until(lambda status: status["tasks"]["pending"] == 1)
        assert (await evict(session, "j-w-0"))[0] == 404
        [state] = parts.service.core.order.jobs.values()
        assert state.refused_by == f"node n1: {WITHDRAWN}"


async def test_a_bind_with_a_deleted_claim_gives_its_place_back_with_a_reason(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush(embedded_server)
    asked = unanswered(monkeypatch)
    items = [*NODES, storage_class(), disk("d", "n1"), volume_claim("c", "ns"), asking("j", "c")]
    async with running(embedded_server.url, short_dir) as parts:
        await submit(parts, *items)
        await parts.until(lambda _: bool(asked))
        assert {(each.claim, each.volume) for each in asked} == {("ns/c", "d")}
        path = "/api/v1/namespaces/ns/persistentvolumeclaims/c"
        async with aiohttp.ClientSession(parts.url) as client, client.delete(path) as reply:
            assert reply.status == 200
        await parts.until(lambda status: status["tasks"]["pending"] == 1)
        [state] = parts.service.core.order.jobs.values()
        assert state.refused_by == 'node n1: persistentvolumeclaim "c" not found'
