"""KAI's policies: what is read, which dialect a file is of, and all mistakes at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.policy.dialect import parse_policy
from shared.policy.file import unwrap
from shared.policy.kai_names import ACTIONS, DEFAULT_PLUGINS
from shared.policy.model import Dialect, Policy, PolicyError, PolicyProblem


def kai(text: str = "") -> Policy:
    policy = parse_policy(f"dialect: kai\n{text}")
    assert policy.dialect is Dialect.KAI
    return policy


def problems(text: str) -> list[PolicyProblem]:
    with pytest.raises(PolicyError) as caught:
        unwrap(text).parse()
    return list(caught.value.problems)


def names(policy: Policy) -> list[str]:
    (tier,) = policy.tiers
    return [option.name for option in tier]


# --- what a policy means --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "actions: ''", "tiers: []", "actions:\ntiers:\noptions:"])
def test_without_actions_or_tiers_it_is_kais_default(text: str) -> None:
    policy = kai(text)
    assert policy.actions == ACTIONS
    assert names(policy) == list(DEFAULT_PLUGINS)


def test_tiers_are_one_list_and_arguments_are_text() -> None:
    policy = kai(
        """
actions: "allocate, reclaim, stalegangeviction"
tiers:
- plugins:
  - name: proportion
    arguments: {kValue: "0.5"}
- plugins:
  - name: nodeplacement
    arguments: {gpu: spread, cpu: binpack}
    disableNodeOrder: true
queueDepthPerAction: {reclaim: 10}
scenarioSearchBudgets:
  maxActionSearchDuration: {default: 1m, reclaim: 30s}
  minJobSearchDuration: 0
  maxGeneratorSearchDuration: {NodeLocalGreedy: 0s}
options:
  partition-label-value: blue
  full-hierarchy-fairness: "false"
  default-staleness-grace-period: -1s
  schedule-period: 1s
  qps: 100
"""
    )
    assert names(policy) == ["proportion", "nodeplacement"]
    assert policy.tiers[0][0].arguments == {"kValue": 0.5}
    assert policy.kai is not None
    options, budgets = policy.kai.options, policy.kai.budgets
    assert (options.partition_label_value, options.full_hierarchy_fairness) == ("blue", False)
    assert (options.default_staleness_grace_period, options.use_scheduling_signatures) == (-1, True)
    assert policy.kai.queue_depth == {"reclaim": 10}
    assert (budgets.action, budgets.actions, budgets.job) == (60, {"reclaim": 30}, 240)
    assert budgets.generators == {"NodeLocalGreedy": 0, "MultiNodeGang": 120}
    switch, unread = policy.warnings
    assert "disableNodeOrder: KAI never reads it" in switch
    assert unread.startswith("option qps has no effect here")


def test_every_policy_of_the_oracle_is_read(shared_reference: Path) -> None:
    for file in sorted((shared_reference / "conformance" / "kai").glob("*.json")):
        document = json.loads(file.read_text())
        for scenario in document["scenarios"] if isinstance(document, dict) else document:
            policy = parse_policy(scenario["policy"])
            assert policy.dialect is Dialect.KAI, scenario["id"]
            written = [p["name"] for tier in scenario["policy"]["tiers"] for p in tier["plugins"]]
            assert names(policy) == written


# --- which dialect --------------------------------------------------------------------------------

SHARED = (
    "actions: 'allocate, preempt'\ntiers: [{plugins: [{name: predicates}, {name: priority}]}]\n"
)


@pytest.mark.parametrize(
    ("text", "dialect", "because"),
    [
        (SHARED, Dialect.VOLCANO, "no word of it is KAI's alone"),
        (SHARED + "dialect: kai", Dialect.KAI, "dialect: kai: the file says so"),
        (SHARED + "dialect: volcano", Dialect.VOLCANO, "dialect: volcano: the file says so"),
        (SHARED + "options: {}", Dialect.KAI, "field options: only KAI has it"),
        (SHARED + "configurations: []", Dialect.VOLCANO, "field configurations: only Volcano"),
        ("actions: 'allocate, consolidation'", Dialect.KAI, "action consolidation"),
        ("tiers: [{plugins: [{name: gpupack}]}]", Dialect.KAI, "plugin gpupack"),
        (
            "tiers: [{plugins: [{name: proportion, arguments: {kValue: '1'}}]}]",
            Dialect.KAI,
            "argument kValue",
        ),
    ],
)
def test_a_word_that_only_one_has_decides(text: str, dialect: Dialect, because: str) -> None:
    policy = parse_policy(text)
    assert policy.dialect is dialect
    assert policy.dialect_because.startswith(because)


def test_words_of_both_are_refused_with_both_named() -> None:
    (problem,) = problems(
        "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: gpupack}]}]"
    )
    assert problem.field == "actions"
    assert "action enqueue is Volcano's" in problem.message
    assert "plugin gpupack (tiers[0].plugins[1].name) is KAI's" in problem.message


def test_a_dialect_that_the_words_deny_is_refused() -> None:
    (problem,) = problems("dialect: volcano\nactions: consolidation")
    assert "dialect: volcano is Volcano's and action consolidation" in problem.message
    (unknown,) = problems("dialect: kay\nactions: allocate")
    assert (unknown.field, unknown.nearest) == ("dialect", "kai")


# --- mistakes -------------------------------------------------------------------------------------

SPOILT = """
dialect: kai
actions: "allocate, consolidate"
queueDepthPerActions: {}
queueDepthPerAction: {reclaim: 0}
tiers:
- plugins:
  - name: proportions
  - name: numa
  - name: gpupack
    arguments: {weight: 1}
  - name: gpupack
  - name: nodeplacement
    arguments: {gpu: packed}
  - name: minruntime
    arguments: {defaultPreemptMinRuntime: soon}
  - name: proportion
    arguments: {relcaimerSaturationMultiplier: "0.5", kValues: "1"}
