"""The comparison itself: what counts as the same outcome, what as a difference, what is drawn."""

from __future__ import annotations

import json
import os
import re
import shutil
from random import Random
from typing import Any

import pytest

from shared.codec.packed import replace
from tests.oracle.build import build, program
from tests.oracle.compare import KAI, VOLCANO, Peer, among, differences, variants
from tests.oracle.decided import decided
from tests.oracle.differences import Kind, kind_of
from tests.oracle.differences_kai import Kind as KaiKind
from tests.oracle.differences_kai import kind_of as kind_of_kai
from tests.oracle.drawn import drawn, scenario_of
from tests.oracle.drawn_kai import scenario_of_kai
from tests.oracle.outcome import Outcome
from tests.oracle.recorded import RecordedCase, explained_cases
from tests.oracle.variants import MOST_CHANGES, variant

LIVE = 150
"""Variants that CI holds against each peer's own code; ``make soak`` has thousands."""

FORM: dict[str, Any] = {
    "actions": "allocate",
    "tiers": [["gang"], ["predicates", "proportion"]],
    "nodes": {name: {"cpu": 2, "memory": 8, "pods": 10} for name in ("n0", "n1")},
    "queues": {"red": {"weight": 1}},
    "groups": [
        {
            "name": "a",
            "queue": "red",
            "min": 1,
            "priority": 0,
            "phase": "Inqueue",
            "pods": [{"times": 2, "cpu": 1, "memory": 1}, {"times": 1, "cpu": 2, "memory": 1}],
        }
    ],
}
SCENARIO = scenario_of("small", FORM)


def binds(**places: str) -> Outcome:
    return Outcome({f"ns/{pod.replace('_', '-')}": on for pod, on in places.items()}, [], {})


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        (binds(a_0_0="n1", a_0_1="n1", a_1_0="n0"), True),
        (binds(a_0_0="n0", a_0_1="n0", a_1_0="n1"), True),
        (binds(a_0_0="n0", a_0_1="n1"), False),
        (binds(a_0_0="n0", a_0_1="n0"), False),
    ],
    ids=["equal", "equal nodes exchanged", "other nodes", "fewer pods"],
)
def test_only_equal_nodes_and_pods_may_be_exchanged(ours: Outcome, same: bool) -> None:
    theirs = [binds(a_0_0="n1", a_0_1="n1", a_1_0="n0")]
    assert among(SCENARIO, ours, theirs) is same


def test_a_node_with_another_amount_is_not_exchanged() -> None:
    nodes = {**FORM["nodes"], "n1": {"cpu": 3, "memory": 8, "pods": 10}}
    scenario = scenario_of("unequal", {**FORM, "nodes": nodes})
    assert not among(scenario, binds(a_1_0="n0"), [binds(a_1_0="n1")])


def test_nodes_of_different_domains_are_not_mixed() -> None:
    nodes = dict.fromkeys(("n0", "n1", "n2", "n3"), FORM["nodes"]["n0"])
    racks = {"s0": ["n0", "n1"], "s1": ["n2", "n3"]}
    scenario = scenario_of("racks", {**FORM, "nodes": nodes, "racks": racks})
    together = binds(a_0_0="n0", a_0_1="n1")
    assert among(scenario, binds(a_0_0="n3", a_0_1="n2"), [together])
    assert not among(scenario, binds(a_0_0="n0", a_0_1="n2"), [together])


def test_what_is_worse_than_volcano_has_no_kind() -> None:
    ours = decided(SCENARIO, 0)
    assert len(ours.binds) == 3
    fewer = replace(ours, binds=dict(list(ours.binds.items())[:2]))
    assert kind_of(SCENARIO, fewer, [ours]) is None
    assert kind_of(SCENARIO, replace(ours, evicted=["ns/a-0-0"]), [ours]) is None


def test_promises_to_a_gang_that_cannot_start_are_a_kind() -> None:
    group = {**FORM["groups"][0], "min": 3}
    scenario = scenario_of("part", {**FORM, "actions": "preempt", "groups": [group]})
    nothing = Outcome({}, [], {})
    part = replace(nothing, pipelined={"ns/a-0-0": "n0"})
    assert kind_of(scenario, nothing, [part]) is Kind.PART_OF_A_GANG
    assert kind_of(scenario, nothing, [replace(nothing, binds={"ns/a-0-0": "n0"})]) is None


def test_fewer_victims_for_the_same_promises_are_a_kind() -> None:
    runs = {**FORM["groups"][0], "name": "b", "min": 0, "phase": "Running"}
    runs["pods"] = [{"times": 1, "cpu": 1, "memory": 1, "on": on} for on in ("n0", "n1")]
    groups = [FORM["groups"][0], runs]
    scenario = scenario_of("victims", {**FORM, "actions": "preempt", "groups": groups})
    one = Outcome({}, ["ns/b-0-0"], {"ns/a-1-0": "n0"}, {"ns/b": "Running"})
    both = replace(one, evicted=["ns/b-0-0", "ns/b-1-0"], phases={"ns/b": "Completed"})
    assert kind_of(scenario, one, [both]) is Kind.OTHER_VICTIMS
    assert kind_of(scenario, both, [one]) is None


