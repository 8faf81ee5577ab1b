"""A dump of a cluster with KAI, decided under a policy of KAI's: by sessions and by shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from laboratory.cli.app import run
from laboratory.replay.cases import Case, read_cases
from laboratory.replay.cycles import run_cycles
from laboratory.replay.outcome import ReplayResult
from laboratory.replay.recorded import RecordError
from laboratory.replay.sharded import ShardedRun, run_sharded
from shard_worker.view.mode import Mode
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect, Policy, PolicyError
from tests.builders.objects import a_list, kube_object, simple_job
from tests.laboratory.replay import build
from tests.laboratory.replay.test_kai import (
    BEFORE,
    GANG,
    group,
    node,
    pod,
    queue,
    share,
)

Json = dict[str, Any]
KINDS = {
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "pods": ("v1", "Pod"),
}
KAI = parse_policy("dialect: kai")


def objects(cluster: Json) -> list[Json]:
    return [
        {"apiVersion": KINDS[kind][0], "kind": KINDS[kind][1], **item}
        for kind, items in cluster.items()
        for item in items
    ]


def case(*items: Json, policy: Policy | None = KAI, **more: Any) -> Case:
    documents = [a_list(*items)]
    [replay_case] = read_cases([("now.yaml", documents)], policy=policy, **more)
    return replay_case


def sessions(case: Case, cycles: int = 1) -> list[ReplayResult]:
    recorded = case.in_session or case.recorded
    run = run_cycles(case.policy, recorded, name=case.id, cycles=cycles, now=case.now)
    return list(run)


def sharded(case: Case, shards: int = 3) -> ReplayResult:
    how = ShardedRun(shards, Mode.SOFT, seed=1)
    return run_sharded(case.policy, case.recorded, how, name=case.id, began=case.now)


def both(case: Case) -> list[ReplayResult]:
    return [sessions(case)[0], sharded(case)]


FULL: Json = {
    "nodes": [node("a", 2)],
    "queues": [queue("department"), queue("team", "department")],
    "podGroups": [group("old", 2, created=BEFORE), group("new", 1)],
    "pods": [
        pod("old-0", "old", gpus=1, on="a"),
        pod("old-1", "old", gpus=1, on="a"),
        pod("new-0", "new", gpus=1),
    ],
}


def test_a_gang_is_bound_and_runs_in_the_next_session() -> None:
    replay_case = case(*objects(GANG["cluster"]))
    first, second = sessions(replay_case, cycles=2)
    assert first.binds == {"default/gang-0": "a", "default/gang-1": "a"}
    assert second.binds == {}
    assert second.tasks == {"default/gang": {"Running": 2}}
    assert sharded(replay_case).binds.keys() == first.binds.keys()


def test_a_pod_that_does_not_fit_is_pending_with_the_reason() -> None:
    session, shards = both(case(*objects(FULL)))
    assert session.binds == shards.binds == {}
    assert session.tasks["default/new"] == {"Pending": 1}
    assert shards.tasks["default/new"] == {"Pending": 1}
    [nodes, search] = session.pod_groups["default/new"]["reasons"]
    assert "gpu" in nodes
    assert search == "no scenario succeeds"
    assert shards.pod_groups["default/new"]["reasons"] == ["NotEnoughResources"]


def test_a_policy_of_kais_in_the_dump_counts() -> None:
    one_gpu = {"gpu": {**share(1), "limit": 1}}
    teams = [queue("department"), queue("team", "department")]
    teams[1]["spec"]["resources"] |= one_gpu
    waits = objects(GANG["cluster"] | {"queues": teams})
    shard = kube_object(
        "kai.scheduler/v1",
        "SchedulingShard",
        "default",
        spec={"queueDepthPerAction": {"allocate": 7}},
    )
    replay_case = case(*waits, shard, policy=None)
    assert replay_case.policy.dialect is Dialect.KAI
    assert replay_case.policy.kai is not None and replay_case.policy.kai.queue_depth == {
        "allocate": 7
    }
    session, shards = both(replay_case)
    assert session.binds == shards.binds == {}
    assert "OverLimit: queue team" in session.pod_groups["default/gang"]["reasons"][0]
    with pytest.raises(PolicyError, match="2 SchedulingShards are in it"):
        case(*waits, shard, {**shard, "metadata": {"name": "other"}}, policy=None)


def test_a_config_map_of_somebody_else_is_no_policy() -> None:
    theirs = kube_object("v1", "ConfigMap", "proxy", data={"config.yaml": "listen: 80\n"})
    kais = {**theirs, "data": {"config.yaml": "dialect: kai\nactions: allocate\n"}}
    cluster = objects(GANG["cluster"])
    assert case(*cluster, kais, policy=None).policy.actions == ("allocate",)
    assert case(*cluster, theirs, kais, policy=None).policy.actions == ("allocate",)
    assert "left out: 1 ConfigMap" in case(*cluster, theirs).notes


def test_a_pod_and_a_job_without_a_pod_group_are_groups_of_their_own() -> None:
    alone = pod("alone", "", gpus=1)
    alone["metadata"] |= {"annotations": {}, "labels": {"kai.scheduler/queue": "team"}}
    job = simple_job(
        "job", 2, namespace="default", role="worker", queue="team", pod_spec=alone["spec"]
    )
    cluster = objects(GANG["cluster"] | {"podGroups": [], "pods": [alone]})
    for result in both(case(*cluster)):
        assert result.binds == {"default/alone": "a"}
    for result in both(case(*cluster[:-1], job)):
        assert result.binds == {"default/job-worker-0": "a", "default/job-worker-1": "a"}


def test_pods_that_share_a_device_and_the_one_that_reserves_it() -> None:
    """KAI's binder has a pod hold a shared GPU; the sharers are what counts."""
    marks = {"gpu-fraction": "0.5"}
    sharer = pod("old-0", "old", on="a", labels={"runai-gpu-group": "g-1"}, annotations=marks)
    reserves = pod("reserves", "", gpus=1, on="a", labels={"runai-gpu-group": "g-1"})
    reserves["metadata"] |= {"annotations": {}, "namespace": "kai-resource-reservation"}
    reserves["spec"]["schedulerName"] = "default-scheduler"
    waiting = [pod(f"new-{i}", f"new-{i}", annotations=marks) for i in range(4)]
    groups = [group("old", 1, created=BEFORE), *(group(f"new-{i}", 1) for i in range(4))]
    cluster = FULL | {"podGroups": groups, "pods": [sharer, reserves, *waiting]}
    for result in both(case(*objects(cluster))):
        assert len(result.binds) == 3  # two GPUs of two halves each, one of them taken
        assert sum(counts.get("Pending", 0) for counts in result.tasks.values()) == 1


