"""Meaning of a dump: whose pods these are, their usage, its policy and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laboratory.replay.cases import read_cases
from laboratory.replay.recorded import RecordError
from laboratory.replay.scenario import ScenarioError
from laboratory.replay.sharded import ShardedRun, run_sharded
from shard_worker.session_model.status import Status
from shard_worker.view.mode import Mode
from shared.manifests.text.text import read_values
from shared.policy.dialect import parse_policy
from shared.policy.model import PolicyError
from tests.builders.objects import kube_object, priority_class, queue
from tests.laboratory.replay.build import (
    case,
    foreign,
    gang,
    group,
    node,
    pod,
    policy,
    session,
    sessions,
)

PLAIN = policy("allocate", "gang", "predicates")
PREEMPT = policy("preempt", "priority", "gang", "conformance", "predicates")


def test_a_pod_with_a_node_is_there_and_uses_it() -> None:
    result = session(node("a"), *gang("there", pods=3, on="a"), *gang("new", pods=2), under=PLAIN)
    assert result.binds == {}
    assert result.tasks == {"ns/there": {"Running": 3}, "ns/new": {"Pending": 2}}


def test_a_pod_of_another_scheduler_uses_its_node() -> None:
    items = [node("a"), *gang("new", pods=2)]
    assert len(session(*items, under=PLAIN).binds) == 2
    result = session(*items, foreign("proxy", on="a", cpu=2.5), under=PLAIN)
    assert result.binds == {}
    assert list(result.pod_groups) == ["ns/new"]


def test_a_pod_of_another_scheduler_is_not_evicted() -> None:
    new = group("top", priorityClassName="top")
    waits = pod("top-0", group="top", cpu=3)
    items = [node("a"), priority_class("top", 100), new, waits]
    ours = session(*items, *gang("low", pods=4, on="a", minMember=1), under=PREEMPT)
    assert len(ours.evicted) == 3
    theirs = [foreign(f"low-{i}", on="a") for i in range(4)]
    assert session(*items, *theirs, under=PREEMPT).evicted == []


def test_unknown_fields_of_foreign_pods_are_accepted() -> None:
    odd: dict[str, Any] = {"somethingNew": {"x": 1}, "volumes": [{"name": "v", "odd": {}}]}
    replay_case = case(node("a"), foreign("odd", on="a", **odd), under=PLAIN)
    [placed_job] = replay_case.recorded.placed_jobs
    assert placed_job.foreign
    assert placed_job.rows == {0: 0}


def test_objects_without_node_usage_are_left_out_with_a_note() -> None:
    ended = foreign("ended", on="a")
    ended["status"]["phase"] = "Succeeded"
    replay_case = case(
        node("a"),
        ended,
        foreign("waits", on=""),
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}},
        under=PLAIN,
    )
    assert replay_case.recorded.placed_jobs == []
    assert replay_case.notes == [
        "left out: 1 ReplicaSet",
        "left out: 1 ended pods of other schedulers",
        "left out: 1 waiting pods of other schedulers",
    ]


def test_a_lone_pod_of_ours_is_a_job() -> None:
    result = session(node("a"), pod("alone"), under=PLAIN)
    assert result.binds == {"ns/alone": "a"}


def test_a_pod_whose_group_is_not_in_the_dump_is_where_it_is_and_waits() -> None:
    items = [node("a"), *gang("new", pods=3)]
    result = session(*items, pod("x", group="gone", cpu=2, on="a"), under=PLAIN)
    assert result.binds == {}
    assert session(*items, pod("x", group="gone"), under=PLAIN).binds.keys() == {
        "ns/new-0",
        "ns/new-1",
        "ns/new-2",
    }


def test_a_pod_on_a_node_that_is_not_in_the_dump_counts_for_its_gang_and_queue() -> None:
    limited = queue("small", capability={"cpu": "2"})
    under = policy("allocate", "gang", "proportion", "predicates")
    members = [pod("x-0", group="x", on="gone"), pod("x-1", group="x"), pod("x-2", group="x")]
    result = session(
        node("a"), limited, group("x", minimum=2, queue="small"), *members, under=under
    )
    assert result.binds == {"ns/x-1": "a"}


def test_phases_of_pods_are_states_of_tasks() -> None:
    leaving = pod("e", group="g", on="a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    replay_case = case(
        node("a", cpu=9),
        group("g"),
        pod("a", group="g", on="a"),
        pod("b", group="g", on="a", phase="Pending"),
        pod("c", group="g", on="a", phase="Succeeded"),
        pod("d", group="g", on="a", phase="Unknown"),
        leaving,
        pod("f", group="g", nominatedNodeName="a", startTime="2026-01-01T00:00:00Z"),
        under=PLAIN,
    )
    [placed_job] = replay_case.recorded.placed_jobs
    names = {placed_job.job.pod_name(tix): tix for tix in range(6)}
    reports = {name: placed_job.states.get(tix, Status.PENDING) for name, tix in names.items()}
    assert reports == {
        "a": Status.RUNNING,
        "b": Status.BOUND,
        "c": Status.SUCCEEDED,
        "d": Status.UNKNOWN,
        "e": Status.RELEASING,
        "f": Status.PENDING,
    }
    assert {name for name, tix in names.items() if tix in placed_job.rows} == {"a", "b", "d", "e"}
    assert placed_job.nominated == {names["f"]: 0}


def test_a_list_as_kubectl_writes_it_of_a_real_cluster() -> None:
    """Everything that a cluster's own components write into their objects is known."""
    text = (Path(__file__).parent / "kubectl.yaml").read_bytes()
    under = policy("enqueue, allocate", "gang", "predicates", "nodeorder")
    [replay_case] = read_cases([("kubectl.yaml", read_values(text))], policy=parse_policy(under))
    assert replay_case.notes == []
    [result] = sessions(replay_case)
    assert result.tasks == {
        "default/podgroup-5d3b": {"Running": 1},
        "default/waits-1": {"Pending": 1},
    }
    assert "1 node(s) were unschedulable" in result.pod_groups["default/waits-1"]["reasons"]
    expected = ShardedRun(shards=2, mode=Mode.SOFT, seed=0)
    several = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert several.tasks == result.tasks
    phases = [group["phase"] for group in several.pod_groups.values()]
    assert phases == ["Running", "Inqueue"]


