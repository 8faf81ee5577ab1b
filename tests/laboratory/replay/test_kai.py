"""A replay of KAI's scenarios as a person meets it: rounds, what is fed back, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laboratory.cli.app import run
from laboratory.replay.kai.outcome import as_json
from laboratory.replay.kai.rounds import observed_states
from laboratory.replay.kai.scenario import read_kai_scenario
from laboratory.replay.scenario import ScenarioError

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-12-31T23:00:00Z"


def share(quota: int) -> Json:
    return {"quota": quota, "overQuotaWeight": 1, "limit": -1}


def queue(name: str, parent: str = "") -> Json:
    spec = {"resources": {kind: share(-1) for kind in ("cpu", "memory", "gpu")}}
    return {
        "metadata": {"name": name, "uid": name, "creationTimestamp": NOW},
        "spec": spec | ({"parentQueue": parent} if parent else {}),
    }


def node(name: str, gpus: int) -> Json:
    amounts = {"cpu": "64", "memory": "64G", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}}


def group(name: str, members: int, *, created: str = NOW) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"queue": "team", "minMember": members}}


def pod(name: str, member_of: str, *, gpus: int = 0, on: str = "", **metadata: Any) -> Json:
    marks = {"pod-group-name": member_of} | metadata.pop("annotations", {})
    requests = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec: Json = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": marks,
            **metadata,
        },
        "spec": spec | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running" if on else "Pending"},
    }


def scenario(*pods: Json, groups: list[Json], **more: Any) -> Json:
    return {
        "id": "a scenario",
        "now": NOW,
        "policy": {"dialect": "kai", "actions": "allocate"},
        "cluster": {
            "nodes": [node("a", 2)],
            "queues": [queue("department"), queue("team", "department")],
            "podGroups": groups,
            "pods": list(pods),
        },
        **more,
    }


def lines_of(value: Json) -> list[Json]:
    read = read_kai_scenario(value)
    return [as_json(read.id, observed) for observed in observed_states(read)]


GANG = scenario(
    pod("gang-0", "gang", gpus=1), pod("gang-1", "gang", gpus=1), groups=[group("gang", 2)]
)


def test_a_scenario_without_rounds_is_one_line() -> None:
    (line,) = lines_of(GANG)
    assert line["kind"] == "result"
    assert line["tasks"]["default/gang-0"] == {
        "status": "Binding",
        "node": "a",
        "gpuGroups": [],
        "requestedGpus": 1,
        "acceptedGpus": 1,
        "requestedMilliCpu": 1000,
        "requestedMemory": 0,
    }
    assert line["podGroups"] == {"default/gang": {"lastStart": NOW, "message": ""}}
    assert line["nodes"] == {"a": {"idleGpus": 0, "releasingGpus": 0}}
    assert line["rounds"] == [{"binds": 2, "evictions": 0, "pipelined": 0}]


def test_rounds_feed_bound_pods_back_until_nothing_changes() -> None:
    first, *later = lines_of({**GANG, "rounds": {"untilMatch": 2, "afterMatch": 2}})
    assert [first["kind"], *(line["kind"] for line in later)] == ["state", "result", "result"]
    assert [counts["binds"] for counts in first["rounds"]] == [2, 0]
    for line in (first, *later):
        assert line["tasks"]["default/gang-1"]["status"] == "Running"
        assert line["podGroups"]["default/gang"]["lastStart"] == "2025-12-31T23:59:00Z"


def test_shared_devices_keep_their_names_from_round_to_round() -> None:
    half: Json = {"annotations": {"gpu-fraction": "0.6"}}
    value = scenario(
        pod("old-0", "old", on="a", labels={"runai-gpu-group": "mine"}, **half),
        pod("new-0", "new", **half),
        pod("late-0", "late", annotations={"gpu-fraction": "0.4"}),
        groups=[
            group("old", 1, created=BEFORE),
            group("new", 1, created=BEFORE),
            group("late", 1),
        ],
        rounds={"untilMatch": 1, "afterMatch": 2},
    )
    for line in lines_of(value):
        groups = {name: task["gpuGroups"] for name, task in line["tasks"].items()}
        assert groups["default/old-0"] == ["mine"]
        assert groups["default/new-0"] == ["kai-gpu-1"]
        assert groups["default/late-0"] in (["mine"], ["kai-gpu-1"])
        assert all(task["status"] == "Running" for task in line["tasks"].values())


@pytest.mark.parametrize(
    ("deleted", "status", "waiting"),
    [(NOW, "Releasing", "Pipelined"), (BEFORE, "StuckInReleasing", "Pending")],
)
def test_a_pod_terminating_for_too_long_gets_no_pipelined_successor(
    deleted: str, status: str, waiting: str
) -> None:
    value = scenario(
        pod("old-0", "old", gpus=2, on="a", deletionTimestamp=deleted),
        pod("new-0", "new", gpus=1),
        groups=[group("old", 1), group("new", 1)],
    )
    (line,) = lines_of(value)
    assert line["tasks"]["default/old-0"]["status"] == status
    assert line["tasks"]["default/new-0"]["status"] == waiting


@pytest.mark.parametrize("queue_name", ["department", "there-is-none"])
def test_a_group_whose_queue_holds_no_jobs_waits_with_its_requests(queue_name: str) -> None:
    lost = group("lost", 1)
    lost["spec"]["queue"] = queue_name
    value = scenario(
        pod("lost-0", "lost", gpus=1),
        pod("good-0", "good", gpus=1),
        groups=[lost, group("good", 1)],
    )
    (line,) = lines_of(value)
    assert line["tasks"]["default/lost-0"]["status"] == "Pending"
    assert line["tasks"]["default/lost-0"]["requestedGpus"] == 1
    assert line["tasks"]["default/good-0"]["status"] == "Binding"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"now": "yesterday"}, "now: 'yesterday' is not a time"),
        ({"rounds": {"untilMatch": "two"}}, "give untilMatch and afterMatch as numbers"),
        ({"cluster": {"podgroups": []}}, "cluster.podgroups: unknown; remove it"),
        ({"cluster": {"pods": {}}}, "cluster.pods: not a list of objects"),
        ({"cluster": None}, "cluster: missing"),
    ],
)
def test_a_mistake_names_the_field(change: Json, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_kai_scenario({**GANG, **change})


def test_the_command_prints_one_object_a_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([{**GANG, "rounds": {"untilMatch": 1, "afterMatch": 1}}]))
    assert run(["replay", str(file)], "quadrant") == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["state", "result"]
    assert run(["replay", str(file), "--cycles", "2"], "quadrant") != 0
    assert "say themselves how many rounds" in capfd.readouterr().err
