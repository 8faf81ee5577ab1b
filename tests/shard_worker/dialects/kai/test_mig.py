"""MIG instances: what they count for, and where they may run."""

from __future__ import annotations

import pytest

from shard_worker.dialects.kai.actions.run import run_actions
from shard_worker.dialects.kai.mig import LEGACY, slices
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.rules.amounts import Amounts
from tests.shard_worker.dialects.kai.clusters import KaiCluster, placed

SMALL = "nvidia.com/mig-1g.10gb"
LABEL = "nvidia.com/mig.strategy"


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
    cluster = KaiCluster()
    labels = {LABEL: strategy} if strategy else {}
    cluster.node("a", gpus=1, labels=labels, resources={SMALL: 2})
    cluster.job("instance", resources={SMALL: 1})
    cluster.job("whole", gpus=1)
    cluster.job("none", gpus=0)
    session = cluster.open()
    run_actions(session)
    expected = {"instance-0": instance, "whole-0": whole, "none-0": True}
    assert sorted(placed(session)) == sorted(name for name, there in expected.items() if there)


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
