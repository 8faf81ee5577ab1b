"""Rules of KAI's that hold in one session, with one shard and with several."""

from __future__ import annotations

from typing import Any

from laboratory.replay.outcome import ReplayResult
from tests.laboratory.replay.test_kai import group, node, pod, queue
from tests.laboratory.replay.test_kai_dump import case, objects, sessions, sharded

Json = dict[str, Any]
TEAMS = [queue("department"), queue("team", "department")]


def every_form(*items: Json, **more: Any) -> list[ReplayResult]:
    """The outcome of one session, of one shard and of three."""
    recorded = case(*items, **more)
    return [sessions(recorded)[0], sharded(recorded, 1), sharded(recorded, 3)]


def member(name: str, sub_group: str) -> Json:
    """A pod of PodGroup ``trainer`` with one GPU."""
    return pod(name, "trainer", gpus=1, labels={"kai.scheduler/subgroup-name": sub_group})


def test_a_sub_group_below_its_floor_waits_for_pods_and_not_for_nodes() -> None:
    trainer = group("trainer", 1)
    trainer["spec"] = {
        "queue": "team",
        "minSubGroup": 1,
        "subGroups": [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 3}],
    }
    pods = [member("leader-0", "leader"), *(member(f"worker-{i}", "workers") for i in range(2))]
    cluster = {"nodes": [node("a", 8)], "queues": TEAMS, "podGroups": [trainer], "pods": pods}
    session, *shards = every_form(*objects(cluster))
    assert session.pod_groups["default/trainer"]["reasons"] == [
        "NotEnoughTasks: sub group workers has 2 of the 3 pods that it needs"
    ]
    for result in (session, *shards):
        assert result.binds == {"default/leader-0": "a"}
    for result in shards:
        assert result.pod_groups["default/trainer"]["reasons"] == ["NotEnoughTasks"]
