"""deviceshare: parts of GPUs fit on a device, not on a sum of devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.volcano.plugins.node.deviceshare import (
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    DeviceShare,
)
from shard_worker.harness import Cluster, Result
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.ledger.records import pack_thing
from shared.model.node_devices import (
    ASSIGNED,
    GPU_MEMORY,
    GPU_NUMBER,
    REGISTER,
    declared,
    registered,
)
from shared.policy.model import PluginOption, PolicyError

TWO = "gpu-a,10,8000,V100,true:gpu-b,10,8000,V100,true:"


def cluster(**arguments: Any) -> Cluster:
    named = {f"deviceshare.{key}": value for key, value in arguments.items()}
    return Cluster("gang", PluginOption("deviceshare", named))


def shared(cluster: Cluster, *memories: int) -> Result:
    for i, memory in enumerate(memories):
        cluster.job(f"j{i}", resources={GPU_MEMORY: memory})
    return cluster.run()


def test_memory_of_one_gpu_is_not_spread_over_two() -> None:
    small_cluster = cluster(GPUSharingEnable=True)
    small_cluster.node("a", cpu=64, resources={GPU_MEMORY: 16, GPU_NUMBER: 2})
    result = shared(small_cluster, 5, 5, 5)  # 15 of 16, but no device has 5 left
    assert sorted(result.binds) == ["default/j0-0", "default/j1-0"]


def test_without_the_switch_only_sums_count() -> None:
    small_cluster = cluster()
    small_cluster.node("a", cpu=64, resources={GPU_MEMORY: 16, GPU_NUMBER: 2})
    assert len(shared(small_cluster, 5, 5, 5).binds) == 3


def test_whole_gpus() -> None:
    small_cluster = cluster(GPUNumberEnable=True)
    small_cluster.node("a", resources={GPU_NUMBER: 2, GPU_MEMORY: 16})
    small_cluster.job("two", resources={GPU_NUMBER: 2})
    small_cluster.job("one", resources={GPU_NUMBER: 1})
    assert list(small_cluster.run().binds) == ["default/two-0"]


def virtual(*asks: dict[str, float], on: int = 0, marks: Any = (), **arguments: Any) -> Cluster:
    small_cluster = cluster(VGPUEnable=True, **arguments)
    sums = {VGPU_NUMBER: 20, VGPU_MEMORY: 16000, VGPU_CORES: 200}
    for name in ("a", "b"):
        small_cluster.node(name, cpu=64, resources=sums, annotations={REGISTER: TWO})
    for i, ask in enumerate(asks):
        placed = ["a"] if i < on else []
        small_cluster.job(f"j{i}", resources=ask, on=placed, members={"annotations": marks})
    return small_cluster


def ask(number: int, memory: int, cores: int = 0) -> dict[str, float]:
    return {VGPU_NUMBER: number, VGPU_MEMORY: memory, VGPU_CORES: cores}


def test_virtual_gpus_of_one_task_are_on_different_devices() -> None:
    result = virtual(ask(2, 5000), ask(1, 5000), ask(3, 100)).run()
    assert result.binds == {"default/j0-0": "a", "default/j1-0": "b"}


def test_all_cores_of_a_device_are_for_one_alone() -> None:
    virtual_run = virtual(ask(1, 10, 100), ask(1, 10, 100), ask(1, 10, 1), on=2)
    assert virtual_run.run().binds == {"default/j2-0": "b"}


def test_a_pod_tells_which_device_it_has() -> None:
    marks = ((ASSIGNED, "gpu-b,V100,6000,0:;"),)
    virtual_run = virtual(ask(1, 6000), ask(1, 6000), on=1, marks=marks)
    plugin_world = virtual_run.open().world
    plugin = DeviceShare(PluginOption("deviceshare", {"deviceshare.VGPUEnable": True}))
    assert [d.used_memory for d in plugin.devices(plugin_world, 0)] == [0, 6000]


@pytest.mark.parametrize(("policy", "node"), [("binpack", "a"), ("spread", "b")])
def test_the_policy_prefers_full_or_empty_devices(policy: str, node: str) -> None:
    asks = [ask(1, 1000)] * 3
    virtual_run = virtual(*asks, on=2, SchedulePolicy=policy, ScheduleWeight=10)
    assert virtual_run.run().binds == {"default/j2-0": node}


def waiting_for_a_device(
    *memories: int,
    actions: tuple[str, ...] = ("allocate",),
    status: Status = Status.RUNNING,
) -> Result:
    """One node of two devices: jobs that may go have this much, an important one wants 5000."""
    share = PluginOption("deviceshare", {"deviceshare.VGPUEnable": True})
    cluster = Cluster("priority", "gang", "predicates", share, actions=actions)
    cluster.node("a", cpu=64, resources=ask(20, 16000, 200), annotations={REGISTER: TWO})
    for i, memory in enumerate(memories):
        cluster.job(f"v{i}", resources=ask(1, memory), on=["a"], status=status, minimum=0)
    cluster.job("first", resources=ask(1, 5000), priority=100)
    return cluster.run()


def test_a_victim_gives_its_device_away() -> None:
    """The node's sum has room, 6,000 of 16,000, but no single device does."""
    result = waiting_for_a_device(5000, 5000, actions=("preempt",))
    assert len(result.evicted) == 1
    assert result.pipelined == {"default/first-0": "a"}


