"""A ledger that an earlier version of schema 5 wrote under a KAI policy: devices of shared GPUs,
KAI's objects, and a pod on its way to another node (:mod:`.record_kai`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.redis.server import EmbeddedServer
from tests.end_to_end.one_process.harness import running
from tests.end_to_end.one_process.test_kai_evictions import is_leaving, running_pods
from tests.end_to_end.one_process.test_kai_walk import nodes_of, read
from tests.shared.ledger.migration.dump import DIRECTORY, load
from tests.shared.ledger.migration.record_kai import MOVING
from tests.shared.ledger.migration.test_take_up import free_the_seat, memory_of

DUMP = DIRECTORY / "schema-5-kai.json"
STAYING = {"half", "third", "z"}
WHO = {*STAYING, "x", "p0", "p1"}
"""A pod, and a gang of two, move for ``whole``."""


async def test_devices_stay_where_they_are_and_the_move_ends(
    client: Any, embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    cluster = load(DUMP, client)
    free_the_seat(client)
    policy = tmp_path / "kai.yaml"
    policy.write_text(MOVING)
    kubelets = LocalCluster(grace=3.0)
    kubelets.restore(memory_of(cluster, seconds=1e9))
    async with (
        running(embedded_server.url, short_dir, kubelets=kubelets, policy=policy) as service,
        aiohttp.ClientSession() as http,
    ):
        assert {"x", "p0", "p1"} == {name for name in WHO if is_leaving(service, name)}
        devices, before = await shares(http, service), await nodes_of(http, service)
        assert set(devices) == {"half", "third"}
        assert devices["half"] == devices["third"], "they share the node's one GPU"
        uids = await uids_of(http, service)
        await service.until(lambda _: {*WHO, "whole"} <= running_pods(service))
        after = await nodes_of(http, service)
        assert after["whole"] == before["x"] != after["x"]
        assert {name: after[name] for name in STAYING} == {n: before[n] for n in STAYING}
        assert await shares(http, service) == devices
        now = await uids_of(http, service)
        assert {name: now[name] for name in STAYING} == {n: uids[n] for n in STAYING}
        assert service.service.core.tally.repaired.total() == 0
        groups = await read(
            http, service, "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/pair"
        )
        assert groups["spec"]["minMember"] == 2
        service.service.core.validate()


async def shares(http: aiohttp.ClientSession, service: Any) -> dict[str, list[str]]:
    """Pod that has parts of GPUs -> their groups."""
    pods = (await read(http, service, "/api/v1/namespaces/ns/pods"))["items"]
    return {
        each["metadata"]["name"]: [v for k, v in labels.items() if k.startswith("runai-gpu-group")]
        for each in pods
        if each["metadata"]["annotations"].get("received-resource-type") == "Fraction"
        and (labels := each["metadata"]["labels"])
    }


async def uids_of(http: aiohttp.ClientSession, service: Any) -> dict[str, str]:
    pods = (await read(http, service, "/api/v1/namespaces/ns/pods"))["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods}
