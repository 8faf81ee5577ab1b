"""Rules of KAI's that hold in one session, with one shard and with several."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.replay.outcome import ReplayResult
from shared.policy.dialect import parse_policy
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


# --- parts of devices -----------------------------------------------------------------------------


def alone(name: str, **marks: str) -> list[Json]:
    """A pod with annotations, in a PodGroup of its own."""
    return objects({"podGroups": [group(name, 1)], "pods": [pod(name, name, annotations=marks)]})


def gpu_node(name: str, gpus: int, **labels: str) -> Json:
    """A node with labels of NVIDIA's; ``_`` stands for a dot in their names."""
    node_item = node(name, gpus)
    marks = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    node_item["metadata"]["labels"] = marks
    return node_item


def limited(gpus: float) -> list[Json]:
    """The queues, of which the leaf has a limit of GPUs."""
    department, team = queue("department"), queue("team", "department")
    team["spec"]["resources"]["gpu"] |= {"limit": gpus}
    return [department, team]


@pytest.mark.parametrize(
    ("memory", "marks", "pods", "fitting"),
    [
        ("46068", {"gpu-fraction": "0.2504"}, 5, 3),
        ("46068", {"gpu-fraction": "0.2495"}, 5, 4),
        ("81000", {"gpu-memory": "27000"}, 4, 3),
        ("81000", {"gpu-memory": "27001"}, 4, 2),
        ("24564", {"gpu-memory": "3062"}, 9, 8),
        ("25757220864", {"gpu-memory": "3062"}, 9, 8),
        ("", {"gpu-fraction": "0.29"}, 4, 3),
        ("", {"gpu-memory": "10"}, 2, 0),
    ],
)
def test_shares_fill_the_memory_of_a_device_and_no_more(
    memory: str, marks: dict[str, str], pods: int, fitting: int
) -> None:
    device = gpu_node("a", 1, **({"gpu_memory": memory} if memory else {}))
    shares = [item for i in range(pods) for item in alone(f"share-{i}", **marks)]
    for result in every_form(*objects({"nodes": [device], "queues": TEAMS}), *shares):
        assert len(result.binds) == fitting


@pytest.mark.parametrize(("portion", "fitting"), [("0.125", 7), ("0.124", 8), ("0.135", 7)])
def test_queues_are_charged_with_hundredths_of_a_share(portion: str, fitting: int) -> None:
    """0.125 and 0.135 count for 0.13 and 0.14, 0.124 for 0.12."""
    cluster = {"nodes": [gpu_node("a", 4, gpu_memory="81559")], "queues": limited(1)}
    shares = [item for i in range(10) for item in alone(f"s{i}", **{"gpu-fraction": portion})]
    for result in every_form(*objects(cluster), *shares):
        assert len(result.binds) == fitting


@pytest.mark.parametrize("strategy", ["single", "mixed", "none"])
def test_the_label_that_discovery_writes_keeps_nobody_away(strategy: str) -> None:
    cluster = {"nodes": [gpu_node("a", 2, mig_strategy=strategy)], "queues": TEAMS}
    whole = objects({"podGroups": [group("whole", 1)], "pods": [pod("whole", "whole", gpus=1)]})
    half = alone("half", **{"gpu-fraction": "0.5"})
    for result in every_form(*objects(cluster), *whole, *half):
        assert len(result.binds) == 2


def test_restricted_nodes_take_their_kind_alone() -> None:
    policy = parse_policy({"dialect": "kai", "options": {"restrict-node-scheduling": True}})
    nodes = [node("cores", 2), node("gpus", 2), node("none", 2)]
    for item, role in zip(nodes, ("cpu", "gpu"), strict=False):
        item["metadata"]["labels"] = {f"node-role.kubernetes.io/{role}-worker": "true"}
    pods = [pod("whole", "whole", gpus=1), pod("plain", "plain")]
    groups = [group("whole", 1), group("plain", 1)]
    cluster = {"nodes": nodes, "queues": TEAMS, "podGroups": groups, "pods": pods}
    for result in every_form(*objects(cluster), policy=policy):
        assert result.binds == {"default/whole": "gpus", "default/plain": "cores"}
