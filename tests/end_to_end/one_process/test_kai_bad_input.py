"""KAI objects that a service refuses, each with field, value and remedy, or accepts with a warning
and lets wait."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from tests.builders.objects import a_list, job, kai_group, kai_queue
from tests.conftest import flush
from tests.coordinator.intake.test_kai_objects import TOPOLOGY
from tests.end_to_end.one_process.harness import Running, running
from tests.end_to_end.one_process.test_kai_walk import (
    NODES,
    gpu_pod,
    member,
    read,
    share,
    stored,
    submit,
)

Json = dict[str, Any]
LISTS = "/apis/quadrant.dev/v1alpha1/lists"
RACKS = TOPOLOGY | {"spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}}


def sub(name: str, **more: Any) -> Json:
    return {"name": name, **more}


def near(required: str = "", preferred: str = "") -> Json:
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topologyConstraint": {"topology": "t", **levels}}


def without_resources() -> Json:
    queue = kai_queue("bare")
    del queue["spec"]["resources"]
    return queue


BAD: list[tuple[Json, str, str, str]] = [
    (without_resources(), "spec.resources", "", "write quota, limit and overQuotaWeight"),
    (kai_queue("q-self", "q-self"), "spec.parentQueue", "'q-self'", "write another or leave it"),
    (kai_queue("all", "red"), "spec.parentQueue", "'red'", "choose another parent"),
    (
        kai_queue("q-big", gpu=share(1) | {"overQuotaWeight": 2**53}),
        "spec.resources.gpu.overQuotaWeight",
        "",
        "stay below",
    ),
    (kai_queue("q-word", gpu={"qouta": 1}), "spec.resources.gpu.qouta", "1", "did you mean quota?"),
    (kai_queue("q-below", "busy"), "spec.parentQueue", "'busy'", "delete its jobs and wait"),
    (kai_group("g-parent", "all"), "spec.queue", "'all'", "name blue, busy, red"),
    (
        kai_group("g-twice", subGroups=[sub("a", minMember=1)] * 2),
        "spec.subGroups[1].name",
        "'a'",
        "give each its own name",
    ),
    (
        kai_group("g-orphan", subGroups=[sub("a", minMember=1, parent="x")]),
        "spec.subGroups[0].parent",
        "'x'",
        "write one of a",
    ),
    (
        kai_group("g-circle", subGroups=[sub("a", parent="b"), sub("b", parent="a")]),
        "spec.subGroups[0].parent",
        "'b'",
        "take one parent of the circle out",
    ),
    (
        kai_group("g-both", minMember=1, minSubGroup=1),
        "spec.minSubGroup",
        "1",
        "not allowed beside minMember",
    ),
    (
        kai_group("g-leaf", subGroups=[sub("a", minSubGroup=1)]),
        "spec.subGroups[0].minSubGroup",
        "1",
        "write minMember instead",
    ),
    (kai_group("g-flat", minSubGroup=2), "spec.minSubGroup", "2", "write minMember instead"),
    (
        kai_group("g-level", "red", **near("room")),
        "spec.topologyConstraint.requiredTopologyLevel",
        "'room'",
        "write one of zone, rack",
    ),
    (
        kai_group("g-below", "red", **near("rack", "zone")),
        "spec.topologyConstraint.requiredTopologyLevel",
        "'rack'",
        "exchange the two",
    ),
    (
        kai_group("g-sub", "red", subGroups=[sub("a", minMember=1, **near("", "room"))]),
        "spec.subGroups[0].topologyConstraint.preferredTopologyLevel",
        "'room'",
        "write one of zone, rack",
    ),
    (
        kai_group("g-delay", preemptionDelay="-5m"),
        "spec.preemptionDelay",
        "'-5m'",
        "or leave it out",
    ),
    (kai_group("g-word", minMembers=1), "spec.minMembers", "1", "did you mean minMember?"),
    (
        gpu_pod("p-parent", labels={"kai.scheduler/queue": "all"}),
        "metadata.labels.kai.scheduler/queue",
        "'all'",
        "name blue, busy, red",
    ),
    (job("j-parent", queue="all"), "spec.queue", "'all'", "name blue, busy, red"),
]
"""(object, field, value, words of the remedy)."""


async def test_an_invalid_kai_object_is_refused_with_field_value_and_remedy(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    queues = [kai_queue("all"), *(kai_queue(name, "all") for name in ("red", "blue", "busy"))]
    async with (
        running(embedded_server.url, tmp_path, shards=1, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *queues, RACKS, kai_group("holds", "busy"))
        before = stored(service), set(service.service.intake.documents)
        body = a_list(*(item for item, *_ in BAD))
        async with http.post(f"{service.url}{LISTS}", json=body) as answer:
            output = (await answer.json())["refused"]
        refused = {refusal["name"].rpartition("/")[2]: refusal for refusal in output}
        for item, field, value, remedy in BAD:
            refusal = refused.pop(item["metadata"]["name"])
            assert refusal["kind"] == item["kind"]
            assert (refusal["field"], refusal["value"]) == (field, value or refusal["value"])
            assert remedy in refusal["message"], refusal
        assert not refused
        assert (stored(service), set(service.service.intake.documents)) == before
        several = kai_group(
            "g-all", "red", minMembers=1, preemptionDelay="-5m", **near("room", "hall")
        )
        async with http.post(f"{service.url}{GROUPS}", json=several) as answer:
            assert answer.status == 422
            causes = (await answer.json())["details"]["causes"]
        assert {cause["field"] for cause in causes} == {"spec.minMembers", "spec.preemptionDelay"}
        levels = kai_group("g-levels", "red", **near("room", "hall"))
        async with http.post(f"{service.url}{GROUPS}", json=levels) as answer:
            causes = (await answer.json())["details"]["causes"]
        assert [cause["field"].rpartition(".")[2] for cause in causes] == [
            "requiredTopologyLevel",
            "preferredTopologyLevel",
        ]
        async with http.delete(f"{service.url}/apis/scheduling.run.ai/v2/queues/all") as answer:
            assert answer.status == 409
            assert "blue is below it; delete that first" in (await answer.json())["message"]
        assert (stored(service), set(service.service.intake.documents)) == before


GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups"


async def test_dangling_references_are_accepted_with_a_warning_and_wait(
    embedded_server: EmbeddedServer, tmp_path: Path, kai: str
) -> None:
    flush(embedded_server)
    fine = {"quota": 1.0001, "overQuotaWeight": 1, "limit": 2}
    items = [
        *NODES,
        kai_queue("all", gpu=share(-1)),
        kai_queue("red", "all", gpu=fine),
        kai_queue("blue", "all", gpu=share(-1)),
        kai_queue("lost", "nobody"),
        kai_group("no-queue", "green"),
        member("q0", "no-queue"),
        kai_group("no-topology", "red", **near("rack")),
        member("t0", "no-topology"),
        member("m0", "no-group"),
        kai_group("large", "red", minMember=3),
        *(member(f"l{i}", "large") for i in range(3)),
    ]
    async with (
        running(embedded_server.url, tmp_path, shards=1, policy=kai) as service,
        aiohttp.ClientSession() as http,
    ):
        admission = await submit(http, service, *items)
        notices = [(n["name"].rpartition("/")[2], n["message"]) for n in admission["notices"]]

        def noticed(name: str, text: str) -> bool:
            return any(name == of and text in message for of, message in notices)

        assert noticed("no-queue", "spec.queue: queue green does not exist, so it waits; create it")
        assert noticed("no-topology", "Topology t does not exist, so it waits; create it")
        assert noticed("m0", "PodGroup ns/no-group does not exist, so its pods wait; create it")
        assert noticed("red", "spec.resources.gpu.quota: finer than a thousandth")
        assert noticed("lost", "spec.parentQueue: queue nobody does not exist")
        assert any("have more quota together than it has itself" in text for _, text in notices)
        for name, reason, cause in (
            ("no-queue", Reason.MISCONFIGURED, "queue green does not exist"),
            ("large", Reason.EXCEEDS_CAPABILITY, "queue red may have 2 at most; raise its limit"),
        ):
            await waits(http, service, name, reason, cause)
        await submit(http, service, RACKS | {"spec": {"levels": [{"nodeLabel": "zone"}]}})


async def waits(
    http: aiohttp.ClientSession, service: Running, name: str, reason: Reason, cause: str
) -> None:
    """Wait until a PodGroup says of itself that it waits for this reason."""
    group: Json = {}
    for _ in range(1000):
        group = await read(http, service, f"{GROUPS}/{name}")
        for condition in group["status"].get("schedulingConditions", ()):
            if condition["message"].startswith(f"{reason}: ") and cause in condition["message"]:
                return
        await asyncio.sleep(0.02)
    raise AssertionError(group)