options:
  scheduler-names: x
  leader-elect: true
  stuck-in-releasing-threshold: 2 minutes
scenarioSearchBudgets:
  maxJobSearchDuration: never
  maxGeneratorSearchDuration: {NodeGreedy: 1s}
"""


def test_all_mistakes_are_told_at_once() -> None:
    assert {problem.field: problem.nearest for problem in problems(SPOILT)} == {
        "queueDepthPerActions": "queueDepthPerAction",
        "actions": "consolidation",
        "queueDepthPerAction.reclaim": "",
        "tiers[0].plugins[0].name": "proportion",
        "tiers[0].plugins[1].name": "",
        "tiers[0].plugins[2].arguments": "",
        "tiers[0].plugins[3].name": "",
        "tiers[0].plugins[4].arguments.gpu": "",
        "tiers[0].plugins[5].arguments.defaultPreemptMinRuntime": "",
        "tiers[0].plugins[6].arguments": "kValue",
        "tiers[0].plugins[6].arguments.relcaimerSaturationMultiplier": "",
        "options.scheduler-names": "scheduler-name",
        "options.leader-elect": "",
        "options.stuck-in-releasing-threshold": "",
        "scenarioSearchBudgets.maxJobSearchDuration": "",
        "scenarioSearchBudgets.maxGeneratorSearchDuration": "NodeLocalGreedy",
    }


def test_numa_is_refused_as_not_in_this_version() -> None:
    (problem,) = problems("tiers: [{plugins: [{name: numa}]}]")
    assert "KAI's, but not in this version" in problem.message


# --- what contains a policy -----------------------------------------------------------------------

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kai-scheduler-default, namespace: kai-scheduler}
data:
  config.yaml: |
    actions: allocate, reclaim
    tiers: [{plugins: [{name: predicates}, {name: gpupack}]}]
"""


def test_a_config_map_has_it_at_config_yaml() -> None:
    source = unwrap(CONFIG_MAP)
    assert source.holder == "ConfigMap kai-scheduler/kai-scheduler-default, key config.yaml"
    assert source.parse().actions == ("allocate", "reclaim")


def test_two_policies_in_one_config_map_are_refused() -> None:
    (problem,) = problems(CONFIG_MAP + "  volcano-scheduler.conf: 'actions: allocate'\n")
    assert "config.yaml and volcano-scheduler.conf both hold a policy" in problem.message


SHARD = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: blue}\nspec:\n"


def test_a_shard_is_rendered_as_the_operator_does() -> None:
    source = unwrap(SHARD + "  {}")
    policy = source.parse()
    assert source.holder == "SchedulingShard blue"
    assert policy.actions == ACTIONS
    assert names(policy)[:4] == ["predicates", "proportion", "priority", "nodeavailability"]
    assert names(policy)[-4:] == ["sg-multinodegang", "gpupack", "nodeplacement", "gpusharingorder"]
    placement = next(o for o in policy.tiers[0] if o.name == "nodeplacement")
    assert placement.arguments == {"cpu": "binpack", "gpu": "binpack"}


def test_a_shard_that_spreads_does_not_consolidate() -> None:
    policy = unwrap(SHARD + "  placementStrategy: {gpu: spread}").parse()
    assert "consolidation" not in policy.actions
    assert "gpuspread" in names(policy)
    assert not {"gpupack", "gpusharingorder"} & set(names(policy))


def test_a_scheduling_shard_overrides_the_default_policy() -> None:
    policy = unwrap(
        SHARD
        + """
  args: {use-scheduling-signatures: "false"}
  partitionLabelValue: blue
  kValue: 0.5
  minRuntime: {reclaimMinRuntime: 5m}
  queueDepthPerAction: {reclaim: 3}
  plugins:
    snapshot: {enabled: false}
    gpusharingorder: {priority: 5000}
    reflectjoborder: {}
  actions:
    preempt: {enabled: false}
"""
    ).parse()
    assert policy.kai is not None
    assert policy.kai.options.partition_label_value == "blue"
    assert not policy.kai.options.use_scheduling_signatures
    assert policy.kai.queue_depth == {"reclaim": 3}
    assert "preempt" not in policy.actions
    assert names(policy)[0] == "gpusharingorder"
    assert names(policy)[-1] == "reflectjoborder"
    assert "snapshot" not in names(policy)
    arguments = {option.name: option.arguments for option in policy.tiers[0]}
    assert arguments["proportion"] == {"kValue": 0.5}
    assert arguments["minruntime"] == {"defaultReclaimMinRuntime": "5m"}


def test_mistakes_of_a_shard_are_told_at_its_own_fields() -> None:
    form = problems(
        SHARD
        + """
  placementStrategy: {gpu: pack}
  plugin: {}
  plugins: {gpupacks: {}, proportion: {enable: true}}
  actions: {reclaims: {enabled: false}}
"""
    )
    assert [problem.field for problem in form] == [
        "spec.plugin",
        "spec.placementStrategy.gpu",
        "spec.plugins.gpupacks",
        "spec.plugins.proportion.enable",
        "spec.actions.reclaims",
    ]
    values = problems(
        SHARD
        + """
  args: {leader-elect: "true"}
  plugins: {numa: {}, proportion: {arguments: {kValue: much}}}
"""
    )
    assert [problem.field for problem in values] == [
        "spec.plugins.proportion.arguments.kValue",
        "spec.plugins.numa.name",
        "spec.args.leader-elect",
    ]
