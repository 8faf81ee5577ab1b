"""``quadrant config check``: what a file means, and every mistake in one go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from coordinator.cli.admin.config import app
from coordinator.cli.admin.policy_report import report
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.extension_points import EXTENSION_POINTS
from shard_worker.session_model.demands import DEMANDS, PREFERENCES, Demand, Preference
from shared.policy.dialect import parse_policy
from shared.policy.file import unwrap
from shared.policy.model import PolicyError
from shared.policy.volcano import DEFAULT_POLICY
from shared.policy.volcano_names import ARGUMENTS

GOOD = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
    enableJobStarving: false
- plugins:
  - name: predicates
    arguments: {predicate.CacheEnable: true, predicate.PodAffinityEnable: true}
  - name: binpack
    arguments: {binpack.weight: 3}
"""

BAD = """
actions: "enqueue, allocat"
tiers:
- plugins:
  - name: gnag
  - name: gang
    enabledJobOrder: false
    enableJobReady: perhaps
- plugins:
  - name: nodeorder
    arguments: {leastrequest.weight: 3, mostrequested.weight: many}
  - name: drf
    enableHierarchy: true
  - name: gang
configurations:
- name: allocate
  arguments: {predicateErrorCache: true}
metrik: 1
"""


def config_map(data: dict[str, Any]) -> str:
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


def check(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["check", *arguments], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def checked(tmp_path: Path, text: str, code: int = 0) -> dict[str, Any]:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    body: dict[str, Any] = json.loads(check(str(file), "-o", "json", code=code))
    return body


def test_config_check_explains_a_valid_policy(tmp_path: Path) -> None:
    report = checked(tmp_path, GOOD)
    assert (report["kind"], report["valid"], report["errors"]) == ("PolicyCheck", True, [])
    assert report["actions"] == ["allocate"]
    (priority, gang), (predicates, binpack) = report["tiers"]
    assert priority["name"] == "priority"
    asked_by = {point["name"]: point["askedBy"] for point in gang["points"]}
    assert asked_by["JobOrder"] == "coordinator"
    assert asked_by["JobReady"] == "both"
    assert "JobStarving" not in asked_by
    assert gang["switchedOff"] == [{"name": "JobStarving", "switch": "enableJobStarving"}]
    assert {"name": "Predicate", "askedBy": "worker"} in predicates["points"]
    weights = {a["name"]: (a["value"], a["default"]) for a in binpack["arguments"]}
    assert weights["binpack.weight"] == (3, 1)
    assert weights["binpack.cpu"] == (1, 1)
    assert report["warnings"] == [
        "predicates: predicate.CacheEnable: has no effect in this version",
    ]
    lacking = {entry["field"]: entry["without"] for entry in report["notServed"]}
    assert lacking["networkTopology (mode hard)"] == "the job waits"
    assert lacking["hard"] == "jobs are admitted beyond it"
    for entry in (DEMANDS[Demand.POD_AFFINITY], PREFERENCES[Preference.GANG]):
        assert entry.field not in lacking


def test_a_switch_that_is_off_leaves_its_field_unserved(tmp_path: Path) -> None:
    text = GOOD.replace("predicate.PodAffinityEnable: true", "predicate.PodAffinityEnable: false")
    text = text.replace("enableJobStarving: false", "enableJobReady: false")
    lacking = {entry["field"] for entry in checked(tmp_path, text)["notServed"]}
    assert {"affinity.podAffinity, affinity.podAntiAffinity (required)"} < lacking
    assert PREFERENCES[Preference.GANG].field in lacking


def test_the_table_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    text = check(str(tmp_path / "p.yaml"))
    for word in ("valid", "Actions: allocate", "COORDINATOR ASKS", "JobReady", "enableJobStarving"):
        assert word in text
    assert "binpack.weight" in text
    assert "NOT SERVED" in text
    assert "Warning: predicates: predicate.CacheEnable" in text


def test_every_mistake_is_told_by_field_value_and_nearest_name(tmp_path: Path) -> None:
    errors = checked(tmp_path, BAD, code=1)["errors"]
    reports = {error["field"]: error for error in errors if error["field"] != "actions"}
    assert set(reports) == {
        "tiers[0].plugins[0].name",
        "tiers[0].plugins[1].enabledJobOrder",
        "tiers[0].plugins[1].enableJobReady",
        "tiers[1].plugins[0].arguments",
        "tiers[1].plugins[0].arguments.mostrequested.weight",
        "configurations[0].arguments",
        "metrik",
        "tiers[1].plugins[2].name",
    }
    assert reports["tiers[0].plugins[0].name"]["nearest"] == "gang"
    assert reports["tiers[0].plugins[1].enabledJobOrder"]["nearest"] == "enableJobOrder"
    assert reports["tiers[0].plugins[1].enableJobReady"]["value"] == "'perhaps'"
    assert reports["tiers[1].plugins[0].arguments"]["nearest"] == "leastrequested.weight"
    assert reports["metrik"]["nearest"] == "metrics"
    actions = [error for error in errors if error["field"] == "actions"]
    assert [error["nearest"] for error in actions] == ["allocate"]
    assert all(error["message"] for error in errors)


def test_an_argument_refused_by_its_plugin_is_reported_by_path(tmp_path: Path) -> None:
    sla = "{name: sla, arguments: {sla-waiting-time: soon}}"
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {sla}]}}]"
    (error,) = checked(tmp_path, text, code=1)["errors"]
    assert error["field"] == "tiers[0].plugins[1]"
    assert "sla-waiting-time" in error["message"]


