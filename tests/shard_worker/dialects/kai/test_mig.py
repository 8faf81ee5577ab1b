"""MIG instances: what they count for, and where they may run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shard_worker.dialects.kai.actions.run import run_actions
from shard_worker.dialects.kai.mig import LEGACY, slices
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.rules.amounts import Amounts
from tests.shard_worker.dialects.kai.clusters import KaiCluster, placed

SMALL = "nvidia.com/mig-1g.10gb"
LABEL = "nvidia.com/mig.strategy"
ENABLED = "node-role.kubernetes.io/mig-enabled"
GPU_WORKER = "node-role.kubernetes.io/gpu-worker"
CPU_WORKER = "node-role.kubernetes.io/cpu-worker"


@pytest.mark.parametrize(
    ("name", "number"),
    [(SMALL, 1), ("nvidia.com/mig-3g.40gb", 3), ("nvidia.com/gpu", 0), ("nvidia.com/mig", 0)],
)
def test_an_instance_counts_for_its_slices(name: str, number: int) -> None:
    assert slices(name) == number


def test_instances_are_charged_as_gpus() -> None:
    names = ["cpu", "memory", "pods", "nvidia.com/mig-2g.20gb", "nvidia.com/gpu"]
    assert amounts_of(((3, 3000), (4, 1000)), names) == Amounts(gpu=7000)


@pytest.mark.parametrize(
    ("strategy", "instance", "whole"),
    [("mixed", True, False), ("single", False, True), ("", True, True)],
)
def test_strategies_take_one_kind(strategy: str, instance: bool, whole: bool) -> None:
    labels = {LABEL: strategy} if strategy else {}
    expected = {"instance-0": instance, "whole-0": whole, "share-0": not strategy, "none-0": True}
    assert beside_each_other(labels, instances=2) == placed_names(expected)


@pytest.mark.parametrize(
    ("labels", "instances", "instance", "whole"),
    [
        ({LABEL: "mixed"}, 0, False, True),
        ({LABEL: "mixed", ENABLED: "false"}, 2, False, True),
        ({LABEL: "mixed", ENABLED: "yes"}, 2, False, True),
        ({LABEL: "mixed", ENABLED: "true"}, 0, False, False),
        ({LABEL: "single", ENABLED: "false"}, 2, False, True),
        ({LABEL: "none"}, 2, True, True),
        ({ENABLED: "1"}, 2, True, True),
    ],
)
def test_a_strategy_counts_where_mig_is_enabled(
    labels: dict[str, str], instances: int, instance: bool, whole: bool
) -> None:
    """NVIDIA's discovery writes the strategy on every node with GPUs."""
    single = labels.get(LABEL) == "single" and labels.get(ENABLED) != "false"
    share = whole and not single
    expected = {"instance-0": instance, "whole-0": whole, "share-0": share, "none-0": True}
    assert beside_each_other(labels, instances=instances) == placed_names(expected)


def test_the_label_that_enables_mig_is_an_option() -> None:
    options = {"mig-worker-node-label-key": "example.com/mig"}
    labels = {LABEL: "mixed", ENABLED: "true", "example.com/mig": "false"}
    expected = {"whole-0": True, "share-0": True, "none-0": True}
    assert beside_each_other(labels, instances=0, options=options) == placed_names(expected)


@pytest.mark.parametrize(
    ("labels", "gpu", "cpu"),
    [
        ({}, False, False),
        ({GPU_WORKER: "true"}, True, False),
        ({CPU_WORKER: ""}, False, True),
        ({GPU_WORKER: "false", CPU_WORKER: "true"}, True, True),
    ],
)
def test_restricted_nodes_take_their_kind_alone(
    labels: dict[str, str], gpu: bool, cpu: bool
) -> None:
    """The presence of the label counts, and not its value."""
    options = {"restrict-node-scheduling": True}
    expected = {"instance-0": gpu, "whole-0": gpu, "share-0": gpu, "none-0": cpu}
    result = beside_each_other(labels, instances=2, options=options)
    assert result == placed_names(expected)


def placed_names(expected: dict[str, bool]) -> list[str]:
    return sorted(name for name, there in expected.items() if there)


def beside_each_other(
    labels: dict[str, str], *, instances: int, options: Mapping[str, object] | None = None
) -> list[str]:
    """The pods of four kinds that are placed on one node with these labels."""
    cluster = KaiCluster(options=options or {})
    resources = {SMALL: float(instances)} if instances else {}
    cluster.node("a", gpus=2, labels=labels, resources=resources)
    cluster.job("instance", resources={SMALL: 1})
    cluster.job("whole", gpus=1)
    cluster.job("share", marks={"gpu-fraction": "0.5"})
    cluster.job("none", gpus=0)
    session = cluster.open()
    run_actions(session)
    return sorted(placed(session))


def test_legacy_pods_are_not_placed_and_nobody_comes_beside_one_that_runs() -> None:
    cluster = KaiCluster()
    for name in ("a", "b"):
        cluster.node(name, labels={LABEL: "mixed"}, resources={SMALL: 2})
    cluster.job("old", gpus=0, on=["a"], marks={SMALL: "1"})
    cluster.job("late", gpus=0, marks={SMALL: "1"})
    cluster.job("new", resources={SMALL: 1})
    session = cluster.open()
    run_actions(session)
    assert placed(session) == {"new-0": ("BINDING", "b"), "old-0": ("RUNNING", "a")}
    assert session.kai_jobs[1].job.unschedulable == {LEGACY: 2}
