"""Workers with another wire format are refused, and their Ray nodes avoided for a while."""

from __future__ import annotations

import pytest

from coordinator.dispatch.worker_versions import (
    LONGEST_PAUSE,
    Introduction,
    RefusedNodes,
    address_of_unloadable,
    refusal,
    usable_nodes,
)
from shard_worker.worker.worker_version import WorkerVersion

OWN = WorkerVersion("1.1", 6, "abc")


def introduced(data: bytes) -> Introduction:
    return Introduction(data, "f00d", "10.0.0.7")


def test_a_worker_of_another_version_with_equal_wire_is_used() -> None:
    assert refusal(OWN, introduced(OWN.encode())) == ""
    assert refusal(OWN, introduced(WorkerVersion("0.9", 6, "abc").encode())) == ""


@pytest.mark.parametrize(
    ("data", "theirs"),
    [
        (WorkerVersion("1.1", 6, "abd").encode(), "version 1.1 (schema 6, wire abd)"),
        (WorkerVersion("1.0", 5, "abc").encode(), "version 1.0 (schema 5, wire abc)"),
        (b"", "a version that cannot tell which it is"),
        (b"nonsense", "a version that cannot tell which it is"),
    ],
)
def test_another_one_is_refused_in_one_sentence(data: bytes, theirs: str) -> None:
    assert refusal(OWN, introduced(data)) == (
        f"the worker on Ray node 10.0.0.7 is {theirs}, and this coordinator is version 1.1 "
        "(schema 6, wire abc): replace that Ray node by one of the coordinator's image "
        "(Ray's id of it: f00d)"
    )


def test_a_worker_that_ray_cannot_load_is_of_another_version() -> None:
    died = "ray::shard-1-3-0.1.0:ShardActor.__init__() (pid=9386, ip=10.0.0.7, actor_id=7e44)\n"
    because = (
        "RuntimeError: The actor with name ShardActor failed to import on the worker. This may"
    )
    assert address_of_unloadable(f"The actor died because of {died}{because}") == "10.0.0.7"
    assert address_of_unloadable(f"The actor died because of {died}its node died") == ""
    assert address_of_unloadable(because) == ""


def test_the_pause_after_a_refused_node_grows_up_to_a_limit() -> None:
    nodes, now = RefusedNodes(), 100.0
    pauses = []
    for _ in range(8):
        nodes.refuse("a", "why", now=now)
        assert nodes.avoided(now) == {"a"}
        nowhere = nodes.nowhere({"a"}, now=now)
        assert nowhere is not None
        pauses.append(nowhere[1])
        now += nowhere[1]
        assert nodes.avoided(now) == set()
        assert nodes.nowhere({"a"}, now=now) is None
    assert pauses == [1.0, 2.0, 4.0, 8.0, *[LONGEST_PAUSE] * 4]


def test_another_node_is_taken_at_once() -> None:
    nodes = RefusedNodes()
    nodes.refuse("a", "why a", now=0.0)
    assert nodes.nowhere({"a", "b"}, now=0.0) is None
    nodes.refuse("b", "why b", now=0.5)
    assert nodes.nowhere({"a", "b"}, now=0.5) == ("why a", 0.5), "the one that is due first"
    assert nodes.nowhere(set(), now=0.5) is None, "Ray has none at all: that is another failure"


def test_a_node_that_is_right_now_or_gone_begins_anew() -> None:
    nodes = RefusedNodes()
    for _ in range(3):
        nodes.refuse("a", "why", now=0.0)
        nodes.refuse("b", "why", now=0.0)
    nodes.accept("a")
    assert nodes.avoided(0.0) == {"b"}
    nodes.nowhere({"a"}, now=0.0)
    assert nodes.avoided(0.0) == set()
    nodes.refuse("a", "why", now=0.0)
    assert nodes.nowhere({"a"}, now=0.0) == ("why", 1.0)


def test_nodes_that_live_and_have_room_for_a_worker_are_usable() -> None:
    def node(name: str, *, alive: bool = True, **resources: float) -> dict[str, object]:
        return {"NodeID": name, "Alive": alive, "Resources": resources}

    listed = [node("head"), node("a", CPU=4.0), node("b", CPU=0.5), node("c", alive=False, CPU=4.0)]
    assert usable_nodes(listed, cpus=1.0) == {"a"}
    assert usable_nodes(listed, cpus=0.0) == {"head", "a", "b"}
