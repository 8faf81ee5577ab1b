"""Rules of KAI's that hold in one session, with one shard and with several."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.replay.outcome import ReplayResult
from shared.policy.dialect import parse_policy
from tests.examples import first_of
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
    first_of(
        [
            ("46068", {"gpu-fraction": "0.2504"}, 5, 3),
            ("46068", {"gpu-fraction": "0.2495"}, 5, 4),
            ("81000", {"gpu-memory": "27001"}, 4, 2),
            ("", {"gpu-memory": "10"}, 2, 0),
            ("81000", {"gpu-memory": "27000"}, 4, 3),
            ("24564", {"gpu-memory": "3062"}, 9, 8),
            ("25757220864", {"gpu-memory": "3062"}, 9, 8),
            ("", {"gpu-fraction": "0.29"}, 4, 3),
        ],
        4,
    ),
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


MEMORIES = {"large": 2000, "medium": 600, "small": 400}
"""MiB of a device of each node."""


def quota(gpus: float, *, limit: float = -1) -> list[Json]:
    """The queues, of which the leaf has a quota and a limit of GPUs."""
    department, team = limited(limit)
    team["spec"]["resources"]["gpu"] |= {"quota": gpus}
    return [department, team]


def unequal_nodes(**gpus: int) -> list[Json]:
    return [gpu_node(name, n, gpu_memory=str(MEMORIES[name])) for name, n in gpus.items()]


@pytest.mark.parametrize(
    ("memory", "bounds", "node"),
    [
        ("350", {"gpus": 0.2}, "large"),  # 0.18 of a large device, 0.59 of a medium, 0.88
        ("350", {"gpus": -1, "limit": 0.2}, "large"),
        ("350", {"gpus": 0.17}, ""),
        ("300", {"gpus": 0.15}, "large"),
        ("300", {"gpus": 0.14}, ""),
    ],
)
def test_memory_is_charged_on_the_node_that_is_tried(
    memory: str, bounds: dict[str, float], node: str
) -> None:
    fixed = group("share", 1)
    fixed["spec"]["preemptibility"] = "non-preemptible"
    item = pod("share", "share", annotations={"gpu-memory": memory})
    cluster = {"nodes": unequal_nodes(large=1, medium=1, small=1), "queues": quota(**bounds)}
    for result in every_form(*objects(cluster | {"podGroups": [fixed], "pods": [item]})):
        assert result.binds == ({"default/share": node} if node else {})


def test_memory_beyond_the_quota_of_a_full_queue_waits_for_it() -> None:
    cluster = {"nodes": unequal_nodes(medium=1, small=1), "queues": limited(0.5)}
    _, *shards = every_form(*objects(cluster), *alone("share", **{"gpu-memory": "350"}))
    for result in shards:
        assert result.pod_groups["default/share"]["reasons"] == ["WaitingForQuota"]


@pytest.mark.parametrize("limit", first_of([0.7, 0.5, 1, 1.3, 2.5]))
@pytest.mark.parametrize("nodes", [{"large": 1, "small": 2}, {"medium": 2, "small": 2, "large": 1}])
def test_memory_on_unequal_nodes_fills_a_limit_and_never_exceeds_it(
    limit: float, nodes: dict[str, int]
) -> None:
    """Beside whole GPUs and fractions, which every node charges alike."""
    sizes = {f"share-{i}": 90 + 70 * (i % 4) for i in range(9)}
    cluster = {"nodes": unequal_nodes(**nodes), "queues": limited(limit)}
    others = [*alone("third", **{"gpu-fraction": "0.3"})]
    others += objects({"podGroups": [group("one", 1)], "pods": [pod("one", "one", gpus=1)]})
    shares = [item for name, n in sizes.items() for item in alone(name, **{"gpu-memory": str(n)})]
    for result in every_form(*objects(cluster), *others, *shares):
        charged = {"default/third": 30, "default/one": 100}
        held = sum(
            charged[name]
            if name in charged
            else -(-100 * sizes[name.removeprefix("default/")] // MEMORIES[node])
            for name, node in result.binds.items()
        )
        assert 0 < held <= 100 * limit
        waiting = [size for name, size in sizes.items() if f"default/{name}" not in result.binds]
        cheapest = min((-(-100 * size // MEMORIES["large"]) for size in waiting), default=1000)
        large = [name for name, node in result.binds.items() if node == "large"]
        assert held + cheapest > 100 * limit or large  # else the large one would have had room
