"""KAI's queues and PodGroups as they are read, listed and watched."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.controllers.group_stamps import GroupStamps, write_stamps
from coordinator.order.stale_gangs import StaleGangs
from shared.manifests.kai.groups import LAST_EVICTION, LAST_START, STALE_SINCE
from shared.messages.messages import Outcome, OutcomeCode, StatusItem, TaskState, Turn
from tests.builders.objects import kai_group, kai_queue, node, pod, pod_group, queue
from tests.coordinator.intake.test_kai_objects import TOPOLOGY
from tests.coordinator.objects.world import KIND, World
from tests.coordinator.order.helpers import POLICY

Json = dict[str, Any]
KAI = {"dialect": "kai"}
GPUS = {
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "4"}}
}


def limited(limit: int) -> Json:
    return {"quota": 1, "overQuotaWeight": 1, "limit": limit}


def member(name: str, group: str, gpus: int = 1) -> Json:
    ask = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    pod_item = pod(
        name,
        containers=[{"name": "c", "resources": {"requests": ask}}],
        schedulerName="kai-scheduler",
    )
    pod_item["metadata"]["annotations"] = {"pod-group-name": group}
    return pod_item


@pytest.fixture
def world() -> World:
    world = World(policy=KAI)
    world.put(
        node("n0") | GPUS,
        kai_queue("all", gpu=limited(3)),
        kai_queue("red", "all", gpu=limited(-1)),
        kai_queue("lost", "nobody"),
    )
    return world


def conditions(value: Json, field: str = "conditions") -> dict[str, Json]:
    return {condition["type"]: condition for condition in value["status"].get(field, ())}


def test_a_queue_shows_what_it_and_those_below_it_have(world: World) -> None:
    world.put(kai_group("g", "red", minMember=2), *(member(f"g{i}", "g") for i in range(2)))
    red = world.get("KaiQueue", "red", "")["status"]
    assert (red["allocated"], red["requested"]) == ({}, {"cpu": "2", "nvidia.com/gpu": "2"})
    world.place()
    top = world.get("KaiQueue", "all", "")
    assert top["kind"] == "Queue"
    assert top["status"]["childQueues"] == ["red"]
    assert top["status"]["allocated"] == {"cpu": "2", "nvidia.com/gpu": "2"}
    assert top["status"]["requested"] == {"cpu": "2", "nvidia.com/gpu": "2"}
    assert world.names("KaiQueue") == ["all", "lost", "red"]
    lost = world.get("KaiQueue", "lost", "")
    assert "parent queue nobody does not exist" in conditions(lost)["Accepted"]["message"]


def test_a_watch_of_queues_tells_of_jobs_and_of_children(world: World) -> None:
    observed = world.objects.version
    world.put(kai_group("g", "red"), member("g0", "g"))
    world.place()
    assert world.changes(observed, "KaiQueue") == [("MODIFIED", "all"), ("MODIFIED", "red")]
    assert world.changes(observed, "KaiPodGroup") == [("ADDED", "g")]
    before = int(world.get("KaiQueue", "all", "")["metadata"]["resourceVersion"])
    observed = world.objects.version
    world.put(kai_queue("blue", "all"))
    assert set(world.changes(observed, "KaiQueue")) == {("ADDED", "blue"), ("MODIFIED", "all")}
    assert world.get("KaiQueue", "all", "")["status"]["childQueues"] == ["blue", "red"]
    assert int(world.get("KaiQueue", "all", "")["metadata"]["resourceVersion"]) > before
    observed = world.objects.version
    world.remove("KaiQueue", "blue", "")
    assert set(world.changes(observed, "KaiQueue")) == {("DELETED", "blue"), ("MODIFIED", "all")}


def test_a_group_beyond_a_limit_above_its_queue_says_which(world: World) -> None:
    world.put(kai_group("a", "red", minMember=2), *(member(f"a{i}", "a") for i in range(2)))
    world.place()
    world.put(kai_group("b", "red", minMember=2), *(member(f"b{i}", "b") for i in range(2)))
    assert world.turns() == []
    world.objects.report_waiting()
    group = world.get("KaiPodGroup", "b")
    assert group["metadata"]["annotations"]["quadrant.dev/reason"] == "WaitingForQuota"
    (scheduling,) = group["status"]["schedulingConditions"]
    assert (scheduling["type"], scheduling["nodePool"]) == ("UnschedulableOnNodePool", "default")
    assert scheduling["reason"] == "Unschedulable"
    sentence = "queue all, above red, uses 2 of the 3 nvidia.com/gpu it may have, the job asks 2"
    assert scheduling["message"].startswith(f"WaitingForQuota: {sentence}")
    (reason,) = scheduling["reasons"]
    assert reason["reason"] == "OverLimit"
    details = reason["details"]["queueDetails"]
    assert details["name"] == "all"
    assert details["queueAllocatedResources"]["nvidia.com/gpu"] == "2"
    assert details["queueResourceLimits"] == {"nvidia.com/gpu": "3"}
    assert details["queueDeservedResources"] == {"nvidia.com/gpu": "1"}
    assert details["podGroupRequestedResources"]["nvidia.com/gpu"] == "2"
    texts = [text for _, text in world.events("KaiPodGroup", "b")]
    assert texts == [scheduling["message"]]
    assert group["status"]["pending"] == 2


def test_a_group_larger_than_a_limit_or_without_queue_says_so(world: World) -> None:
    world.put(kai_group("b", "red", minMember=4), *(member(f"b{i}", "b") for i in range(4)))
    world.put(kai_group("c", "nowhere"), member("c0", "c"))
    world.objects.report_waiting()
    (large,) = world.get("KaiPodGroup", "b")["status"]["schedulingConditions"]
    assert "queue all may have 3 at most; raise its limit or ask for less" in large["message"]
    assert large["reasons"][0]["reason"] == "OverLimit"
    (homeless,) = world.get("KaiPodGroup", "c")["status"]["schedulingConditions"]
    assert homeless["reasons"][0]["reason"] == "QueueDoesNotExist"


def test_events_and_changes_name_kais_kind(world: World) -> None:
    world.put(kai_group("g", "red"), member("g0", "g"))
    world.place()
    events = list(world.objects.list(KIND["Event"], namespace="ns", limit=None).items)
    involved = [event.object()["involvedObject"] for event in events]
    kinds = {(about["apiVersion"], about["kind"]) for about in involved}
    assert ("scheduling.volcano.sh/v1beta1", "PodGroup") not in kinds
    assert all(about["uid"] for about in involved)
    observed = world.objects.version
    world.answer(infeasible)
    world.record(TaskState.BOUND, world.jid("KaiPodGroup", "g"), [0])
    assert world.changes(observed, "KaiPodGroup") == [("MODIFIED", "g")]
    assert world.changes(observed, "PodGroup") == []


def infeasible(turn: Turn) -> Outcome:
    return Outcome(
        jid=turn.jid, code=OutcomeCode.INFEASIBLE, placements=[], reasons={"x": 1}, session=1
    )


class Stamped:
    """A gang of two in a world, with what is written on its PodGroup."""

    def __init__(self, world: World, **spec: Any) -> None:
        self.world = world
        world.put(kai_group("g", "red", minMember=2, **spec), *(member(f"g{i}", "g") for i in "01"))
        world.place()
        self.jid = world.jid("KaiPodGroup", "g")
        self.stamps = GroupStamps(world.core)

    def recorded(self, state: TaskState, *tasks: int, incarnations: tuple[int, ...] = ()) -> None:
        self.world.now += 10
        self.world.record(state, self.jid, [*tasks])
        rows = [0] * len(tasks)
        item = StatusItem(state, self.jid, [*tasks], rows, incarnations=incarnations)
        self.stamps.recorded([item], self.world.now)

    def written(self) -> Json:
        due = self.stamps.take()
        self.world._stored(write_stamps(self.world.intake, due, self.world.now))
        result: Json = self.world.get("KaiPodGroup", "g")["metadata"].get("annotations", {})
        return result


def test_the_first_bind_is_written_on_the_group(world: World) -> None:
    gang = Stamped(world)
    before = world.get("KaiPodGroup", "g")["metadata"]
    gang.recorded(TaskState.BOUND, 0, 1)
    assert gang.written() == {LAST_START: "1970-01-12T13:46:50Z"}
    after = world.get("KaiPodGroup", "g")["metadata"]
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])
    assert after["generation"] == before["generation"]
    record = world.core.order.accounts.cluster.objects.kai_groups["ns/g"]
    assert record.last_start == 1_000_010.0
    gang.recorded(TaskState.RUNNING, 0, 1)
    assert gang.written() == {LAST_START: "1970-01-12T13:46:50Z"}
    gang.stamps = GroupStamps(world.core)  # of another leader
    gang.recorded(TaskState.BOUND, 0)
    assert gang.written() == {LAST_START: "1970-01-12T13:46:50Z"}


def test_the_last_eviction_is_written_and_delays_the_next_search(world: World) -> None:
    gang = Stamped(world, preemptionDelay="1m")
    gang.recorded(TaskState.RUNNING, 0, 1)
    gang.recorded(TaskState.PENDING, 0, 1)
    assert LAST_EVICTION not in gang.written(), "a refused bind"
    world.place()
    gang.recorded(TaskState.RUNNING, 0, 1)
    gang.recorded(TaskState.PENDING, 0, 1, incarnations=(0, 0))
    assert gang.written()[LAST_EVICTION] == "1970-01-12T13:47:20Z"
    record = world.core.order.accounts.cluster.objects.kai_groups["ns/g"]
    assert record.delayed_until(0.0) == 1_000_040.0 + 60


def test_since_when_a_gang_is_broken_is_written_until_it_is_whole(world: World) -> None:
    gang = Stamped(world)
    gang.recorded(TaskState.RUNNING, 0, 1)
    gang.recorded(TaskState.LOST, 1)
    world.turns()
    assert gang.written() == {STALE_SINCE: "1970-01-12T13:47:00Z"}
    # Whoever leads next goes by what is written, and takes it away once that is over.
    other = world.core.order.stale_gangs = StaleGangs(world.core.order.session)
    other.note(gang.jid)
    world.now += 30
    world.turns()
    assert gang.written() == {STALE_SINCE: "1970-01-12T13:47:00Z"}
    world.put(member("g2", "g"))
    world.place()
    gang.recorded(TaskState.RUNNING, 2)
    world.turns()
    assert gang.written() == {}


@pytest.mark.parametrize("policy", [KAI, POLICY])
def test_objects_of_the_other_dialect_say_so(policy: Json) -> None:
    world = World(policy=policy)
    world.put(queue("v"), pod_group("vg"), kai_queue("k"), kai_group("kg", "k"), TOPOLOGY)
    theirs = [("KaiQueue", "k", ""), ("KaiPodGroup", "kg", "ns"), ("KaiTopology", "t", "")]
    volcanos = [("Queue", "v", ""), ("PodGroup", "vg", "ns")]
    read, unread = (theirs, volcanos) if policy is KAI else (volcanos, theirs)
    for kind, name, namespace in unread:
        condition = conditions(world.get(kind, name, namespace))["Read"]
        assert (condition["status"], condition["reason"]) == ("False", "OtherDialect")
        assert condition["message"].startswith("kept and not looked at: the policy in force is ")
    for kind, name, namespace in read:
        value = world.get(kind, name, namespace)
        assert "Read" not in conditions(value | {"status": value.get("status") or {}})
