"""Pods of another scheduler use their node, with any fields; unreadable objects end no replay."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.cli.replay.replay_text import table_of
from laboratory.replay.cases import read_cases
from tests.builders import objects
from tests.builders.objects import queue
from tests.laboratory.replay.build import (
    FORMS,
    Json,
    case,
    decided,
    foreign,
    gang,
    node,
    pod,
    policy,
    session,
)
from tests.shared.manifests.pod_fields import pods

UNDER = policy("allocate, backfill", "priority", "gang", "predicates", "proportion", "nodeorder")
PODS = pods()
EIGHT = node("n", cpu=8)


@pytest.mark.parametrize("field", PODS)
def test_a_foreign_pod_with_any_fields_uses_its_node(field: str) -> None:
    [other] = [PODS[field]]
    assert session(EIGHT, other, *gang("fits", pods=2), under=UNDER).binds.keys() == {
        "ns/fits-0",
        "ns/fits-1",
    }
    assert session(EIGHT, other, *gang("large", pods=3), under=UNDER).binds == {}


@pytest.mark.parametrize("field", PODS)
def test_a_running_pod_with_any_fields_uses_its_node(field: str) -> None:
    ours = PODS[field] | {"spec": PODS[field]["spec"] | {"schedulerName": "volcano"}}
    assert session(EIGHT, ours, *gang("large", pods=3), under=UNDER).binds == {}


SIX: dict[str, Json] = {
    "pod level": {"resources": {"requests": {"cpu": "6"}}},
    "overhead": {"overhead": {"cpu": "5"}},
    "limit alone": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "6"}}}]},
    "sidecar": {
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "5"}}}
        ]
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("name", SIX)
def test_all_that_a_running_pod_requests_counts(*, name: str, ours: bool, form: str) -> None:
    runs = foreign("runs", on="n", cpu=1, **SIX[name])
    if ours:
        runs["spec"]["schedulerName"] = "volcano"
    result = decided(form, EIGHT, runs, *gang("new", pods=3), under=UNDER)
    assert result.binds == {}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(("infeasible", "count", "has", "bound"), [
    (False, 2, "6", 0), (False, 6, "2", 0), (True, 16, "2", 3), (False, 2, "2", 3),
])  # fmt: skip
def test_a_resize_counts_until_it_is_over(
    *, infeasible: bool, count: int, has: str, bound: int, ours: bool, form: str
) -> None:
    runs = foreign("runs", on="n", cpu=count)
    status = {"allocatedResources": {"cpu": has}, "resources": {"requests": {"cpu": has}}}
    runs["status"]["containerStatuses"] = [{"name": "c", **status}]
    if infeasible:
        reason = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        runs["status"]["conditions"] = [reason]
    if ours:
        runs["spec"]["schedulerName"] = "volcano"
    result = decided(form, EIGHT, runs, *gang("new", pods=3), under=UNDER)
    assert len(result.binds) == bound


@pytest.mark.parametrize("form", FORMS)
def test_a_waiting_pod_asks_for_its_requests_as_a_whole(form: str) -> None:
    wide = pod("wide", cpu=1)
    wide["spec"]["resources"] = {"requests": {"cpu": "6"}}
    result = decided(form, EIGHT, wide, *gang("large", pods=3), under=UNDER)
    assert len(result.binds) in (1, 3)  # one of both


@pytest.mark.parametrize("form", FORMS)
def test_an_ephemeral_volume_is_placed_by_its_own_claim(form: str) -> None:
    waits = pod("w")
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volume = {"name": "s", "ephemeral": {"volumeClaimTemplate": template}}
    waits["spec"]["volumes"] = [volume]
    assert decided(form, EIGHT, waits, under=UNDER).binds == {}  # its claim is not there yet
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "w-s", "namespace": "ns"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["there"]}
    volume_there = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"name": "w-s", "namespace": "ns"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        },
    }
    there = node("n2", cpu=8, **{"kubernetes.io/hostname": "there"})
    result = decided(form, EIGHT, there, waits, claim, volume_there, under=UNDER)
    assert result.binds == {"ns/w": "n2"}


@pytest.mark.parametrize("form", FORMS)
def test_a_placed_pod_whose_volume_nobody_makes_is_shown_with_its_node(form: str) -> None:
    waits = pod("w", cpu=6)
    waits["spec"]["volumes"] = [{"name": "s", "persistentVolumeClaim": {"claimName": "c"}}]
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"},
    }
    result = decided(form, EIGHT, storage, claim, waits, under=UNDER)
    assert (result.binds, result.awaiting_volumes) == ({}, {"ns/w": "n"})
    assert result.as_json()["awaitingVolumes"] == {"ns/w": "n"}
    shown = table_of(result, "now")
    assert "1 placed and waiting for volumes" in shown and "bound once its volumes are" in shown


@pytest.mark.parametrize("form", FORMS)
def test_unreadable_objects_are_left_out_and_the_rest_is_scheduled(form: str) -> None:
    odd = pod("odd-0", group="odd")
    odd["spec"]["volumes"] = [{"name": "v", "floppy": {"drive": "a"}}]
    runs = pod("runs", cpu=6, on="n")
    runs["spec"]["volumes"] = odd["spec"]["volumes"]
    broken = {**node("broken"), "status": {"allocatable": {"cpu": "many"}}}
    items = [EIGHT, broken, odd, runs, *gang("fits", pods=2), *gang("large", pods=3)]
    result = decided(form, *items, under=UNDER)
    assert result.binds.keys() == {"ns/fits-0", "ns/fits-1"}
    notes = "\n".join(case(*items, under=UNDER).notes)
    assert "left out: Node broken: status.allocatable.cpu (got 'many')" in notes
    assert "left out: Pod ns/odd-0: spec.volumes[0].floppy" in notes
    assert (
        "Pod ns/runs: spec.volumes[0].floppy" in notes
        and "only its use of the node counts" in notes
    )


def test_a_list_of_scenarios_goes_on_behind_an_object_that_cannot_be_read() -> None:
    cluster: dict[str, Any] = {"nodes": [EIGHT], "pods": [pod("a", group="g"), pod("Odd_Name")]}
    cluster["podGroups"] = [gang("g", pods=1)[0]]
    scenarios = [{"id": name, "policy": UNDER, "cluster": cluster} for name in "ab"]
    first, second = read_cases([("list.json", [scenarios])])
    assert (first.id, second.id) == ("a", "b")
    assert first.notes == second.notes and "Odd_Name" in first.notes[0]
    assert len(first.recorded.placed_jobs) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("memory", ["20Pi", "9E", "99E"])
def test_a_total_may_be_as_large_as_the_largest_int64(memory: str, form: str) -> None:
    most = {"cpu": "4", "memory": memory}
    team = queue("default", capability=most, deserved=most)
    small = gang("g", pods=2, minResources={"memory": "1Gi"})
    large = gang("h", pods=1, minResources={"memory": memory})
    for group in (small[0], large[0]):
        group["status"]["phase"] = "Pending"
    under = policy("enqueue, allocate", "gang", "overcommit", "predicates", "capacity")
    result = decided(form, EIGHT, team, *small, *large, under=under)
    assert result.binds.keys() == {"ns/g-0", "ns/g-1"}


@pytest.mark.parametrize("form", FORMS)
def test_who_asks_for_what_others_use_is_not_admitted(form: str) -> None:
    """Also in a service that has just begun, and has not asked the cluster yet."""
    waits = gang("w", pods=1, minResources={"cpu": "4"})
    waits[0]["status"]["phase"] = "Pending"
    under = policy("enqueue, allocate", "gang", "overcommit", "predicates")
    result = decided(form, EIGHT, foreign("o", on="n", cpu=8), *waits, under=under)
    assert result.pod_groups["ns/w"]["phase"] == "Pending"


@pytest.mark.parametrize("form", FORMS)
def test_a_native_group_that_waits_is_reported(form: str) -> None:
    members = [pod(f"g-{i}", cpu=5) for i in range(2)]
    for member in members:
        member["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    result = decided(form, EIGHT, objects.native_group("g", 2), *members, under=UNDER)
    assert result.tasks == {"ns/g": {"Pending": 2}}
    assert result.pod_groups["ns/g"]["reasons"]


@pytest.mark.parametrize("form", FORMS)
def test_a_job_that_waits_is_reported_with_its_reason(form: str) -> None:
    task = {"name": "w", "replicas": 2, "template": {"spec": pod("p", cpu=9)["spec"]}}
    result = decided(form, EIGHT, objects.job("large", tasks=[task]), under=UNDER)
    assert result.tasks == {"ns/large": {"Pending": 2}}
    assert result.pod_groups["ns/large"]["reasons"]
