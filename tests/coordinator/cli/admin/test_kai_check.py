"""``quadrant config check`` of KAI's policies: what counts, and every mistake of a spoilt one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.cli.conftest import Quadrant

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-default, namespace: kai-scheduler}
data:
  config.yaml: |
    actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
"""
SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec:
  placementStrategy: {gpu: spread, cpu: binpack}
  args: {default-staleness-grace-period: 30s}
"""
SPOILT = {
    "an action": ("actions: allocate, consolidate", "actions", "did you mean 'consolidation'"),
    "a plugin": (
        "tiers: [{plugins: [{name: proportions}]}]",
        "tiers[0].plugins[0].name",
        "did you mean 'proportion'",
    ),
    "an argument": (
        "tiers: [{plugins: [{name: proportion, arguments: {kvalue: 1}}]}]",
        "tiers[0].plugins[0].arguments",
        "did you mean 'kValue'",
    ),
    "a plugin twice": (
        "tiers: [{plugins: [{name: gpupack}, {name: gpupack}]}]",
        "tiers[0].plugins[1].name",
        "leave one of the two out",
    ),
    "an option": ("options: {queue-label: x}", "options.queue-label", "unknown option"),
    "an option of the process": (
        "options: {leader-elect: true}",
        "options.leader-elect",
        "quadrant up --standby",
    ),
    "a time": (
        "options: {stuck-in-releasing-threshold: soon}",
        "options.stuck-in-releasing-threshold",
        "write a duration such as 30s or 5m",
    ),
    "a depth": ("queueDepthPerAction: {reclaim: 0}", "queueDepthPerAction.reclaim", "at least 1"),
    "a budget": (
        "scenarioSearchBudgets: {maxJobSearchDuration: never}",
        "scenarioSearchBudgets.maxJobSearchDuration",
        "write a duration such as 30s or 5m",
    ),
    "a generator": (
        "scenarioSearchBudgets: {maxGeneratorSearchDuration: {NodeLocal: 1s}}",
        "scenarioSearchBudgets.maxGeneratorSearchDuration",
        "NodeLocalGreedy",
    ),
    "a plugin of another version": (
        "tiers: [{plugins: [{name: numa}]}]",
        "tiers[0].plugins[0].name",
        "not in this version",
    ),
}
"""The fault -> (the file, the field, words of the remedy)."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "dialect: kai\nusageDBConfig: {clientType: prometheus}\n",
            "what the ledger knows by itself",
        ),
        (CONFIG_MAP, "consolidation"),
        (
            "dialect: kai\nscenarioSearchBudgets: {maxJobSearchDuration: 1m}\n",
            "scenarioSearchBudgets: searches end by their number of scenarios",
        ),
        (SHARD, "gpuspread"),
    ],
    ids=["usage", "ConfigMap", "budgets", "SchedulingShard"],
)
def test_config_check_shows_the_settings_of_a_kai_policy(
    quadrant: Quadrant, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "kai.yaml"
    file.write_text(text)
    result = quadrant("config", "check", str(file))
    assert result.code == 0, result
    words = " ".join((result.out + result.err).split())
    assert "valid" in words
    assert "Dialect: KAI" in words
    assert message in words


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_one_is_refused_with_field_and_remedy(
    quadrant: Quadrant, tmp_path: Path, name: str
) -> None:
    text, field, remedy = SPOILT[name]
    file = tmp_path / "kai.yaml"
    file.write_text(f"dialect: kai\n{text}\nquoteDepth: 1\n")
    result = quadrant("config", "check", str(file))
    assert result.code == 1
    lines = result.err.splitlines()
    assert "2 mistakes" in lines[0], result.err
    assert any("quoteDepth: unknown field" in line for line in lines), result.err
    assert any(line.strip().startswith(f"{field}") and remedy in line for line in lines), result.err