def test_another_pool_and_another_scheduler() -> None:
    other = node("b", 8)
    other["metadata"]["labels"] = {"kai.scheduler/node-pool": "b"}
    theirs = pod("theirs", "", gpus=1, on="a")
    theirs["metadata"]["annotations"] = {}
    theirs["spec"]["schedulerName"] = "default-scheduler"
    cluster = objects(GANG["cluster"] | {"nodes": [node("a", 2), other]})
    replay_case = case(*cluster)
    assert replay_case.in_session is not None
    for result in both(replay_case):
        assert set(result.binds.values()) == {"a"}
    for result in both(case(*cluster, *objects({"pods": [theirs]}))):
        assert result.binds == {}


def test_past_usage_of_queues_counts_only_if_the_policy_enables_it() -> None:
    teams = [queue(name) for name in ("blue", "red")]
    for team in teams:
        team["spec"]["resources"]["gpu"] = share(0)
    groups, pods = [], []
    for name in ("blue", "red"):
        for at in range(4):
            one = group(f"{name}-{at}", 1)
            one["spec"]["queue"] = name
            groups.append(one)
            pods.append(pod(f"{name}-{at}", f"{name}-{at}", gpus=1))
    cluster = objects({"nodes": [node("a", 4)], "queues": teams, "podGroups": groups, "pods": pods})
    usage = {"blue": (0, 0, 900_000_000)}

    def of_blue(policy: str, usage: Any) -> set[int]:
        replay_case = case(*cluster, policy=parse_policy(f"dialect: kai\n{policy}"), usage=usage)
        return {sum(pod.startswith("default/blue") for pod in r.binds) for r in both(replay_case)}

    counted = "usageDBConfig: {clientType: ledger}"
    assert of_blue(counted, None) == {2}
    assert of_blue(counted, usage) == {0}
    assert of_blue("actions: allocate", usage) == {2}


