"""Receipts: the parts of a wait, worked out by hand, sum to it to the millisecond."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from coordinator.cli.scheduling.receipt_text import exact
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.explain.receipt.receipt import receipt
from coordinator.explain.receipt.service_receipt import job_receipt
from coordinator.objects.wait_log import MARKS, WaitLog, WaitMark
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import TaskState
from shared.messages.reason import Reason
from shared.slices import at_once
from tests.builders.objects import (
    Item,
    job,
    kai_group,
    kai_queue,
    node,
    pod,
    queue,
    simple_job,
    task,
)
from tests.conftest import flush
from tests.coordinator.explain.cluster import explained
from tests.coordinator.explain.cluster import job as service_job
from tests.coordinator.explain.cluster import node as service_node
from tests.coordinator.explain.test_commands import Shell, plain_terminal
from tests.coordinator.explain.test_past_story import recorded
from tests.coordinator.objects.test_kai import GPUS, KAI, member
from tests.coordinator.objects.world import World, infeasible
from tests.end_to_end.one_process.harness import Running, running, submit

__all__ = ["plain_terminal"]


def receipt_of(world: World, kind: str, name: str) -> Item:
    state = world.core.order.known(world.jid(kind, name))
    assert state is not None
    names = world.intake.registry.slots.names
    return at_once(job_receipt(world.core, world.objects.stories, state, world.now, names))


async def receipt_over_http(service: Running, name: str) -> Item:
    answer: Item = (await explained(service, name, with_receipt=True))["receipt"]
    return answer


def parts(wait: Item) -> list[tuple[str, int]]:
    return [(part["reason"], part["milliseconds"]) for part in wait["parts"]]


def check_sums(answer: Item) -> None:
    assert answer["milliseconds"] == sum(wait["milliseconds"] for wait in answer["waits"])
    assert answer["milliseconds"] == sum(answer["sums"].values())
    for wait in answer["waits"]:
        assert wait["milliseconds"] == sum(length for _, length in parts(wait))


def start(world: World, kind: str, name: str, tasks: int = 1) -> None:
    jid = world.jid(kind, name)
    for state in (TaskState.BOUND, TaskState.RUNNING):
        world.record(state, jid, [*range(tasks)])


def look(world: World, at: float) -> None:
    """The service looks at the reasons of waiting jobs at this time."""
    world.now = at
    world.turns()
    world.objects.report_waiting()


def wide_pod(name: str, cpu: int) -> Item:
    return pod(name, containers=[{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}])


def test_a_job_waits_behind_the_job_that_holds_the_node() -> None:
    world = World()
    begin = world.now
    world.put(node("n0", cpu=4), wide_pod("first", 4))
    world.place()
    start(world, "Pod", "first")
    world.now += 10
    world.put(wide_pod("second", 3))
    look(world, begin + 12.5)
    world.now = begin + 40
    world.turns()
    world.record(TaskState.SUCCEEDED, world.jid("Pod", "first"), [0])
    world.place()
    world.now = begin + 40.25
    world.turns()
    start(world, "Pod", "second")
    world.now = begin + 60
    answer = receipt_of(world, "Pod", "second")
    check_sums(answer)
    (wait,) = answer["waits"]
    assert wait["cause"] == "submitted"
    assert parts(wait) == [
        ("NotJudgedYet", 2_500),
        ("NotEnoughResources", 27_500),
        ("Placed", 250),
    ]
    blocked = wait["parts"][1]
    assert blocked["short"] == {"cpu": "3"}
    assert [(h["job"], h["held"]) for h in blocked["behind"]] == [("ns/first", {"cpu": "4"})]


def test_a_job_over_the_quota_of_its_queue_waits_behind_that_queue() -> None:
    world = World()
    begin = world.now
    narrow = queue("narrow", capability={"cpu": "2"})
    (one, two) = (job(name, tasks=[task("w", replicas=2)], queue="narrow") for name in "ab")
    other = job("other", tasks=[task("w", replicas=2)])
    world.put(narrow, node("n0", cpu=64, memory="256Gi"), one, other)
    world.place()
    start(world, "Job", "a", 2)
    start(world, "Job", "other", 2)
    world.put(two)
    look(world, begin + 1)
    world.now = begin + 31
    answer = receipt_of(world, "Job", "b")
    check_sums(answer)
    (wait,) = answer["waits"]
    assert wait["end"] is None
    assert parts(wait) == [("NotJudgedYet", 1_000), ("WaitingForQuota", 30_000)]
    blocked = wait["parts"][1]
    assert blocked["queue"] == "narrow"
    assert [(h["job"], h["held"]) for h in blocked["behind"]] == [("ns/a", {"cpu": "2"})]


def test_a_job_that_no_node_is_large_enough_for_waits_behind_nobody() -> None:
    world = World()
    begin = world.now
    world.put(node("n0", cpu=4), wide_pod("small", 1))
    world.place()
    start(world, "Pod", "small")
    world.put(wide_pod("large", 9))
    look(world, begin + 3)
    world.now = begin + 10
    answer = receipt_of(world, "Pod", "large")
    check_sums(answer)
    (wait,) = answer["waits"]
    assert parts(wait) == [("NotJudgedYet", 3_000), ("ExceedsNodeCapacity", 7_000)]
    assert wait["parts"][1]["behind"] == []


def test_a_gang_waits_until_its_minimum_runs_and_again_after_an_eviction() -> None:
    world = World()
    begin = world.now
    world.put(node("n0", cpu=64, memory="256Gi"))
    world.put(job("gang", tasks=[task("w", replicas=3)], minAvailable=2))
    jid = world.jid("Job", "gang")
    world.answer(infeasible)
    world.now += 5
    world.core.order.accounts.capacity.freed()
    world.place()
    world.record(TaskState.BOUND, jid, [0, 1, 2])
    world.record(TaskState.RUNNING, jid, [0])
    world.now += 1
    world.turns()
    world.record(TaskState.RUNNING, jid, [1])
    world.now += 100
    world.turns()
    world.objects.evicted(jid, [0, 1], jid, "reclaim")
    for state in (TaskState.RELEASING, TaskState.PENDING):
        world.record(state, jid, [0, 1])
    world.now += 7
    answer = receipt_of(world, "Job", "gang")
    check_sums(answer)
    first, second = answer["waits"]
    assert (first["milliseconds"], second["milliseconds"]) == (6_000, 7_000)
    assert parts(first) == [("Fragmented", 5_000), ("Placed", 1_000)]
    assert second["cause"] == "evicted by reclaim"
    assert second["end"] is None
    assert answer["milliseconds"] == (world.now - begin - 100) * 1000


def test_a_queue_above_its_share_is_named_to_a_job_of_a_queue_below_it() -> None:
    world = World()
    world.put(queue("red"), queue("blue"), node("n0", cpu=8, memory="256Gi"))
    world.put(job("wide", tasks=[task("w", replicas=8)], queue="red"))
    world.place()
    start(world, "Job", "wide", 8)
    world.put(job("late", tasks=[task("w", replicas=2)], queue="blue"))
    world.put(simple_job("large", 1, namespace="ns", role="w", cpu="9", queue="blue"))
    look(world, world.now + 2)
    world.now += 5
    # Whatever red gives back, no node is large enough.
    assert receipt_of(world, "Job", "large")["waits"][0]["parts"][-1]["borrowers"] == []
    (wait,) = receipt_of(world, "Job", "late")["waits"]
    assert wait["parts"][-1]["borrowers"] == ["queue red (4 cpu above its share)"]


def test_a_queue_above_its_fair_share_is_named_under_kai() -> None:
    world = World(policy=KAI)
    quotas = {"red": 1, "blue": 3}
    world.put(
        node("n0") | GPUS,
        kai_queue("all"),
        *(
            kai_queue(name, "all", gpu={"quota": quota, "overQuotaWeight": 1, "limit": -1})
            for name, quota in quotas.items()
        ),
    )
    world.put(kai_group("g", "red", minMember=4), *(member(f"g{i}", "g") for i in range(4)))
    world.place()
    world.put(kai_group("h", "blue", minMember=3), *(member(f"h{i}", "h") for i in range(3)))
    world.now += 2
    world.answer(infeasible)
    world.objects.report_waiting()
    world.now += 5
    (wait,) = receipt_of(world, "KaiPodGroup", "h")["waits"]
    assert wait["parts"][-1]["borrowers"] == ["queue red (3 nvidia.com/gpu above its share)"]


def test_many_changes_of_the_reason_are_bounded_and_still_sum() -> None:
    log = WaitLog(100.0)
    for second in range(1, 1000):
        word = Reason.FRAGMENTED if second % 2 else Reason.NOT_ENOUGH_RESOURCES
        log.add(WaitMark(100.0 + second, word.value))
        if second % 400 == 0:
            log.tasks_changed(TaskState.RUNNING, 100.0 + second, runs=True)
            log.tasks_changed(TaskState.PENDING, 100.5 + second, runs=False, cause="evicted")
    assert len(log.all_marks()) <= MARKS
    whole = receipt(log, until=1100.0)
    assert whole.length == 1_000_000 - 2 * 500
    for wait in whole.waits:
        assert sum(part.length for part in wait.parts) == wait.length


async def test_a_receipt_is_printed_as_a_sum(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(redis_url, tmp_path, shards=4) as service:
        await submit(service, service_node("a", gpus=4), service_job("train", 3, gpus=1))
        await service.until(lambda s: s["tasks"]["running"] == 3)
        await submit(service, service_job("wide", 4, gpus=1))
        shell = Shell(service, capsys)
        code, _, problem = await shell.type("receipt", "job/train", "-n", "elsewhere")
        assert (code, "not found" in problem) == (1, True)
        code, table, _ = await shell.type("receipt", "pod", "default/train-worker-0")
        assert code == 0
        assert re.match(r"Pod default/train-worker-0 waited [0-9.]+ s = [0-9.]+ s ", table)
        await service.until(lambda s: s["pending_reasons"] == {"NotEnoughResources": 1})
        await explained(service, "wide")  # its reason is recorded by now at the latest
        code, text, _ = await shell.type("receipt", "job", "wide", "-o", "json")
        body = json.loads(text)
        assert (code, body["kind"], body["of"]["name"]) == (0, "Receipt", "wide")
        check_sums(body["receipt"])
        (behind,) = body["receipt"]["waits"][0]["parts"][-1]["behind"]
        assert (behind["job"], behind["queue"]) == ("default/train", "default")
        code, table, _ = await shell.type("receipt", "job", "wide")
        assert "behind default/train (3 nvidia.com/gpu, queue default)" in table
        assert "would help: a minimum of 1 instead of 4" in table


def test_shown_parts_are_exact() -> None:
    assert [exact(n) for n in (0, 40, 61_005, 11_520_000, 90_000_001)] == [
        "0.000 s",
        "0.040 s",
        "1 min 1.005 s",
        "3 h 12 min 0.000 s",
        "1 d 1 h 0 min 0.001 s",
    ]


async def test_the_next_leader_has_the_waits_before_it_from_the_history(
    tmp_path: Path, embedded_server: EmbeddedServer
) -> None:
    url, path = embedded_server.url, tmp_path / "history.jsonl"
    flush(embedded_server)
    cluster = LocalCluster()
    async with recorded(url, path):
        async with running(url, tmp_path, kubelets=cluster, history=path, shards=4) as first:
            began = time.time()
            await submit(first, service_node("a", gpus=4), service_job("train", 3, gpus=1))
            await first.until(lambda s: s["tasks"]["running"] == 3)
            longest = (time.time() - began + 1.0) * 1000  # times of creation are whole seconds
            await submit(first, service_job("late", 2, gpus=1))
            before = await receipt_over_http(first, "train")
        async with running(url, tmp_path, kubelets=cluster, history=path, shards=4) as second:
            after = await receipt_over_http(second, "train")
            waiting = await receipt_over_http(second, "late")
        nowhere = tmp_path / "absent.jsonl"
        async with running(url, tmp_path, kubelets=cluster, history=nowhere, shards=4) as third:
            unknown = await receipt_over_http(third, "train")
    for answer in (before, after, waiting, unknown):
        check_sums(answer)
    (was,), (now,), (without,) = before["waits"], after["waits"], unknown["waits"]
    # The history has when it started, and the leader when it heard of that.
    assert 0 < now["milliseconds"] <= longest
    assert 0 < was["milliseconds"] <= longest
    assert now["end"] is not None
    assert [reason for reason, _ in parts(now)] == ["NotRecorded", "Placed"]
    (late,) = waiting["waits"]
    assert late["end"] is None
    assert {reason for reason, _ in parts(late)} >= {"NotRecorded"}
    # Without a history only that it runs is known.
    assert [reason for reason, _ in parts(without)] == ["NotRecorded"]
