"""deviceshare: parts of GPUs fit on a device, not on a sum of devices."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.volcano.plugins.node.deviceshare import (
    ASSIGNED,
    GPU_MEMORY,
    GPU_NUMBER,
    REGISTER,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    DeviceShare,
    registered,
)
from shard_worker.harness import Cluster, Result
from shared.policy.model import PluginOption, PolicyError

TWO = "gpu-a,10,8000,V100,true:gpu-b,10,8000,V100,true:"


def cluster(**arguments: Any) -> Cluster:
    named = {f"deviceshare.{key}": value for key, value in arguments.items()}
    return Cluster("gang", PluginOption("deviceshare", named))


def shared(made: Cluster, *memories: int) -> Result:
    for i, memory in enumerate(memories):
        made.job(f"j{i}", resources={GPU_MEMORY: memory})
    return made.run()


def test_memory_of_one_gpu_is_not_spread_over_two() -> None:
    made = cluster(GPUSharingEnable=True)
    made.node("a", cpu=64, resources={GPU_MEMORY: 16, GPU_NUMBER: 2})
    result = shared(made, 5, 5, 5)  # 15 of 16, but no device has 5 left
    assert sorted(result.binds) == ["default/j0-0", "default/j1-0"]


def test_without_the_switch_only_sums_count() -> None:
    made = cluster()
    made.node("a", cpu=64, resources={GPU_MEMORY: 16, GPU_NUMBER: 2})
    assert len(shared(made, 5, 5, 5).binds) == 3


def test_whole_gpus() -> None:
    made = cluster(GPUNumberEnable=True)
    made.node("a", resources={GPU_NUMBER: 2, GPU_MEMORY: 16})
    made.job("two", resources={GPU_NUMBER: 2})
    made.job("one", resources={GPU_NUMBER: 1})
    assert list(made.run().binds) == ["default/two-0"]


def virtual(*asks: dict[str, float], on: int = 0, marks: Any = (), **arguments: Any) -> Cluster:
    made = cluster(VGPUEnable=True, **arguments)
    sums = {VGPU_NUMBER: 20, VGPU_MEMORY: 16000, VGPU_CORES: 200}
    for name in ("a", "b"):
        made.node(name, cpu=64, resources=sums, annotations={REGISTER: TWO})
    for i, ask in enumerate(asks):
        placed = ["a"] if i < on else []
        made.job(f"j{i}", resources=ask, on=placed, members={"annotations": marks})
    return made


def ask(number: int, memory: int, cores: int = 0) -> dict[str, float]:
    return {VGPU_NUMBER: number, VGPU_MEMORY: memory, VGPU_CORES: cores}


def test_virtual_gpus_of_one_task_are_on_different_devices() -> None:
    result = virtual(ask(2, 5000), ask(1, 5000), ask(3, 100)).run()
    assert result.binds == {"default/j0-0": "a", "default/j1-0": "b"}


def test_all_cores_of_a_device_are_for_one_alone() -> None:
    made = virtual(ask(1, 10, 100), ask(1, 10, 100), ask(1, 10, 1), on=2)
    assert made.run().binds == {"default/j2-0": "b"}


def test_a_pod_tells_which_device_it_has() -> None:
    marks = ((ASSIGNED, "gpu-b,V100,6000,0:;"),)
    made = virtual(ask(1, 6000), ask(1, 6000), on=1, marks=marks)
    plugin_world = made.open().world
    plugin = DeviceShare(PluginOption("deviceshare", {"deviceshare.VGPUEnable": True}))
    assert [d.used_memory for d in plugin.devices(plugin_world, 0)] == [0, 6000]


@pytest.mark.parametrize(("policy", "node"), [("binpack", "a"), ("spread", "b")])
def test_the_policy_prefers_full_or_empty_devices(policy: str, node: str) -> None:
    asks = [ask(1, 1000)] * 3
    made = virtual(*asks, on=2, SchedulePolicy=policy, ScheduleWeight=10)
    assert made.run().binds == {"default/j2-0": node}


def test_what_is_not_healthy_or_not_readable_is_no_device() -> None:
    text = "a,10,8000,V100,false:b,10,8000,V100,true,hami-core:c,x,1,V,true:junk:"
    assert [(d.id, d.shares, d.memory) for d in registered(text)] == [("b", 10, 8000)]


def test_mistakes_are_told() -> None:
    with pytest.raises(PolicyError, match="exclude one another"):
        cluster(GPUSharingEnable=True, GPUNumberEnable=True).open()
    with pytest.raises(PolicyError, match="'tight' is not known"):
        cluster(SchedulePolicy="tight").open()
