"""Reading the policy file: what it means, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.registry import PLUGINS
from shard_worker.framework.extension_points import EXTENSION_POINTS
from shared.policy.dialect import parse_policy
from shared.policy.model import PluginOption, PolicyError
from shared.policy.volcano import DEFAULT_POLICY
from shared.policy.volcano_names import FLAGS, PLUGINS_HERE

ORDINARY = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: nodeorder
    arguments:
      leastrequested.weight: 5
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: true
"""


def refused(text: str | dict[str, object]) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    return str(caught.value)


def with_plugin(**plugin: object) -> dict[str, object]:
    return {"actions": "allocate", "tiers": [{"plugins": [plugin]}]}


def test_an_ordinary_file() -> None:
    policy = parse_policy(ORDINARY)
    assert policy.actions == ("allocate",)
    assert [[option.name for option in tier] for tier in policy.tiers] == [
        ["priority", "gang"],
        ["nodeorder"],
    ]
    assert policy.tiers[0][1].flags == {"enablePreemptable": False}
    assert policy.tiers[1][0].arguments == {"leastrequested.weight": 5}
    assert policy.configurations == {"allocate": {"predicateErrorCacheEnable": True}}


def test_text_and_mapping_mean_the_same() -> None:
    assert parse_policy(ORDINARY) == parse_policy(yaml.safe_load(ORDINARY))


def test_the_default_policy_is_what_its_text_would_say() -> None:
    """It is Volcano's own, and the one that the manifests ship."""
    text = """
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins: [{name: priority}, {name: gang}, {name: conformance}]
    - plugins:
      - {name: overcommit}
      - {name: drf}
      - {name: predicates}
      - {name: proportion}
      - {name: nodeorder}
    """
    assert parse_policy(text) == DEFAULT_POLICY
    shipped = Path(__file__).parents[3] / "k8s" / "base" / "policy.yaml"
    assert parse_policy(shipped.read_text("utf-8")) == DEFAULT_POLICY
    assert open_session(DEFAULT_POLICY).warnings == []


def test_switches_are_on_unless_volcano_has_them_off() -> None:
    option = PluginOption("gang")
    assert {flag for flag in FLAGS if not option.enabled(flag)} == {
        "enableHierarchy",
        "enabledClusterOrder",
    }
    assert PluginOption("drf", flags={"enableHierarchy": True}).enabled("enableHierarchy")


def test_every_flag_of_an_extension_point_may_be_written() -> None:
    flags = {point.flag for point in EXTENSION_POINTS.values() if point.flag}
    assert flags <= FLAGS


def test_every_plugin_that_may_be_named_can_be_made() -> None:
    assert set(PLUGINS) == set(PLUGINS_HERE)
    for name, make in PLUGINS.items():
        assert make(PluginOption(name)).name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("actions: allocat\ntiers: [{plugins: [{name: gang}]}]", "did you mean 'allocate'"),
        ("actions: ''\ntiers: [{plugins: [{name: gang}]}]", "actions: names none"),
        ("actions: [allocate]\ntiers: [{plugins: [{name: gang}]}]", "is not text"),
        ("actions: allocate", "tiers: nothing is not a list"),
        ("actions: allocate\ntiers: []", "tiers: [] is not a list"),
        ("actions: allocate\ntier: []", "tier: unknown field; did you mean 'tiers'"),
        ("actions: allocate\ntiers: [{plugins: []}]", "tiers[0].plugins: []"),
        ("actions: allocate\ntiers: [{plugins: [{}]}]", "tiers[0].plugins[0].name: nothing"),
        ("[1, 2]", "the policy: [1, 2] is not a mapping"),
        ("", "the policy: nothing is not a mapping"),
        ("actions: {", "the policy is not YAML at line"),
    ],
)
def test_a_malformed_file_is_refused_by_field(text: str, words: str) -> None:
    assert words in refused(text)


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ({"name": "gnag"}, "tiers[0].plugins[0].name: unknown plugin 'gnag'; did you mean 'gang'"),
        ({"name": "zzz"}, "this version has: binpack, capacity, cdp, conformance"),
        (
            {"name": "gang", "enabledJobReady": True},
            "tiers[0].plugins[0].enabledJobReady: unknown switch; did you mean 'enableJobReady'",
        ),
        ({"name": "gang", "enableJobReady": "yes"}, "enableJobReady: 'yes' is not true or false"),
        ({"name": "gang", "arguments": {"x": 1}}, "unknown argument 'x'; it takes no arguments"),
        (
            {"name": "nodeorder", "arguments": {"leastrequest.weight": 1}},
            "unknown argument 'leastrequest.weight'; did you mean 'leastrequested.weight'",
        ),
        (
            {"name": "nodeorder", "arguments": {"leastrequested.weight": "one"}},
            "arguments.leastrequested.weight: 'one' is not a whole number",
        ),
        (
            {"name": "nodeorder", "arguments": {"leastrequested.weight": True}},
            "arguments.leastrequested.weight: True is not a whole number",
        ),
        (
            {"name": "predicates", "arguments": {"predicate.CacheEnable": 1}},
            "arguments.predicate.CacheEnable: 1 is not true or false",
        ),
        ({"name": "binpack", "arguments": {"binpack.resources.": 1}}, "unknown argument"),
        ({"name": "gang", "arguments": [1]}, "arguments: [1] is not a mapping"),
    ],
)
def test_a_malformed_plugin_is_refused_by_field(plugin: dict[str, object], words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(with_plugin(**plugin))
    assert words in str(caught.value)


def test_a_plugin_may_be_named_once() -> None:
    policy = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "gang"}]}],
    }
    with pytest.raises(
        PolicyError, match=r"tiers\[1\]\.plugins\[0\]\.name: plugin 'gang' is named"
    ):
        parse_policy(policy)


def test_configurations_are_strict_too() -> None:
    assert "configurations[0].arguments: unknown argument 'predicateErrorCache'" in refused(
        ORDINARY.replace("predicateErrorCacheEnable", "predicateErrorCache")
    )


def test_a_check_that_cannot_be_switched_off_is_reported() -> None:
    arguments = {"predicate.PodAffinityEnable": False, "predicate.NodePortsEnable": False}
    session = open_session(parse_policy(with_plugin(name="predicates", arguments=arguments)))
    assert session.warnings == [
        "predicates: predicate.NodePortsEnable: host ports are always checked"
    ]


def test_a_source_of_metrics_needs_an_address() -> None:
    words = refused({**with_plugin(name="gang"), "metrics": {"type": "prometheus"}})
    assert "metrics.address: None is not the address of a server" in words


def test_hierarchical_drf_beside_proportion_is_refused() -> None:
    both = [{"name": "drf", "enableHierarchy": True}, {"name": "proportion"}]
    with pytest.raises(PolicyError, match="enableHierarchy and the plugin proportion"):
        open_session(parse_policy({"actions": "allocate", "tiers": [{"plugins": both}]}))
    open_session(parse_policy({"actions": "allocate", "tiers": [{"plugins": both[:1]}]}))
