"""Policies as Volcano ships them parse unchanged; every argument reads in the forms it takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shared.policy.dialect import parse_policy
from shared.policy.model import PluginOption, Policy, PolicyError, read_duration
from shared.policy.volcano_names import (
    ACTION_ARGUMENTS,
    ACTIONS_HERE,
    ARGUMENT_PREFIXES,
    ARGUMENTS,
    FLAGS,
    PLUGINS_HERE,
)

BUILT_IN = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
TESTS = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
    arguments:
      sla-waiting-time: 1h30m
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: "1.5"
  - name: drf
  - name: predicates
    arguments:
      predicate.VolumeBindingEnable: "true"
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
    arguments:
      weight: "10"
      hypernode.binpack.cpu: 5
      hypernode.binpack.resources: nvidia.com/gpu
      hypernode.binpack.resources.nvidia.com/gpu: 2
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
    minCandidateNodesPercentage: "20"
metrics:
  type: prometheus
  address: http://metrics.example:9090
  interval: 30s
"""


def plugins(policy: Policy) -> dict[str, PluginOption]:
    return {option.name: option for tier in policy.tiers for option in tier}


def test_volcanos_built_in_policy_parses() -> None:
    policy = parse_policy(BUILT_IN)
    assert policy.actions == ("enqueue", "allocate", "backfill")
    assert [len(tier) for tier in policy.tiers] == [3, 5]
    assert not policy.warnings


def test_the_policy_of_volcanos_chart_parses() -> None:
    plugin_names = plugins(parse_policy(CHART))
    assert [name for name, o in plugin_names.items() if not o.enabled("enablePreemptable")] == [
        "gang",
        "drf",
    ]


def test_the_policy_of_volcanos_tests_parses() -> None:
    policy = parse_policy(TESTS)
    plugin_names = plugins(policy)
    assert plugin_names["sla"].duration("sla-waiting-time", 0.0) == 5400.0
    assert plugin_names["overcommit"].number("overcommit-factor", 1.2) == 1.5
    assert plugin_names["predicates"].switch("predicate.VolumeBindingEnable", False) is True
    topology = plugin_names["network-topology-aware"]
    assert topology.whole("weight", 1) == 10
    assert topology.whole("hypernode.binpack.resources.nvidia.com/gpu", 1) == 2
    assert policy.configurations["preempt"] == {
        "enableTopologyAwarePreemption": True,
        "minCandidateNodesPercentage": 20,
    }
    assert policy.metrics is not None
    assert policy.metrics.address == "http://metrics.example:9090"


GOOD: dict[type, list[tuple[Any, Any]]] = {
    bool: [(True, True), ("false", False)],
    dict: [({"a": {"weight": 2}}, {"a": {"weight": 2}})],
    float: [(2, 2), (0.5, 0.5), ("0.5", 0.5)],
    int: [(3, 3), ("3", 3), (" 3 ", 3), (3.0, 3)],
    list: [([{"name": "x"}], [{"name": "x"}])],
    str: [("10m", "10m")],
}
BAD: dict[type, list[Any]] = {
    bool: [1, "yes", None],
    dict: [[], "a", 1],
    float: ["x", True, None, [1.0]],
    int: ["x", "1.5", 1.5, True, None],
    list: [{}, "a"],
    str: [1, True, {}],
}
EVERY = [
    (name, argument, kind)
    for name, table in (*ARGUMENTS.items(), *ARGUMENT_PREFIXES.items())
    for argument, kind in table.items()
]


@pytest.mark.parametrize(("name", "argument", "kind"), EVERY)
def test_every_argument_reads_as_its_type(name: str, argument: str, kind: type) -> None:
    key = f"{argument}mine" if argument.endswith(".") else argument

    def parsed(value: Any) -> object:
        plugin = {"name": name, "arguments": {key: value}}
        policy = parse_policy({"actions": "allocate", "tiers": [{"plugins": [plugin]}]})
        return plugins(policy)[name].arguments[key]

    for value, read in GOOD[kind]:
        assert parsed(value) == read
    for value in BAD[kind]:
        with pytest.raises(PolicyError, match=re.escape(key)):
            parsed(value)


def test_every_action_takes_its_configuration() -> None:
    assert set(ACTION_ARGUMENTS) < set(ACTIONS_HERE)
    text = "tiers: [{plugins: [{name: gang}]}]\nconfigurations: [{name: %s, arguments: {x: 1}}]"
    for action in ACTIONS_HERE:
        with pytest.raises(PolicyError, match="unknown argument 'x'"):
            parse_policy(f"actions: {action}\n{text % action}")


def test_durations_are_gos() -> None:
    assert read_duration("1h30m") == 5400.0
    assert read_duration("1.5s") == 1.5
    assert read_duration("300ms") == 0.3
    for tiny in ("2us", "2\u00b5s", "2000ns"):
        assert read_duration(tiny) == pytest.approx(2e-6)
    for wrong in ("", "5", "5 m", "m", "1m x", "-1m"):
        assert read_duration(wrong) is None


def test_the_words_of_the_description_are_all_known(shared_reference: Path) -> None:
    """Every switch, action and plugin that the description of Volcano names may be written."""
    text = (shared_reference / "spec" / "volcano.md").read_text()
    config = text[text.index("## 6. Scheduler config") : text.index("## 7. ")]
    named = set(re.findall(r"\benabled?[A-Z]\w+", config))
    assert len(named) > 20
    assert named <= FLAGS
    section = text[text.index("## 5. Plugins") : text.index("## 6. Scheduler config")]
    bold = {name for part in re.findall(r"\*\*([a-z, -]+)\*\*:", section) for name in [part]}
    assert {"gang", "capacity", "tdm", "resource-strategy-fit"} <= bold <= set(PLUGINS_HERE)