@pytest.mark.parametrize(("gpus", "kind"), [(2, Kind.ALL_GUARANTEED), (1, None)])
def test_a_resource_that_guarantees_take_as_a_whole_is_a_kind(gpus: int, kind: Kind | None) -> None:
    runs = {**FORM["groups"][0], "name": "b", "min": 0, "phase": "Running"}
    runs["pods"] = [{"times": 1, "cpu": 1, "memory": 1, "gpu": 1, "on": "n0"}]
    guarantee = {"weight": 1, "guarantee": {"gpu": gpus}}
    form = {**FORM, "actions": "reclaim", "tiers": [["gang"], ["capacity"]]}
    form |= {"nodes": {"n0": {"cpu": 1, "memory": 8, "pods": 10, "gpu": 2}}}
    form |= {"queues": {"red": {"weight": 1}, "blue": guarantee}, "groups": [runs]}
    nothing = Outcome({}, [], {}, {"ns/b": "Running"})
    ours = replace(nothing, evicted=["ns/b-0-0"])
    assert kind_of(scenario_of("whole", form), ours, [nothing]) is kind


@pytest.mark.parametrize(("least", "kind"), [(2, Kind.FREE_ROOM), (3, None)])
def test_a_gang_made_whole_by_room_without_victims_is_a_kind(least: int, kind: Kind | None) -> None:
    runs = {**FORM["groups"][0], "name": "b", "min": 0, "phase": "Running"}
    runs["pods"] = [{"times": 1, "cpu": 2, "memory": 1, "on": "n0"}]
    groups = [{**FORM["groups"][0], "min": least}, runs]
    scenario = scenario_of("free", {**FORM, "actions": "reclaim", "groups": groups})
    nothing = Outcome({}, [], {})
    ours = replace(nothing, evicted=["ns/b-0-0"], pipelined={"ns/a-0-0": "n0", "ns/a-0-1": "n1"})
    assert kind_of(scenario, ours, [nothing]) is kind


def running_pods(case: RecordedCase) -> set[str]:
    pods = case.scenario["cluster"]["pods"]
    return {f"ns/{pod['metadata']['name']}" for pod in pods if "nodeName" in pod["spec"]}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.scenario["id"])
        for case in explained_cases(VOLCANO)
        if running_pods(case) and case.kind not in {"GUARANTEE_DESERVED", "SHARES_ABOVE"}
    ],
)
def test_victims_without_a_gain_have_no_kind(case: RecordedCase) -> None:
    for them in case.outcomes:
        ours = replace(them, binds={}, pipelined={}, evicted=sorted(running_pods(case)))
        assert kind_of(case.scenario, ours, case.outcomes) is None


KAI_FORM: dict[str, Any] = {
    "actions": "allocate, reclaim",
    "nodes": {"n0": {"cpu": 8, "gpu": 2}, "n1": {"cpu": 8, "gpu": 0}},
    "queues": {
        "north": {"quota": 2, "weight": 1},
        "red": {"parent": "north", "quota": 1, "weight": 1},
        "green": {"parent": "north", "quota": 1, "weight": 1},
    },
    "groups": [
        {
            "name": "a",
            "queue": "red",
            "min": 1,
            "class": "train",
            "pods": [{"times": 2, "cpu": 1, "gpu": 1, "on": "n0"}],
        },
        {
            "name": "b",
            "queue": "green",
            "min": 1,
            "class": "train",
            "pods": [{"times": 1, "cpu": 1, "gpu": 1}],
        },
    ],
}


def test_a_reclaim_of_kai_without_its_victim_has_no_kind() -> None:
    scenario = scenario_of_kai("reclaim", KAI_FORM)
    ours = decided(scenario, 0)
    assert (ours.evicted, ours.pipelined) == (["ns/a-0-1"], {"ns/b-0-0": "n0"})
    nothing = Outcome({}, [], {})
    assert kind_of_kai(scenario, nothing, [ours]) is None
    assert kind_of_kai(scenario, replace(ours, pipelined={}), [ours]) is None
    more = replace(ours, evicted=["ns/a-0-0", "ns/a-0-1"])
    assert kind_of_kai(scenario, more, [ours]) is None


@pytest.mark.parametrize("shared", [True, False])
def test_a_pod_without_gpus_on_a_node_without_a_share_is_a_kind_beside_one(shared: bool) -> None:
    gpus = {"percent": 50} if shared else {"gpu": 1}
    runs = {**KAI_FORM["groups"][0], "pods": [{"times": 1, "cpu": 1, "on": "n0", **gpus}]}
    waits = {**KAI_FORM["groups"][1], "pods": [{"times": 1, "cpu": 1, "gpu": 0}]}
    scenario = scenario_of_kai("drawn", {**KAI_FORM, "groups": [runs, waits]})
    ours = decided(scenario, 0)
    assert ours.binds == {"ns/b-0-0": "n1"}
    theirs = replace(ours, binds={"ns/b-0-0": "n0"})
    expected = KaiKind.DRAWN_BY_SHARES if shared else None
    assert kind_of_kai(scenario, ours, [theirs]) is expected


