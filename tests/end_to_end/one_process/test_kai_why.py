"""Why a PodGroup of KAI's waits: the cause and what would help, the same wherever one asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cli.scheduling.explain_text import explanation
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from shared.units.times import moment
from tests.builders.objects import UNLIMITED, kai_group, kai_queue, pod_group
from tests.conftest import flush
from tests.end_to_end.one_process.harness import PATIENCE, Running, running
from tests.end_to_end.one_process.test_kai_walk import NODES, member, read, share, submit

Json = dict[str, Any]
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups"
SUBS = [{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 2}]


@dataclass(frozen=True)
class PodGroupAnswers:
    """All answers of the service about a PodGroup that waits."""

    explained: Json
    group: Json
    pod: Json
    events: list[str]

    def agree(self, reason: Reason, cause: str, kai: str, helps: str) -> None:
        """Hold every answer to the same word and sentence. ``kai``: KAI's word; "" where it has an
        event and no condition."""
        assert self.explained["reason"] == reason
        assert cause in self.explained["message"], self.explained["message"]
        sentence = f"{reason}: {self.explained['message']}"
        annotations = self.group["metadata"]["annotations"]
        assert annotations["quadrant.dev/reason"] == reason
        conditions = self.group["status"].get("schedulingConditions", [])
        assert len(conditions) == bool(kai)
        for condition in conditions:
            assert (condition["type"], condition["status"]) == ("UnschedulableOnNodePool", "True")
            assert condition["message"] == sentence
            assert [row["reason"] for row in condition["reasons"]] == [kai]
        (own,) = self.group["status"]["explanations"]
        assert (own["reason"], own["message"]) == (reason, self.explained["message"])
        (scheduled,) = self.pod["status"]["conditions"]
        assert (scheduled["type"], scheduled["message"]) == ("PodScheduled", sentence)
        assert sentence in self.events
        advice = [self.explained["message"], self.explained["next"]]
        advice += [entry["change"] for entry in self.explained.get("if", ())]
        assert any(helps in text for text in advice), advice


@pytest.fixture
async def service(embedded_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Running]:
    """Two queues below one that may have 6 GPUs, of which 4 are taken; 12 on all nodes."""
    flush(embedded_server)
    file = tmp_path / "kai.yaml"
    file.write_text("dialect: kai\nactions: allocate\n")
    async with (
        running(
            embedded_server.url, tmp_path, policy=str(file), ledger_audit_seconds=0.1
        ) as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [
            kai_queue("all", gpu=share(6)),
            kai_queue("red", "all", gpu=share(-1)),
            kai_queue("blue", "all", gpu=share(3)),
            kai_queue("free", gpu=UNLIMITED),
        ]
        first = [
            kai_group("first", "red", minMember=4),
            *(member(f"f{i}", "first") for i in "abcd"),
        ]
        await submit(http, service, *NODES, *queues, *first)
        await service.until(lambda status: status["tasks"]["running"] == 4)
        yield service


async def pod_group_answers(service: Running, reason: Reason, *items: Json) -> PodGroupAnswers:
    """Submit a PodGroup with its pods, wait until it waits for this reason, and ask about it."""
    name = items[0]["metadata"]["name"]
    async with aiohttp.ClientSession() as http:
        await submit(http, service, *items)
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            explained = await read(http, service, f"{GROUPS}/{name}/explain")
            if explained.get("reason") == reason:
                break
            assert asyncio.get_running_loop().time() < deadline, explained
            await asyncio.sleep(0.02)
        group = await read(http, service, f"{GROUPS}/{name}")
        pod = await read(
            http, service, f"/api/v1/namespaces/ns/pods/{items[1]['metadata']['name']}"
        )
        query = f"involvedObject.kind=PodGroup,involvedObject.name={name}"
        path = f"/api/v1/namespaces/ns/events?fieldSelector={query}"
        events = [event["message"] for event in (await read(http, service, path))["items"]]
    return PodGroupAnswers(explained, group, pod, events)


async def test_over_the_limit_of_a_queue_above(service: Running) -> None:
    gang = [kai_group("g", "red", minMember=3), *(member(f"g{i}", "g") for i in range(3))]
    answer = await pod_group_answers(service, Reason.WAITING_FOR_QUOTA, *gang)
    cause = "queue all, above red, uses 4 of the 6 nvidia.com/gpu it may have, the job asks 3"
    answer.agree(
        Reason.WAITING_FOR_QUOTA, cause, "OverLimit", "1 nvidia.com/gpu more for queue all"
    )
    assert answer.explained["room"] == "nodes have room for it now, its queue has not"
    assert answer.explained["next"] == "woken when queue all uses less, or gets more"
    details = answer.group["status"]["schedulingConditions"][0]["reasons"][0]["details"]
    assert details["queueDetails"]["queueResourceLimits"] == {"nvidia.com/gpu": "6"}


async def test_a_group_that_may_have_nobody_evicted_yet_says_until_when(service: Running) -> None:
    spec = {"minMember": 3, "preemptionDelay": "1h"}
    gang = [kai_group("g", "red", **spec), *(member(f"g{i}", "g") for i in range(3))]
    answer = await pod_group_answers(service, Reason.WAITING_FOR_QUOTA, *gang)
    delay = answer.explained["delay"]
    created = moment(answer.group["metadata"]["creationTimestamp"])
    assert 3599 <= moment(delay["until"]) - created <= 3601
    assert "nobody is evicted for it (preemptionDelay 60m)" in delay["message"]
    text = explanation(answer.explained, columns=200, now=created)
    assert any(line.startswith("DELAY") and delay["until"] in line for line in text)


async def test_larger_than_the_limit_of_its_queue(service: Running) -> None:
    gang = [kai_group("g", "blue", minMember=4), *(member(f"g{i}", "g") for i in range(4))]
    answer = await pod_group_answers(service, Reason.EXCEEDS_CAPABILITY, *gang)
    cause = "asks 4 nvidia.com/gpu at once, queue blue may have 3 at most"
    answer.agree(Reason.EXCEEDS_CAPABILITY, cause, "OverLimit", "raise its limit or ask for less")
    assert answer.explained["next"] == "change the request, or the limit of queue blue"


async def test_over_the_quota_of_non_preemptible_pods(service: Running) -> None:
    """Two GPUs are the quota, whatever the limit; a job that may be evicted goes beyond it."""
    build = {"priorityClassName": "build"}
    async with aiohttp.ClientSession() as http:
        held = [
            kai_group("kept", "shop", minMember=2, **build),
            *(member(f"k{i}", "kept") for i in "ab"),
        ]
        await submit(
            http, service, kai_queue("prod", gpu=share(-1)), kai_queue("shop", "prod"), *held
        )
        await service.until(lambda status: status["tasks"]["running"] == 6)
        gang = [kai_group("g", "shop", **build), member("p", "g")]
        answer = await pod_group_answers(service, Reason.WAITING_FOR_QUOTA, *gang)
        cause = (
            "the quota of queue prod, above shop, is 2 nvidia.com/gpu, jobs that nobody may evict"
        )
        helps = "1 nvidia.com/gpu more for queue prod"
        answer.agree(Reason.WAITING_FOR_QUOTA, cause, "NonPreemptibleOverQuota", helps)
        details = answer.group["status"]["schedulingConditions"][0]["reasons"][0]["details"]
        figures = details["queueDetails"]
        assert figures["queueDeservedResources"] == {"nvidia.com/gpu": "2"}
        assert figures["queueAllocatedNonPreemptibleResources"]["nvidia.com/gpu"] == "2"
        assert figures["podGroupRequestedNonPreemptibleResources"]["nvidia.com/gpu"] == "1"
        top = await read(http, service, "/apis/scheduling.run.ai/v2/queues/prod")
        assert top["status"]["allocated"] == {"cpu": "2", "nvidia.com/gpu": "2"}
        assert top["status"]["allocatedNonPreemptible"] == {"cpu": "2", "nvidia.com/gpu": "2"}
        (row,) = [row for row in answer.explained["quota"] if row["queue"] == "prod"]
        assert row["nonPreemptible"]["nvidia.com/gpu"] == "2"
        free = [
            kai_group("free", "shop", preemptibility="preemptible", **build),
            member("x", "free"),
        ]
        await submit(http, service, *free)
        await service.until(lambda status: status["tasks"]["running"] == 7)
        large = [
            kai_group("l", "shop", minMember=3, **build),
            *(member(f"l{i}", "l") for i in "abc"),
        ]
        answer = await pod_group_answers(service, Reason.EXCEEDS_CAPABILITY, *large)
        cause = "queue prod has a quota of 2, and nobody may evict the job"
        answer.agree(
            Reason.EXCEEDS_CAPABILITY, cause, "NonPreemptibleOverQuota", "make it preemptible"
        )
        assert answer.explained["next"] == "change the request, or the quota of queue prod"
        audit = service.service.core.tally.ledger_audit
        looks = audit.looks
        await service.until(lambda _: audit.looks > looks + 1)
        assert not audit.found, "the ledger counts charges on nodes and queues alike"


async def test_a_sub_group_that_lacks_pods(service: Running) -> None:
    gang = [
        kai_group("g", "free", subGroups=SUBS),
        member("l", "g", "lead"),
        member("w", "g", "work"),
    ]
    answer = await pod_group_answers(service, Reason.NOT_ENOUGH_TASKS, *gang)
    cause = "1 of the 2 pods that sub group work needs exist"
    answer.agree(Reason.NOT_ENOUGH_TASKS, cause, "", "create the members that are missing")


async def test_a_queue_that_is_not_there_yet(service: Running) -> None:
    answer = await pod_group_answers(
        service, Reason.MISCONFIGURED, kai_group("g", "green"), member("p", "g")
    )
    cause = "queue green does not exist"
    answer.agree(
        Reason.MISCONFIGURED, cause, "QueueDoesNotExist", "create queue green, or name another"
    )


async def test_more_than_the_nodes_have(service: Running) -> None:
    gang = [kai_group("g", "free", minMember=9), *(member(f"g{i}", "g") for i in range(9))]
    answer = await pod_group_answers(service, Reason.NOT_ENOUGH_RESOURCES, *gang)
    cause = "short by 1 nvidia.com/gpu"
    answer.agree(
        Reason.NOT_ENOUGH_RESOURCES, cause, "PodSchedulingErrors", "a minimum of 8 instead of 9"
    )


async def test_a_pod_group_that_is_not_there_yet(service: Running) -> None:
    async with aiohttp.ClientSession() as http:
        await submit(http, service, member("p", "later"))
        path = "/api/v1/namespaces/ns/pods/p"
        explained = await read(http, service, f"{path}/explain")
        assert explained["reason"] == Reason.MISCONFIGURED
        assert "PodGroup ns/later, which does not exist; create it" in explained["message"]
        (condition,) = (await read(http, service, path))["status"]["conditions"]
        assert condition["message"] == f"Misconfigured: {explained['message']}"


async def test_a_group_that_failed_once_is_passed_over_in_its_node_pool(service: Running) -> None:
    spec = {"minMember": 3, "schedulingBackoff": 1}
    gang = [kai_group("g", "red", **spec), *(member(f"g{i}", "g") for i in range(3))]
    output = await pod_group_answers(service, Reason.ATTEMPTS_EXHAUSTED, *gang)
    assert "failed in node pool default and has schedulingBackoff 1" in output.explained["message"]
    (condition,) = output.group["status"]["schedulingConditions"]
    assert (condition["type"], condition["nodePool"]) == ("UnschedulableOnNodePool", "default")
    assert condition["message"].startswith("WaitingForQuota: queue all, above red, uses 4 of the 6")
    async with aiohttp.ClientSession() as http:
        async with http.delete(f"{service.url}{GROUPS}/first") as answer:
            assert answer.status == 200
        await service.until(lambda _: not service.service.intake.registry.leaving)
        await submit(http, service, kai_group("other", "red"), member("o", "other"))
        await service.until(lambda status: status["tasks"]["running"] == 1)  # not the first in line
        moved = {"metadata": {"labels": {"kai.scheduler/node-pool": "blue"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        url = f"{service.url}{GROUPS}/g"
        async with http.patch(url, json=moved, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
        await service.until(lambda status: status["pending_reasons"] == {"OtherScheduler": 1})
        explained = await read(http, service, f"{GROUPS}/g/explain")
        assert explained["message"] == (
            "it is in node pool blue, and this scheduler has node pool default: what has no label "
            "kai.scheduler/node-pool"
        )
        assert (await service.until(lambda _: True))["tasks"]["running"] == 1, "room for it or not"


async def test_a_failed_group_is_tried_again_without_its_condition(service: Running) -> None:
    spec = {"minMember": 3, "schedulingBackoff": 1}
    gang = [kai_group("g", "red", **spec), *(member(f"g{i}", "g") for i in range(3))]
    await pod_group_answers(service, Reason.ATTEMPTS_EXHAUSTED, *gang)
    async with aiohttp.ClientSession() as http:
        await submit(http, service, kai_queue("all", gpu=UNLIMITED))
        headers = {"Content-Type": "application/merge-patch+json"}
        cleared: Json = {"status": {"schedulingConditions": []}}
        url = f"{service.url}{GROUPS}/g"
        async with http.patch(url, json=cleared, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
        await service.until(lambda status: status["tasks"]["running"] == 7)


async def test_a_group_of_the_other_dialect(service: Running) -> None:
    async with aiohttp.ClientSession() as http:
        await submit(http, service, pod_group("theirs"))
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/theirs"
        async with http.get(f"{service.url}{path}/explain") as answer:
            assert answer.status == 404
            output = (await answer.json())["message"]
        assert "kept and not looked at: the policy in force is KAI's" in output
        conditions = (await read(http, service, path))["status"]["conditions"]
        assert [condition["message"] in output for condition in conditions] == [True]
