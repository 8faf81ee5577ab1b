"""Devices of a running pod, by its own marks."""

from __future__ import annotations

import pytest

from coordinator.bind.devices_of_pod import devices_of_pod
from shared.model.gpu_request import WHOLE
from shared.model.kai_devices import labels_of, shared_groups, with_gpus
from shared.model.model import Node, Role
from shared.model.named_devices import ASSIGNED_DEVICES, written_devices
from shared.model.node_devices import ASSIGNED, REGISTER
from shared.units.things import Things

NAMES = ("cpu", "memory", "nvidia.com/gpu", "volcano.sh/gpu-number", "volcano.sh/gpu-memory")
VGPUS = "gpu-a,10,8000,V100,true:gpu-b,10,6000,V100,true:"
HALF = Role("pod", 0, 0, 1, annotations=(("gpu-fraction", "0.5"),))
PLAIN = Role("pod", 0, 0, 1)


def kai_node() -> Node:
    marks = with_gpus((), [("nvidia.com/gpu", 2000)])
    return Node(0, "n", allocatable=((2, 2000),), annotations=marks)


def vgpu_node() -> Node:
    amounts = ((3, 2000), (4, 16_000_000))
    return Node(0, "n", allocatable=amounts, annotations=((REGISTER, VGPUS),))


@pytest.mark.parametrize(
    ("node", "devices"),
    [
        (kai_node(), (("kai-gpu/0", (WHOLE,)), ("kai-gpu/1", (WHOLE // 2,)))),
        (vgpu_node(), (("gpu/1", (1, 3000, 0)), ("vgpu/0", (1, 600, 10)))),
    ],
)
def test_assigned_devices_annotation_is_read_back(node: Node, devices: Things) -> None:
    marks = {ASSIGNED_DEVICES: written_devices(devices)}
    assert devices_of_pod(node, marks, PLAIN, NAMES) == devices


def test_shares_written_by_kais_binder_are_read_by_their_groups() -> None:
    share: Things = (("kai-gpu/1", (WHOLE // 2,)),)
    marks = labels_of(shared_groups(share, "n"))
    assert devices_of_pod(kai_node(), marks, HALF, NAMES) == share
    assert devices_of_pod(kai_node(), marks, PLAIN, NAMES) == ()
    elsewhere = labels_of(shared_groups(share, "another"))
    assert devices_of_pod(kai_node(), elsewhere, HALF, NAMES) == ()


def test_volcanos_device_annotation_is_read_too() -> None:
    marks = {ASSIGNED: "gpu-b,V100,600,10:;"}
    assert devices_of_pod(vgpu_node(), marks, PLAIN, NAMES) == (("vgpu/1", (1, 600, 10)),)


@pytest.mark.parametrize(
    "text",
    [
        "junk",
        "[]",
        "3",
        '{"kai-gpu/0": "all"}',
        '{"kai-gpu/0": -1}',
        f'{{"kai-gpu/0": {WHOLE + 1}}}',
        '{"kai-gpu/0": [1, 1]}',
        '{"kai-gpu/9": 1}',
        '{"port/TCP/80": 1}',
    ],
)
def test_devices_impossible_on_the_node_are_ignored(text: str) -> None:
    assert devices_of_pod(kai_node(), {ASSIGNED_DEVICES: text}, PLAIN, NAMES) == ()
