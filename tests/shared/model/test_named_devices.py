"""Devices of kinds that only a plugin knows, as nodes and pods have them in annotations."""

from __future__ import annotations

import pytest

from shared.model.model import Node
from shared.model.named_devices import (
    ASSIGNED_DEVICES,
    DEVICES,
    MOST_DEVICES,
    read_devices,
    written_devices,
)
from shared.model.node_devices import (
    ASSIGNED,
    REGISTER,
    assigned_devices,
    declared,
    device_annotations,
    none_left,
)

TWO = (("card/0", (1000,)), ("nic", (8, 25_000)))
TEXT = '{"card/0":1000,"nic":[8,25000]}'


def node(**annotations: str) -> Node:
    names = {"own": DEVICES, "volcanos": REGISTER}
    pairs = sorted((names[key], text) for key, text in annotations.items())
    return Node(0, "n", (), annotations=tuple(pairs))


def test_amounts_are_numbers_or_lists() -> None:
    assert read_devices('{"nic": [8, 25000], "card/0": [1000]}') == TWO
    assert read_devices(TEXT) == TWO
    assert written_devices(TWO) == TEXT


@pytest.mark.parametrize(
    "text, message",
    [
        ("card/0=1000", "no JSON"),
        ("[]", "not an object of at most 64 devices; write for example"),
        (str({f"c{n}": 1 for n in range(MOST_DEVICES + 1)}).replace("'", '"'), "at most 64"),
        ('{"": 1}', "'' is no name of a device"),
        ('{"a b": 1}', "'a b' is no name of a device"),
        (f'{{"{"a" * 129}": 1}}', "at most 128 letters"),
        ('{"gpu/0": 1}', "names of gpu/ are not free; call it for example my-gpu/0"),
        ('{"vgpu/0": 1}', "names of vgpu/ are not free"),
        ('{"port/TCP/80": 1}', "names of port/ are not free"),
        ('{"c": "1"}', "c: write one amount, or a list of up to 4"),
        ('{"c": true}', "whole numbers"),
        ('{"c": 1.5}', "whole numbers"),
        ('{"c": -1}', "whole numbers"),
        (f'{{"c": {2**53}}}', "whole numbers"),
        ('{"c": []}', "c: write one amount"),
        ('{"c": [1, 2, 3, 4, 5]}', "up to 4"),
        ('{"c": [0, 0]}', "not all of them 0"),
        ('{"c": null}', "c: write one amount"),
    ],
)
def test_unreadable_device_amounts_are_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        read_devices(text)


def test_a_node_declares_them_beside_volcanos() -> None:
    machine = node(own=TEXT, volcanos="gpu-a,10,8000,V100,true:")
    assert declared(machine, ()) == (*TWO, ("vgpu/0", (10, 8000, 100)))
    assert none_left(machine, ()) == (
        ("card/0", (0,)),
        ("nic", (0, 0)),
        ("vgpu/0", (0, 0, 0)),
    )
    assert declared(node(own='{"nic": 4}'), (), before=machine) == (
        ("card/0", (0,)),
        ("nic", (4,)),
        ("vgpu/0", (0, 0, 0)),
    )
    assert declared(node(own="none"), ()) == ()


def test_a_pod_is_told_of_each_in_its_own_way_and_read_back() -> None:
    machine = node(own=TEXT, volcanos="gpu-a,10,8000,V100,true:")
    devices = (("card/0", (400,)), ("vgpu/0", (1, 600, 30)))
    report = device_annotations(machine, devices)
    assert report[ASSIGNED_DEVICES] == '{"card/0":400}'
    assert report[ASSIGNED] == "gpu-a,V100,600,30:;"
    assert assigned_devices(machine, report) == devices
    assert assigned_devices(node(own='{"nic": 1}'), report) == (), "the node has them no more"
    assert assigned_devices(machine, {ASSIGNED_DEVICES: "none"}) == ()
    assert ASSIGNED_DEVICES not in device_annotations(machine, devices[1:])