def test_a_dump_without_objects_of_the_dialect_is_refused_and_the_missing_kinds_named() -> None:
    kais = objects(GANG["cluster"])
    with pytest.raises(RecordError, match=r"2 Queues.*give a policy of KAI's with --policy"):
        case(
            *kais,
            policy=parse_policy(
                {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}
            ),
        )
    volcanos = [build.node("a"), *build.gang("g", pods=1)]
    with pytest.raises(RecordError, match=r"it has 1 PodGroups.*queues\.scheduling\.run\.ai"):
        case(*volcanos)
    both_kinds = [*kais, *build.gang("g", pods=1)]
    assert sessions(case(*both_kinds))[0].binds.keys() == {"default/gang-0", "default/gang-1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": None}, "metadata"),
        ({"spec": {"nodeName": "a", "containers": 3}}, "spec.containers"),
        ({"status": None}, ""),
    ],
)
def test_an_object_that_cannot_be_read_is_named(change: Json, message: str) -> None:
    running = pod("gang-0", "gang", gpus=1, on="a") | change
    cluster = objects(GANG["cluster"] | {"pods": [running]})
    dump = case(*cluster)
    assert sessions(dump)
    assert not message or any(note.partition("Pod ")[2].find(message) >= 0 for note in dump.notes)


def test_a_node_whose_amounts_are_no_numbers_of_devices() -> None:
    odd = node("a", 2)
    odd["status"]["allocatable"]["nvidia.com/gpu"] = "some"
    dump = case(*objects(GANG["cluster"] | {"nodes": [odd]}))
    assert any("Node a: status.allocatable.nvidia.com/gpu" in note for note in dump.notes)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_compares_two_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, today, tomorrow, used = (tmp_path / name for name in ("dump", "today", "next", "used"))
    limited = queue("team", "department")
    limited["spec"]["resources"]["gpu"] = {"quota": 0, "overQuotaWeight": 0, "limit": -1}
    groups = [
        {**one, "spec": {**one["spec"], "preemptibility": "non-preemptible"}}
        for one in GANG["cluster"]["podGroups"]
    ]
    cluster = GANG["cluster"] | {"queues": [queue("department"), limited], "podGroups": groups}
    dump.write_text(json.dumps(a_list(*objects(cluster))))
    today.write_text("dialect: kai\n")
    tomorrow.write_text("dialect: kai\nactions: reclaim\n")
    used.write_text(yaml.safe_dump({"team": {"gpu": 0.5}}))
    assert run(["replay", str(dump), "--policy", str(today), "--usage", str(used)]) == 0
    assert "NonPreemptibleOverQuota: queue team" in capsys.readouterr().out
    assert run(["replay", str(dump), "--policy", str(today), "--diff", str(tomorrow)]) == 0
    assert "both policies decide the same" in capsys.readouterr().out
    shards = ["--shards", "2", "--cycles", "1", "-o", "json"]
    assert run(["replay", str(dump), "--policy", str(today), *shards]) == 0
    assert json.loads(capsys.readouterr().out)["binds"] == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {gpu: -1}", "a.gpu (got -1): not a part of the cluster"),
        ("a: {gpus: 1}", "a.gpus (got 1): unknown"),
        ("a: 3", "a (got 3): not a mapping"),
        ("- a", "not one mapping of queues"),
        ("a: [", "--usage"),
    ],
)
def test_a_mistake_in_usage_names_queue_and_resource(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    dump, used = tmp_path / "dump", tmp_path / "used"
    dump.write_text(json.dumps(a_list()))
    used.write_text(text)
    assert run(["replay", str(dump), "--usage", str(used)]) == 1
    assert message in capsys.readouterr().err