def test_mistakes_go_to_stderr_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(BAD)
    result = CliRunner().invoke(app, ["check", str(tmp_path / "p.yaml")])
    assert (result.exit_code, result.stdout) == (1, "")
    first, *lines = result.stderr.splitlines()
    assert first.startswith("Error: ")
    assert first.endswith(f"{len(lines)} mistakes")
    assert all(": " in line and line.startswith("  ") for line in lines)


def test_several_files_one_of_them_bad(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text("actions: sing")
    files = [str(tmp_path / "good.yaml"), str(tmp_path / "bad.yaml"), str(tmp_path / "absent")]
    body = json.loads(check(*files, "-o", "json", code=1))
    assert [one["valid"] for one in body] == [True, False, False]
    assert "name a readable file" in body[2]["errors"][0]["message"]


@pytest.mark.parametrize("key", ["volcano-scheduler.conf", "policy.yaml", "my.conf"])
def test_a_config_map_that_holds_a_policy(tmp_path: Path, key: str) -> None:
    report = checked(tmp_path, config_map({key: GOOD, "README": "no"}))
    assert report["configMap"] == (
        f"ConfigMap volcano-system/volcano-scheduler-configmap, key {key}"
    )
    assert report["tiers"] == checked(tmp_path, GOOD)["tiers"]


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({}, "data", "holds nothing"),
        ({"a.conf": GOOD, "b.yaml": GOOD}, "data", "a.conf, b.yaml"),
        ({"readme": "x"}, "data", "no key is volcano-scheduler.conf"),
        ({"volcano-scheduler.conf": {"actions": "allocate"}}, "data[volcano-", "is not text"),
        ({"volcano-scheduler.conf": "actions: sing"}, "actions", "'sing'"),
        ({"volcano-scheduler.conf": "- a"}, "the policy", "is not a mapping"),
    ],
)
def test_a_config_map_that_holds_none(
    tmp_path: Path, data: dict[str, Any], field: str, words: str
) -> None:
    first = checked(tmp_path, config_map(data), code=1)["errors"][0]
    assert first["field"].startswith(field)
    assert words in first["message"]


def test_another_object_is_not_a_policy() -> None:
    with pytest.raises(PolicyError, match="'Deployment' is not a ConfigMap"):
        unwrap("apiVersion: apps/v1\nkind: Deployment\n")


def test_standard_input() -> None:
    assert "standard input: valid" in check("-", stdin=GOOD)
    result = subprocess.run(
        [sys.executable, "-m", "laboratory.cli", "config", "check", "-"],
        input=b"\xff\xfe",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert b"not text in UTF-8" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("actions: allocate\nactions: allocate\n", "the key 'actions' stands there twice"),
        ("actions: allocate\n---\nactions: allocate\n", "another document"),
        ("[" * 5000, "nested too deeply"),
        ("actions: 2001-99-99\n", "is not YAML"),
        ("{1: 2}", "is not a mapping of names"),
    ],
)
def test_text_that_is_no_policy(text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        unwrap(text)


def test_the_report_tells_what_a_session_really_has() -> None:
    for text in (GOOD, "actions: allocate\ntiers: [{plugins: [{name: proportion}]}]"):
        policy = parse_policy(text)
        session, reports = open_session(policy), report(policy)
        for point in EXTENSION_POINTS.values():
            speaks = {entry.plugin for entry in session.rules(point)}
            printed = {p.name for tier in reports.tiers for p in tier if point.name in p.points}
            assert speaks == printed, point
        assert set(session.warnings) <= set(reports.warnings)


def test_every_argument_with_a_default_is_one_that_may_be_written() -> None:
    for tier in report(DEFAULT_POLICY).tiers:
        for plugin in tier:
            assert {a.name for a in plugin.arguments} <= set(ARGUMENTS.get(plugin.name, {}))


KAI = """
actions: "allocate, consolidation"
tiers: [{plugins: [{name: proportion, arguments: {kValue: "2"}}, {name: gpupack}]}]
queueDepthPerAction: {consolidation: 5}
options: {use-scheduling-signatures: false}
"""


def test_a_policy_of_kai_says_its_dialect_and_why(tmp_path: Path) -> None:
    report = checked(tmp_path, KAI)
    assert report["dialect"] == "kai"
    assert report["dialectBecause"] == "field queueDepthPerAction: only KAI has it"
    assert report["kai"]["options"]["use-scheduling-signatures"] is False
    assert report["kai"]["queueDepthPerAction"] == {"consolidation": 5}
    (tier,) = report["tiers"]
    assert [plugin["name"] for plugin in tier] == ["proportion", "gpupack"]
    assert any(w.startswith("a service differs from KAI") for w in report["warnings"])
    text = check(str(tmp_path / "policy.yaml"))
    assert "Dialect: KAI (field queueDepthPerAction: only KAI has it)" in text
    for word in ("kValue", "use-scheduling-signatures", "consolidation", "Warning: a service"):
        assert word in text


def test_volcanos_files_say_so_too(tmp_path: Path) -> None:
    report = checked(tmp_path, GOOD)
    assert report["dialect"] == "volcano"
    assert report["dialectBecause"].startswith("plugin gang: only Volcano")
    assert "kai" not in report


def test_a_scheduling_shard_is_told_as_the_holder(tmp_path: Path) -> None:
    shard = "{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: blue}, spec: "
    assert checked(tmp_path, shard + "{}}")["configMap"] == "SchedulingShard blue"
    errors = checked(tmp_path, shard + "{args: {leader-elect: 'true'}}}", code=1)["errors"]
    assert [error["field"] for error in errors] == ["spec.args.leader-elect"]
