"""A node's devices are stored with it, and go with it."""

from __future__ import annotations

from typing import Any

from coordinator.intake.admission.result import Admission
from shared.ledger.entries.intake_batch import DropNode, PutNode
from shared.model.named_devices import DEVICES
from shared.model.node_devices import GPU_MEMORY, GPU_NUMBER, REGISTER
from shared.units.things import Things
from tests.builders.objects import node
from tests.coordinator.intake.bench import Bench

NONE = (0, 0, 0)


def with_devices(register: str) -> dict[str, Any]:
    node_item = node()
    node_item["metadata"]["annotations"] = {REGISTER: register}
    return node_item


def things(admission: Admission) -> list[Things]:
    return [op.things for op in admission.ops if isinstance(op, PutNode | DropNode)]


def test_declared_devices_are_stored_and_removed_ones_are_zeroed(bench: Bench) -> None:
    both = "a,10,8000,V100,true:b,10,8000,V100,true:"
    assert things(bench.take(with_devices(both))) == [
        (("vgpu/0", (10, 8000, 100)), ("vgpu/1", (10, 8000, 100)))
    ]
    assert things(bench.take(with_devices("a,10,4000,V100,true:"))) == [
        (("vgpu/0", (10, 4000, 100)), ("vgpu/1", NONE))
    ]
    assert things(bench.remove("Node", "n", "")) == [(("vgpu/0", NONE),)]
    assert things(bench.take(with_devices("a,10,4000,V100,true:"))) == [
        (("vgpu/0", (10, 4000, 100)),)
    ], "it comes back"


def test_resources_are_known_by_name_from_the_first_node_on(bench: Bench) -> None:
    node_item = node()
    node_item["status"]["allocatable"] |= {GPU_NUMBER: "2", GPU_MEMORY: "16"}
    (stored,) = things(bench.take(node_item))
    assert [(name, amounts[1]) for name, amounts in stored] == [("gpu/0", 8), ("gpu/1", 8)]


def test_devices_of_any_kind_are_named_by_an_annotation_of_ours(bench: Bench) -> None:
    node_item = node()
    node_item["metadata"]["annotations"] = {DEVICES: '{"card/0": 1000, "nic": [8, 25]}'}
    assert things(bench.take(node_item)) == [(("card/0", (1000,)), ("nic", (8, 25)))]
    node_item["metadata"]["annotations"] = {DEVICES: '{"card/0": 1000}'}
    assert things(bench.take(node_item)) == [(("card/0", (1000,)), ("nic", (0, 0)))]
    assert things(bench.remove("Node", "n", "")) == [(("card/0", (0,)),)]


def test_one_that_cannot_be_read_is_refused_with_its_field(bench: Bench) -> None:
    node_item = node()
    node_item["metadata"]["annotations"] = {DEVICES: '{"gpu/0": 1}'}
    (refusal,) = bench.admit(node_item).refused
    assert refusal.field == f"metadata.annotations.{DEVICES}"
    assert refusal.message == "names of gpu/ are not free; call it for example my-gpu/0"


def test_a_node_without_devices_names_none(bench: Bench) -> None:
    assert things(bench.take(node())) == [()]
