"""resource-strategy-fit: packing, spreading, and keeping scarce resources free."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shard_worker.dialects.volcano.plugins.node.resource_strategy_fit import TYPE_MARK, WEIGHT_MARK
from shard_worker.harness import Cluster
from shared.policy.model import PluginOption, PolicyError

GPU = "nvidia.com/gpu"
WAYS = {GPU: {"type": "MostAllocated", "weight": 2}, "cpu": {"type": "LeastAllocated"}}


def cluster(**arguments: Any) -> Cluster:
    return Cluster("gang", PluginOption("resource-strategy-fit", arguments))


def bound(cluster: Cluster, task: str) -> str:
    return cluster.run().binds[f"default/{task}"]


def test_gpus_are_packed_and_cores_spread() -> None:
    small_cluster = cluster(resources=WAYS)
    for name in ("a", "b"):
        small_cluster.node(name, cpu=16, resources={GPU: 8})
    small_cluster.job("old", on=["b"], cpu=1, resources={GPU: 4})
    small_cluster.job("gpu", cpu=1, resources={GPU: 2})
    small_cluster.job("cpu", cpu=1)
    result = small_cluster.run().binds
    assert result == {"default/gpu-0": "b", "default/cpu-0": "a"}


def test_a_pattern_stands_for_all_names_it_begins() -> None:
    small_cluster = cluster(resources={"nvidia.com/*": {"type": "MostAllocated"}})
    for name in ("a", "b"):
        small_cluster.node(name, resources={GPU: 8})
    small_cluster.job("old", on=["b"], resources={GPU: 1})
    small_cluster.job("new", resources={GPU: 1})
    assert bound(small_cluster, "new-0") == "b"


def test_a_pod_may_have_its_own_way() -> None:
    marks = ((TYPE_MARK, "LeastAllocated"), (WEIGHT_MARK, json.dumps({GPU: 1})))
    small_cluster = cluster(resources=WAYS)
    for name in ("a", "b"):
        small_cluster.node(name, resources={GPU: 8})
    small_cluster.job("old", on=["b"], resources={GPU: 4})
    small_cluster.job("new", resources={GPU: 2}, members={"annotations": marks})
    session = small_cluster.open()
    assert bound(small_cluster, "new-0") == "a"
    assert not session.fast(session.world.session_job(1).tasks[0].cls, marks)


def scarce(policy: str, **more: Any) -> Cluster:
    small_cluster = cluster(**{"sra.policy": policy, "sra.resources": GPU, **more}, resources={})
    small_cluster.node("gpus", cpu=10, memory=64, resources={GPU: 1})
    small_cluster.node("plain", cpu=4, memory=64)
    return small_cluster


def test_retention_keeps_others_off_scarce_nodes() -> None:
    scarce_cluster = scarce("retention", **{"sra.retention.weight": 1000})
    scarce_cluster.job("cpu", cpu=1)
    assert bound(scarce_cluster, "cpu-0") == "plain"


def test_proportional_leaves_idle_what_the_scarce_resource_needs() -> None:
    scarce_cluster = scarce("proportional", **{f"sra.proportional.{GPU}.cpu": 8})
    scarce_cluster.job("cpu", tasks=8, minimum=1, cpu=1)
    binds = scarce_cluster.run().binds.values()
    assert sorted(binds) == ["gpus"] * 2 + ["plain"] * 4
    scarce_cluster.job("gpu", cpu=3, resources={GPU: 1})
    assert bound(scarce_cluster, "gpu-0") == "gpus"


def test_memory_is_kept_in_gigabytes() -> None:
    """64 GiB are 68 GB: beside the 60 that one GPU needs there is room for 6 GiB."""
    scarce_cluster = scarce("proportional", **{f"sra.proportional.{GPU}.memory": 60})
    scarce_cluster.job("a", cpu=5, memory=6)
    assert bound(scarce_cluster, "a-0") == "gpus"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sra.policy": "hoard"}, "hoard"),
        ({"resources": {"cpu": {"type": "Best"}}}, "resources.cpu.type 'Best'"),
        ({"resources": {"*": {}}}, "pattern"),
        ({"resources": {"cpu": 3}}, "resources.cpu is not a mapping"),
        ({"resources": {"cpu": {"weight": "x"}}}, "weight 'x'"),
    ],
)
def test_a_mistake_is_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message.replace("*", r"\*")):
        cluster(**arguments).open()