def test_a_device_that_is_being_left_is_promised_and_not_given() -> None:
    leaving = waiting_for_a_device(5000, 5000, status=Status.RELEASING)
    assert (leaving.binds, leaving.pipelined) == ({}, {"default/first-0": "a"})
    assert waiting_for_a_device(5000, 5000).pipelined == {}


def test_unhealthy_and_unreadable_gpus_are_not_registered() -> None:
    text = "a,10,8000,V100,false:b,10,8000,V100,true,hami-core:c,x,1,V,true:junk:"
    assert [(d.name, d.id, d.capacity) for d in registered(text)] == [
        ("vgpu/1", "b", (10, 8000, 100))
    ]


def test_mistakes_are_told() -> None:
    with pytest.raises(PolicyError, match="exclude one another"):
        cluster(GPUSharingEnable=True, GPUNumberEnable=True).open()
    with pytest.raises(PolicyError, match="'tight' is not known"):
        cluster(SchedulePolicy="tight").open()


# --- in a worker: by what the ledger says of each device ------------------------------------------

PARTS = st.tuples(
    st.integers(0, 10), st.sampled_from([0, 4000, 8000]), st.sampled_from([0, 50, 100])
)
PLACES = st.tuples(st.integers(0, 1), st.sampled_from(["vgpu/0", "vgpu/1"]))
Parts = tuple[int, int, int]
Usage = dict[tuple[int, str], tuple[Parts, Parts, Parts]]
"""Row and device -> what is used, what of that is leaving, what is promised of that."""
NOTHING = (0, 0, 0)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    usage: Usage = {}
    for place, used in draw(st.dictionaries(PLACES, PARTS)).items():
        leaving = draw(st.sampled_from([NOTHING, used]))
        usage[place] = used, leaving, draw(st.sampled_from([NOTHING, leaving]))
    return usage


def in_a_worker(usage: Usage, *, number: int = 1) -> World:
    """Two nodes of two devices each, of which this much is used; two tasks wait."""
    world = virtual(ask(number, 4000, 50), ask(number, 10, 100)).open().world
    world.whole = False
    for row in range(2):
        for name, capacity in declared(world.node(row), world.view.slot_names):
            parts = usage.get((row, name), (NOTHING,) * 3)
            flat = [
                n
                for has, used, leaving, promised in zip(capacity, *parts, strict=True)
                for n in (has, used, 0, leaving, promised)
            ]
            world.view.things.set(
                [(row, name, pack_thing(2, flat))]
            )  # newer than what was declared
    return world


@given(usage=usages(), number=st.integers(1, 3))
def test_all_nodes_at_once_are_each_node_alone(usage: Usage, number: int) -> None:
    world = in_a_worker(usage, number=number)
    plugin = DeviceShare(PluginOption("deviceshare", {"deviceshare.VGPUEnable": True}))
    for task in world.tasks():
        (check,) = plugin._fits(task, world)
        alone = [plugin._choose(task, world, row) for row in range(2)]
        idle = plugin._idle(task, world)
        assert check.mask.tolist() == [chosen is not None for chosen in alone]
        assert not (idle & ~check.mask).any()
        for row, chosen in enumerate(alone):
            devices = plugin._take(task, row, world)
            assert [name for name, _ in devices] == [device.name for device in chosen or ()]
            for name, amounts in devices:
                _, free = world.view.things.at(name, 3, row, later=not idle[row])
                assert all(n <= left for n, left in zip(amounts, free, strict=True))


def test_the_fullest_device_with_room_is_taken() -> None:
    usage: Usage = {
        (0, "vgpu/1"): ((1, 4000, 0), NOTHING, NOTHING),
        (1, "vgpu/0"): ((1, 8000, 0), NOTHING, NOTHING),
    }
    world = in_a_worker(usage)
    plugin = DeviceShare(PluginOption("deviceshare", {"deviceshare.VGPUEnable": True}))
    part, whole = world.tasks()
    assert plugin._take(part, 0, world) == (("vgpu/1", (1, 4000, 50)),)
    assert plugin._take(whole, 0, world) == (("vgpu/0", (10, 10, 100)),), "nobody else beside it"
    assert plugin._take(part, 1, world) == (("vgpu/1", (1, 4000, 50)),)