@pytest.mark.parametrize("shards", [0, 1, 2])
@pytest.mark.parametrize("quota", [2, 9], ids=["its queue refuses it", "no node has room"])
def test_a_turn_of_kai_ends_at_the_first_task_that_gets_nothing(quota: int, shards: int) -> None:
    """The second pod of ``a`` would fit; in KAI's own code, too, it waits behind the first."""
    pods = [{"times": 1, "cpu": 1, "gpu": 4}, {"times": 1, "cpu": 1, "gpu": 1}]
    first, second = KAI_FORM["groups"]
    groups = [{**first, "class": "build", "pods": pods}, {**second, "queue": "red"}]
    red = {"parent": "north", "quota": quota, "weight": 1}
    queues = {"north": {"quota": 9, "weight": 1}, "red": red}
    form = {**KAI_FORM, "actions": "allocate", "queues": queues, "groups": groups}
    assert decided(scenario_of_kai("first", form), shards).binds == {"ns/b-0-0": "n0"}


@pytest.mark.parametrize("shards", [0, 1, 2])
def test_a_queue_of_kai_is_compared_by_the_first_tasks_of_its_next_job(shards: int) -> None:
    """Both of ``a`` that come first ask for a GPU, so that the queue of ``b`` goes first; with the
    third, which asks for none, the queues would be equal, and the one of ``a`` go first."""
    pods = [{"times": 2, "cpu": 1, "gpu": 1}, {"times": 1, "cpu": 1, "gpu": 0}]
    first, second = KAI_FORM["groups"]
    groups = [{**first, "queue": "green", "min": 2, "pods": pods}, {**second, "queue": "red"}]
    form = {**KAI_FORM, "actions": "allocate", "groups": groups}
    assert decided(scenario_of_kai("compared", form), shards).binds == {"ns/b-0-0": "n0"}


@pytest.mark.parametrize("shards", [0, 1, 2])
def test_a_member_of_a_soft_gang_that_does_not_fit_beside_the_others_goes_elsewhere(
    shards: int,
) -> None:
    """The large one is tried before the last small one, where only the small one fits."""
    nodes = {"n0": {"cpu": 4, "memory": 8, "pods": 10}, "n1": {"cpu": 2, "memory": 8, "pods": 10}}
    small = {"times": 1, "cpu": 1, "memory": 1}
    pods = [small, {"times": 1, "cpu": 2, "memory": 4}, small]
    group = {**FORM["groups"][0], "pods": pods, "topology": ["soft", 1]}
    other = {**group, "name": "b", "min": 1, "phase": "Running"}
    other["pods"] = [{"times": 1, "cpu": 2, "memory": 1, "on": "n0"}]
    form = {**FORM, "nodes": nodes, "racks": {"s0": ["n0"], "s1": ["n1"]}}
    form |= {"tiers": [["gang"], ["predicates", "proportion", "network-topology-aware"]]}
    placed = decided(scenario_of("soft", {**form, "groups": [group, other]}), shards).binds
    assert len(placed) == 3
    assert placed["ns/a-0-0"] == placed["ns/a-2-0"] != placed["ns/a-1-0"]


def test_a_variant_changes_one_to_four_numbers_and_nothing_else() -> None:
    for seed in range(50):
        changed = variant(SCENARIO["cluster"], Random(seed))
        texts = (json.dumps(each, indent=0) for each in (SCENARIO["cluster"], changed))
        before, after = (text.splitlines() for text in texts)
        pairs = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert len(pairs) <= MOST_CHANGES
        assert all(re.sub(r"\d+", "", old) == re.sub(r"\d+", "", new) for old, new in pairs)


def test_the_same_seed_draws_the_same() -> None:
    assert drawn(Random("5")) == drawn(Random("5"))
    for peer in (VOLCANO, KAI):
        assert list(variants(peer, 20, seed=3)) == [
            *variants(peer, 10, seed=3),
            *variants(peer, 10, seed=3, first=10),
        ]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("peer", [pytest.param(VOLCANO, id="volcano"), pytest.param(KAI, id="kai")])
def test_random_variants_come_out_as_in_the_peer(peer: Peer) -> None:
    """Live, where Go is installed; .ci/run builds the programs before."""
    if shutil.which("go") is None and not program(peer.program).is_file():
        pytest.skip("no Go on this machine: the recorded set is what there is")
    seed = int(os.environ.get("ORACLE_SEED", "1"))
    scenarios = list(variants(peer, LIVE, seed=seed))
    unexplained = [
        (each.scenario["id"], each.ours, each.theirs[:3])
        for each in differences(peer, build(peer.program), scenarios)
        if each.kind is None
    ]
    assert unexplained == []
