"""A ledger that is started with a policy of the other dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shared.ledger.errors import LedgerIdentity
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import kai_group, kai_queue, pod, pod_group, queue
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running
from tests.end_to_end.one_process.test_kai_walk import (
    NODES,
    member,
    nodes_of,
    read,
    submit,
)

QUEUE = "/apis/scheduling.run.ai/v2/queues"
GROUP = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups"


async def test_stored_kai_objects_count_after_a_change_of_dialect(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    url = embedded_server.url
    stored_objects = [kai_queue("red", "all"), kai_queue("all"), kai_group("g", "red", minMember=2)]
    async with running(url, tmp_path, shards=1) as service, aiohttp.ClientSession() as http:
        await submit(http, service, *NODES, queue("team"), *stored_objects)
        before = await read(http, service, f"{GROUP}/g")
        assert before["status"]["conditions"][-1]["reason"] == "OtherDialect"
    async with (
        running(url, tmp_path, shards=1, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await service.until(lambda _: "red" in service.service.core.order.queue_ids)
        await service.until(lambda _: "ns/g" in service.service.intake.registry.groups)
        assert set(service.service.core.order.queue_ids) == {"all", "red"}
        await submit(http, service, *(member(f"g{i}", "g") for i in range(2)))
        await service.until(lambda status: status["tasks"]["running"] == 2)
        assert (await nodes_of(http, service)).keys() == {"g0", "g1"}
        group = await read(http, service, f"{GROUP}/g")
        assert "Read" not in {c["type"] for c in group["status"].get("conditions", ())}
        top = await read(http, service, f"{QUEUE}/all")
        assert top["status"]["allocated"]["nvidia.com/gpu"] == "2"
        await service.until(started(service))
        group = await read(http, service, f"{GROUP}/g")
        assert group["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"]
    with pytest.RaisesGroup(LedgerIdentity, flatten_subgroups=True) as refused:
        async with running(url, tmp_path, shards=1):
            pass
    (error,) = refused.value.exceptions
    output = str(error)
    assert "it has 1 job under a policy of KAI's (ns/g), and the policy is Volcano's" in output
    assert "let its jobs end or delete them" in output
    async with (
        running(url, tmp_path, shards=1, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        async with http.delete(f"{service.url}{GROUP}/g") as answer:
            assert answer.status == 200
        await service.until(lambda status: status["jobs"]["deleted"] == 1)
    async with running(url, tmp_path, shards=1) as service, aiohttp.ClientSession() as http:
        await service.until(
            lambda _: set(service.service.core.order.queue_ids) == {"default", "team"}
        )
        own = pod_group("v", queue="team", minMember=1)
        await submit(http, service, own, pod("v0", group="v"))
        await service.until(lambda status: status["tasks"]["running"] == 1)


def started(service: Running) -> Any:
    def is_marked(_: object) -> bool:
        groups = service.service.core.order.accounts.cluster.objects.kai_groups
        return groups["ns/g"].last_start is not None

    return is_marked