# --- policy and time ------------------------------------------------------------------------------


TIERS = "\ntiers: [{plugins: [{name: gang}]}]"


def config_map(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "annotations": {"quadrant.dev/taken": "1800000000.5"}},
        "data": {"volcano-scheduler.conf": text},
    }


def test_devices_as_servers_before_1_34_show_them() -> None:
    """In v1beta1 a device's fields are below ``basic``, and a request's beside its name."""
    devices = [{"name": f"gpu-{i}", "basic": {"attributes": {"i": {"int": i}}}} for i in (0, 1)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    offered = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": devices}
    second = {"cel": {"expression": "device.attributes['gpu.example.com'].i == 1"}}
    asked = {"name": "r", "deviceClassName": "gpu", "selectors": [second]}
    claims = [
        dra("ResourceClaim", name, {"devices": {"requests": [asked]}}) for name in ("x-0", "x-1")
    ]
    waits = gang("x", pods=2, minMember=1)
    for number, item in enumerate(waits[1:]):
        item["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": f"x-{number}"}]
        item["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g"}]
    items = [dra("ResourceSlice", "s", offered), dra("DeviceClass", "gpu", {}), *claims, *waits]
    assert session(node("a"), *items, under=PLAIN).binds == {"ns/x-0": "a"}
    newer = [item | {"apiVersion": "resource.k8s.io/v1beta2"} for item in items[:2]]
    assert session(node("a"), *newer, *items[2:], under=PLAIN).binds == {}


def dra(kind: str, name: str, spec: Any) -> Any:
    return kube_object("resource.k8s.io/v1beta1", kind, name, namespace="ns", spec=spec)


def test_the_policy_of_the_dump_counts_where_none_is_given() -> None:
    documents = [config_map(f"actions: backfill{TIERS}"), node("a")]
    [replay_case] = read_cases([("now.yaml", documents)])
    assert replay_case.policy.actions == ("backfill",)
    [replay_case] = read_cases([("now.yaml", documents)], policy=parse_policy(PLAIN))
    assert replay_case.policy.actions == ("allocate",)


def test_the_time_is_when_the_dump_was_taken_else_the_latest_in_it() -> None:
    old, new = node("a"), node("b")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    assert case(old, new, under=PLAIN).now == 1767312000.0
    [replay_case] = read_cases([("f", [old, config_map(f"actions: backfill{TIERS}")])])
    assert replay_case.now == 1800000000.5
    [replay_case] = read_cases([("f", [old])], now=5.0)
    assert replay_case.now == 5.0


# --- forms ----------------------------------------------------------------------------------------


def test_files_are_one_cluster_and_lists_are_opened() -> None:
    pods = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{k: v for k, v in pod("p").items() if k not in ("kind", "apiVersion")}],
    }
    [replay_case] = read_cases([("nodes.yaml", [node("a"), None]), ("pods.yaml", [pods])])
    assert replay_case.id == "nodes.yaml, pods.yaml"
    assert [placed_job.job.name for placed_job in replay_case.recorded.placed_jobs] == ["p"]


def test_scenarios_are_cases_of_their_own() -> None:
    one = {"id": "one", "policy": PLAIN, "cluster": {"nodes": [node("n")]}}
    replay_case = read_cases([("f", [[one, {**one, "id": "two"}], node("a")])])
    assert [case.id for case in replay_case] == ["one", "two", "f"]
    assert [case.id for case in read_cases([("f", [[one]])], only="x")] == []
    [bare] = read_cases([("f", [{"id": "x", "cluster": {}}])], policy=parse_policy(PREEMPT))
    assert bare.policy.actions == ("preempt",)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        ({"kind": "List", "items": 3}, RecordError, "f.yaml: List: items: "),
        ("text", ScenarioError, "f.yaml: 'text' is neither an object nor a scenario"),
        ({"id": "x"}, ScenarioError, "f.yaml: scenario 'x': policy: missing"),
        (
            {"id": "x", "policy": {"actions": "dance"}, "cluster": {}},
            PolicyError,
            "f.yaml: x: actions: unknown action 'dance'",
        ),
        (config_map("actions: dance"), PolicyError, "f.yaml: ConfigMap: actions: unknown action"),
    ],
)
def test_an_error_names_file_object_and_field(
    document: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        read_cases([("f.yaml", [document])])
    assert str(caught.value).startswith(message), str(caught.value)
