"""Pods of a gang get other labels, or lose their gates, while some of the gang runs."""

from __future__ import annotations

from typing import Any

from shared.messages.messages import TaskState
from tests.builders.objects import job, node, pod, pod_group, queue, task
from tests.coordinator.objects.world import World

GATE = [{"name": "mine"}]


def member(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod_item = pod(name, group="g", **spec)
    pod_item["metadata"]["labels"] = labels or {}
    return pod_item


def tasks_of(world: World, jid: int) -> list[int]:
    return sorted(
        tix for turn in world.place() if turn.jid == jid for r in turn.runs for tix in r.tasks
    )


def test_a_role_falls_apart_while_it_runs() -> None:
    world = World()
    world.put(node("n0"), queue("q"), pod_group("g", minMember=2, queue="q"))
    world.put(*(member(f"a-{i}") for i in range(3)))
    jid = world.jid("Pod", "a-0")
    placed = tasks_of(world, jid)
    assert placed
    for state in (TaskState.BOUND, TaskState.RUNNING):
        world.record(state, jid, placed)
    world.put(member("a-1", labels={"app": "x"}))
    world.core.validate()
    assert [r.names for r in world.core.order.jobs[jid].job.roles] == [("a-0",), ("a-1",), ("a-2",)]
    world.put(member("a-3", labels={"app": "x"}))
    later = tasks_of(world, jid)
    while more := tasks_of(world, jid):
        later += more
    assert sorted([*placed, *later]) == [0, 1, 2, 3]
    world.core.validate()
    assert world.get("Pod", "a-1")["metadata"]["labels"] == {"app": "x"}


def test_gated_pods_wait_until_the_gate_is_removed() -> None:
    world = World()
    world.put(node("n0"), queue("q"), pod_group("g", minMember=1, queue="q"))
    world.put(member("a-0", schedulingGates=GATE), member("a-1", schedulingGates=GATE))
    jid = world.jid("Pod", "a-0")
    assert tasks_of(world, jid) == []
    world.put(member("a-1"))
    world.core.validate()
    tasks = tasks_of(world, jid)
    assert [world.core.order.jobs[jid].job.pod_name(tix) for tix in tasks] == ["a-1"]
    assert tasks_of(world, jid) == []


def test_the_parts_of_a_task_are_shown_as_pods_of_one() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    numa = "volcano.sh/numa-topology-policy"
    world = World()
    world.put(node("n0"), queue("q"))
    world.put(
        job(
            "j",
            tasks=[task("w", replicas=4, partitionPolicy=policy, topologyPolicy="restricted")],
            queue="q",
        )
    )
    names = [f"j-w-{i}" for i in range(4)]
    assert world.names("Pod", "ns") == names
    metadata = [world.get("Pod", name)["metadata"] for name in names]
    assert [m["labels"]["volcano.sh/task-index"] for m in metadata] == ["0", "1", "2", "3"]
    assert {m["annotations"][numa] for m in metadata} == {"restricted"}
    assert [m["labels"]["volcano.sh/partition-id"] for m in metadata] == ["0", "0", "1", "1"]
