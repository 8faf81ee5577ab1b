"""Devices that a node declares, and the annotations that name a pod's devices."""

from __future__ import annotations

import pytest

from shared.model.model import Node
from shared.model.named_devices import MOST_DEVICES
from shared.model.node_devices import (
    ASSIGNED,
    ASSIGNED_NODE,
    ENDLESS,
    GPU_INDEX,
    GPU_MEMORY,
    GPU_NUMBER,
    REGISTER,
    assigned_devices,
    declared,
    device_annotations,
    none_left,
    registered,
)
from shared.units.things import DIMENSIONS, joined_devices

NAMES = ("cpu", "memory", "pods", GPU_NUMBER, GPU_MEMORY)
TWO = "gpu-a,10,8000,V100,true:gpu-b,10,6000,V100,true:"


def node(register: str = "", *, gpus: int = 0, memory: int = 0) -> Node:
    offered = ((3, 1000 * gpus), (4, 1000 * memory)) if gpus else ()
    return Node(0, "n", offered, annotations=((REGISTER, register),) if register else ())


def test_virtual_gpus_are_declared_by_their_position() -> None:
    assert declared(node(TWO), NAMES) == (
        ("vgpu/0", (10, 8000, 100)),
        ("vgpu/1", (10, 6000, 100)),
    )


def test_whole_gpus_share_the_nodes_memory() -> None:
    assert declared(node(gpus=2, memory=16), NAMES) == (
        ("gpu/0", (ENDLESS, 8, 100)),
        ("gpu/1", (ENDLESS, 8, 100)),
    )
    assert declared(node(), NAMES) == ()


@pytest.mark.parametrize(
    "text",
    ["a,10,8000,V100,false:", "a,x,1,V,true:", "a,1:", "junk:", "a,1,9999999999999999,V,true:", ""],
)
def test_unhealthy_and_unreadable_devices_keep_their_position(text: str) -> None:
    result = registered(text + "b,10,8000,V100,true,hami-core:")
    assert [(device.name, device.id) for device in result] == [(f"vgpu/{text.count(':')}", "b")]


def test_a_long_list_is_cut() -> None:
    assert len(registered("a,1,1,V,true:" * 1000)) == MOST_DEVICES
    assert len(declared(node(gpus=10**6), NAMES)) == MOST_DEVICES


def test_devices_removed_from_a_node_are_declared_with_zero() -> None:
    one = node("gpu-a,10,4000,V100,true:")
    assert declared(one, NAMES, before=node(TWO)) == (
        ("vgpu/0", (10, 4000, 100)),
        ("vgpu/1", (0, 0, 0)),
    )
    assert none_left(node(TWO), NAMES) == (("vgpu/0", (0, 0, 0)), ("vgpu/1", (0, 0, 0)))


def test_a_pod_is_told_as_volcano_tells_it() -> None:
    devices = (("vgpu/0", (1, 600, 10)), ("vgpu/1", (1, 500, 0)))
    assert device_annotations(node(TWO), devices) == {
        ASSIGNED: "gpu-a,V100,600,10:gpu-b,V100,500,0:;",
        ASSIGNED_NODE: "n",
    }
    assert assigned_devices(node(TWO), device_annotations(node(TWO), devices)) == devices
    for text in ("gpu-c,V100,1,1:;", "gpu-a,V100,x,1:", "gpu-a:", "junk"):
        assert assigned_devices(node(TWO), {ASSIGNED: text}) == ()
    all_of_one = {ASSIGNED: "gpu-a,V100,600,100:;"}
    assert assigned_devices(node(TWO), all_of_one) == (("vgpu/0", (10, 600, 100)),)
    whole = (("gpu/0", (ENDLESS, 8, 100)), ("gpu/1", (1, 3, 0)))
    assert device_annotations(node(gpus=2), whole) == {GPU_INDEX: "0,1"}
    assert device_annotations(node(), (("vgpu/0", (1, 1, 1)),)) == {}, "the node has it no more"


def test_devices_are_joined_by_name() -> None:
    assert joined_devices([("b", (1,)), ("a", [2, 3]), ("b", (4, 5))]) == (
        ("a", (2, 3)),
        ("b", (5, 5)),
    )
    wrong = ["", "x" * 129, "a\0b", "port/TCP/80"]
    for name in wrong:
        with pytest.raises(ValueError, match="no name of a device"):
            joined_devices([(name, (1,))])
    for amounts in ((), (1,) * (DIMENSIONS + 1), (-1,), (2**53,)):
        with pytest.raises(ValueError, match="gpu/0: write"):
            joined_devices([("gpu/0", amounts)])
