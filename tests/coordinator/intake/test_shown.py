"""Applying an object as the server shows it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from shared.messages.messages import TaskState
from tests.builders.objects import EVERY_KIND, node, pod, pod_group, queue, stored_kind
from tests.coordinator.objects.world import World

CLOSED = queue("closed", state="Closed")
CAPACITY = node("big", labels={"zone": "b"})
CAPACITY["status"] = {"capacity": {"cpu": "8", "pods": "9"}}
OBJECTS = [*EVERY_KIND, CLOSED, CAPACITY, pod_group("waits", queue="none"), pod("alone")]


def object_of(world: World, obj: dict[str, Any]) -> dict[str, Any]:
    namespace = obj["metadata"].get("namespace", "")
    return world.get(stored_kind(obj), obj["metadata"]["name"], namespace)


@pytest.fixture
def world() -> World:
    """Every kind, some of it placed and running."""
    world = World()
    world.put(*OBJECTS)
    world.place(row=world.intake.registry.nodes["n"].row)
    jid = world.jid("Pod", "alone")
    world.record(TaskState.BOUND, jid, [0])
    world.record(TaskState.RUNNING, jid, [0])
    return world


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda o: f"{o['kind']}-{o['metadata']['name']}")
def test_an_object_as_it_is_shown_says_nothing_new(world: World, obj: dict[str, Any]) -> None:
    again = world.intake.admit([object_of(world, obj)], 2_000_000.0)
    assert again.refused == []
    assert (again.unchanged, again.ops, again.documents, again.jobs) == (1, [], [], [])


def test_the_pod_that_runs_is_shown_on_its_node(world: World) -> None:
    """The test above means something."""
    assert object_of(world, pod("alone"))["spec"]["nodeName"] == "n"
    assert object_of(world, pod("alone"))["status"]["phase"] == "Running"
    assert "kubernetes.io/hostname" in object_of(world, node("n"))["metadata"]["labels"]


@pytest.mark.parametrize("obj", [pod("alone"), pod("p")], ids=["on another", "on none"])
def test_another_node_than_the_one_it_is_on_is_refused(world: World, obj: dict[str, Any]) -> None:
    other = object_of(world, obj)
    assert other["spec"].get("nodeName") in (None, "n")
    other["spec"]["nodeName"] = "big"
    again = world.intake.admit([other], 2_000_000.0)
    (refusal,) = again.refused
    assert (refusal.field, refusal.value) == ("spec.nodeName", "'big'")
    assert "leave it out" in refusal.message
    assert (again.documents, again.ops) == ([], [])


def test_a_change_of_defaulted_objects_counts_as_first_generation(world: World) -> None:
    for obj in OBJECTS:
        changed = object_of(world, obj)
        changed["metadata"].setdefault("annotations", {})["mine"] = "new"
        (document,) = world.intake.admit([changed], 2_000_000.0).documents
        assert document.generation == 1


def test_the_default_queue_as_it_is_shown(world: World) -> None:
    again = world.intake.admit([world.get("Queue", "default", "")], 2_000_000.0)
    assert (again.unchanged, again.documents) == (1, [])
