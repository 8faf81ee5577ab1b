"""Clusters as nobody should have them, and some do: a session over them, by the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from laboratory.replay.scenario import ScenarioError, read_scenario, replay

Json = dict[str, Any]
TREE = {"name": "capacity", "enableHierarchy": True}


def policy(*plugins: str | Json, actions: str = "allocate, backfill") -> Json:
    named = [{"name": plugin} if isinstance(plugin, str) else plugin for plugin in plugins]
    return {"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, *named]}]}


def queue(name: str, *, state: str | None = "Open", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": state}}


def pod(name: str, *, cpu: str = "1", nominated: str = "") -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {"scheduling.k8s.io/group-name": "g"},
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu} if cpu else {}}}]},
        "status": {"phase": "Pending", "nominatedNodeName": nominated},
    }


def session(
    rules: Json, queues: list[Json], pods: list[Json], *, groups: Sequence[Json] = (), **group: Any
) -> Json:
    return replay(scenario_of(rules, queues, pods, groups=groups, **group)).as_json()


def scenario_of(
    rules: Json, queues: list[Json], pods: list[Json], *, groups: Sequence[Json] = (), **group: Any
) -> Json:
    node = {
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    first = {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"minMember": 1, "queue": "q", **group},
        "status": {"phase": "Inqueue"},
    }
    cluster = {"nodes": [node], "queues": queues, "podGroups": [first, *groups], "pods": pods}
    return {"id": "odd", "policy": rules, "cluster": cluster}


@pytest.mark.parametrize(
    "queues",
    [
        [queue("q", parent="q")],
        [queue("q", parent="gone")],
        [queue("q", parent="p"), queue("p", parent="r"), queue("r", parent="p")],
    ],
    ids=["itself", "unknown", "circle"],
)
def test_a_tree_of_queues_that_is_none_gives_nothing(queues: list[Json]) -> None:
    assert session(policy(TREE), queues, [pod("a")])["binds"] == {}


def test_rules_without_a_tree_ask_for_no_parent() -> None:
    queues = [queue("q", parent="gone"), queue("p", parent="q")]
    assert session(policy("proportion"), queues, [pod("a")])["binds"] == {"ns/a": "n1"}


@pytest.mark.parametrize("rule", ["proportion", "capacity"])
def test_no_cpu_at_all_is_no_limit(rule: str) -> None:
    queues = [queue("q", capability={"cpu": "0", "memory": "4Gi"})]
    assert session(policy(rule), queues, [pod("a")])["binds"] == {"ns/a": "n1"}


@pytest.mark.parametrize("cpu", ["1", ""], ids=["allocate", "backfill"])
def test_a_limit_of_pods_is_not_looked_at(cpu: str) -> None:
    queues = [queue("q", capability={"cpu": "4", "memory": "8Gi", "pods": "1"})]
    session_result = session(policy("capacity"), queues, [pod("a", cpu=cpu), pod("b", cpu=cpu)])
    assert len(session_result["binds"]) == 2


def test_a_guarantee_above_the_capability_is_allocated() -> None:
    queues = [queue("q", capability={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}})]
    session_result = session(policy("proportion"), queues, [pod("a"), pod("b"), pod("c")])
    assert len(session_result["binds"]) == 2


@pytest.mark.parametrize("rule", ["proportion", "capacity"])
def test_rules_without_a_tree_look_at_no_limit_of_a_parent(rule: str) -> None:
    queues = [queue("p", capability={"cpu": "1"}), queue("q", parent="p")]
    assert len(session(policy(rule), queues, [pod("a"), pod("b")])["binds"]) == 2


@pytest.mark.parametrize(("own", "bound"), [({}, 1), ({"cpu": "2"}, 2)], ids=["handed", "own"])
def test_a_limit_of_the_root_is_handed_down_where_a_queue_writes_none(
    own: Json, bound: int
) -> None:
    queues = [queue("root", capability={"cpu": "1"}), queue("q", parent="root", capability=own)]
    session_result = session(policy(TREE), queues, [pod("a"), pod("b"), pod("c")])
    assert len(session_result["binds"]) == bound


def test_a_queue_without_a_state_is_open() -> None:
    session_result = session(policy("proportion"), [queue("q", state="")], [pod("a")])
    assert session_result["binds"] == {"ns/a": "n1"}


def test_a_promised_node_that_is_no_name_leaves_out_that_pod_alone() -> None:
    scenario = scenario_of(policy(), [queue("q")], [pod("a", nominated="No Name"), pod("b")])
    (line,) = read_scenario(scenario).recorded.left_out
    assert line.startswith("left out: Pod ns/a: status.nominatedNodeName")
    assert replay(scenario).as_json()["binds"] == {"ns/b": "n1"}


def test_lists_may_be_left_empty() -> None:
    rules = policy() | {"configurations": []}
    cluster: Json = {"nodes": None, "queues": [], "podGroups": None}
    result = replay({"id": "empty", "policy": rules, "cluster": cluster}).as_json()
    assert result["binds"] == {} and result["tasks"] == {}
    mistakes: list[Any] = [{"n1": {}}, ["n1"], "n1"]
    for wrong in mistakes:
        with pytest.raises(ScenarioError, match=r"cluster\.nodes: not a list of objects"):
            replay({"id": "wrong", "policy": rules, "cluster": {"nodes": wrong}})


@pytest.mark.parametrize(("name", "gone"), [("system-node-critical", []), ("other", ["ns/a"])])
def test_the_name_of_a_system_class_protects_where_the_class_is_not_known(
    name: str, gone: list[str]
) -> None:
    running = pod("a", cpu="4")
    running["spec"] |= {"nodeName": "n1", "priorityClassName": name}
    running["status"]["phase"] = "Running"
    new = pod("c")
    new["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    other = {
        "metadata": {"name": "h", "namespace": "ns"},
        "spec": {"minMember": 1, "queue": "q"},
        "status": {"phase": "Inqueue"},
    }
    rules = policy("conformance", actions="preempt")
    session_result = session(rules, [queue("q")], [running, new], groups=[other], minMember=0)
    assert session_result["evicted"] == gone


def test_a_tier_without_gang_may_evict_below_the_minimum() -> None:
    """g has one of the three that it needs, and one that asks for nothing: gang lets none of it go,
    pdb, in the next tier, all."""
    rules = {
        "actions": "reclaim",
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "pdb"}]}],
    }
    full = pod("a", cpu="4")
    full["spec"]["nodeName"], full["status"]["phase"] = "n1", "Running"
    other = {
        "metadata": {"name": "h", "namespace": "ns"},
        "spec": {"minMember": 1, "queue": "p"},
        "status": {"phase": "Inqueue"},
    }
    new = pod("c")
    new["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "h"
    queues = [queue("q"), queue("p")]
    pods = [full, pod("b", cpu=""), new]
    session_result = session(rules, queues, pods, groups=[other], minMember=3)
    assert session_result["evicted"] == ["ns/a"]
