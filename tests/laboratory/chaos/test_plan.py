"""Plans of faults and of users' acts: drawn by seed, within their bounds."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from random import Random

import pytest

from coordinator.intake.intake import Intake
from coordinator.supervisor.restarts import DEATHS, WINDOW_SECONDS
from laboratory.chaos.draining import plan_drains
from laboratory.chaos.load import (
    ChangePolicy,
    ChaosLoad,
    Delete,
    SubmitJob,
    cluster,
    queues,
)
from laboratory.chaos.plan import (
    CLUSTER,
    LEADER,
    LEDGER,
    RAY,
    STANDBY,
    TARGETS,
    WARM_UP,
    WORKER,
    InjectionKind,
    plan,
)
from laboratory.chaos.policies import draw_policy, evicts
from laboratory.workloads.generators import ClusterShape, node_items
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect

SHAPE = ClusterShape(nodes=24, units=8)
SHARDS = 3


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("duration", [30.0, 60.0, 600.0])
def test_every_role_is_killed_and_the_file_rewritten_within_the_time(
    seed: int, duration: float
) -> None:
    blows = plan(seed, duration)
    killed = {blow.target for blow in blows if blow.kind is InjectionKind.KILL}
    assert killed == set(TARGETS) == {WORKER, LEADER, STANDBY, LEDGER, RAY, CLUSTER}
    kinds = Counter(blow.name for blow in blows)
    assert kinds["rewrite ledger"] == 1
    assert kinds["pause worker"] and kinds["pause leader"]
    assert [blow.at for blow in blows] == sorted(blow.at for blow in blows)
    assert blows[0].at >= WARM_UP
    assert blows[-1].at <= duration - 5.0
    assert len(blows) >= duration / 4


@pytest.mark.parametrize("seed", range(30))
def test_no_role_is_killed_as_often_as_the_keeper_gives_up(seed: int) -> None:
    blows = plan(seed, 600.0)
    groups = {
        "coordinators": {"kill leader", "pause leader", "kill standby", "kill ray"},
        LEDGER: {"kill ledger"},
        CLUSTER: {"kill cluster"},
    }
    for names in groups.values():
        times = [blow.at for blow in blows if blow.name in names]
        for first in times:
            assert sum(first <= at <= first + WINDOW_SECONDS for at in times) < DEATHS


def test_a_seed_is_the_same_run() -> None:
    assert plan(5, 60.0) == plan(5, 60.0)
    assert plan(5, 60.0) != plan(6, 60.0)


def test_an_absent_process_is_not_struck() -> None:
    targets = [LEDGER, WORKER]
    assert {blow.target for blow in plan(1, 60.0, targets=targets)} == set(targets)


@pytest.mark.parametrize("duration", [10.0, 60.0, 600.0])
def test_nodes_are_drained_by_seed_within_the_time(duration: float) -> None:
    for seed in range(30):
        drains = plan_drains(seed, duration)
        assert drains == plan_drains(seed, duration) != plan_drains(seed + 1, duration)
        assert len(drains) >= max(1, duration // 16)
        assert WARM_UP <= drains[0].at <= drains[-1].at <= duration - 5.0
        assert all(0.0 <= drain.pick < 1.0 < drain.length for drain in drains)


def load(seed: int) -> ChaosLoad:
    return ChaosLoad(seed, SHAPE, shards=SHARDS, nodes=list(node_items(SHAPE)))


def test_load_is_the_same_by_seed_and_of_all_kinds() -> None:
    first, second, other = (list(islice(load(seed).steps(), 300)) for seed in (1, 1, 2))
    assert repr(first) == repr(second) != repr(other)
    operations = [operation for step in first for operation in step]
    submitted = [
        item
        for operation in operations
        if isinstance(operation, SubmitJob)
        for item in operation.items
    ]
    kinds = Counter(item["kind"] for item in submitted)
    assert kinds["Job"] > 100 and kinds["PodGroup"] > 10 and kinds["Pod"] > 10 and kinds["Node"] > 1
    assert sum(isinstance(operation, Delete) for operation in operations) > 20
    widths = [item["spec"]["tasks"][0]["replicas"] for item in submitted if item["kind"] == "Job"]
    shard = SHAPE.capacity // SHARDS
    assert sum(width > shard for width in widths) > 10, "none has to span shards"
    assert max(widths) < SHAPE.capacity


def test_endless_jobs_are_deleted_and_cordoned_nodes_are_uncordoned() -> None:
    one = load(3)
    operations = [operation for step in islice(one.steps(), 200) for operation in step]
    operations += one.ending()
    assert one.ending() == []
    endless, deleted, cordoned = set(), set(), {}
    for operation in operations:
        if isinstance(operation, Delete):
            deleted.add(operation.job)
        for item in operation.items if isinstance(operation, SubmitJob) else ():
            name = item["metadata"]["name"]
            if item["kind"] == "Job":
                template = item["spec"]["tasks"][0]["template"]
                if not template["metadata"]["annotations"]:
                    endless.add(name)
            elif item["kind"] == "Node":
                cordoned[name] = "spec" in item
    assert endless and endless <= deleted
    assert cordoned and not any(cordoned.values())


def test_with_one_shard_every_gang_fits_the_cluster() -> None:
    one = ChaosLoad(0, SHAPE, shards=1, nodes=list(node_items(SHAPE)))
    operations = [operation for step in islice(one.steps(), 300) for operation in step]
    jobs = [
        item
        for operation in operations
        if isinstance(operation, SubmitJob)
        for item in operation.items
        if item["kind"] == "Job"
    ]
    widths = [job["spec"]["tasks"][0]["replicas"] for job in jobs]
    assert SHAPE.capacity // 2 < max(widths) < SHAPE.capacity


@pytest.mark.parametrize("walls", [False, True])
def test_jobs_ask_for_more_than_gpus(walls: bool) -> None:
    one = ChaosLoad(5, SHAPE, shards=SHARDS, nodes=list(node_items(SHAPE)), walls=walls)
    operations = [operation for step in islice(one.steps(), 400) for operation in step]
    jobs = [
        item
        for operation in operations
        if isinstance(operation, SubmitJob)
        for item in operation.items
        if item["kind"] == "Job"
    ]
    expected = {
        "hostPort",
        "podAntiAffinity",
        "resourceClaims",
        "persistentVolumeClaim",
        "launcher",
    }
    reports = [json.dumps(job) for job in jobs]
    for what in expected:
        assert any(what in text for text in reports) is (
            what != "persistentVolumeClaim" or not walls
        )
    assert any(isinstance(operation, ChangePolicy) for operation in operations)


@pytest.mark.parametrize("seed", [6, 7])
def test_under_a_kai_policy_everything_is_said_in_its_words(seed: int) -> None:
    """Intake takes the tree of queues, and all that users submit; one seed in four evicts."""
    nodes = list(node_items(SHAPE))
    intake = Intake(dialect=Dialect.KAI)
    admitted = intake.admit([*nodes, *cluster(SHAPE, nodes, of_kai=True)], 1.0)
    assert not admitted.refused
    one, limits = ChaosLoad(seed, SHAPE, shards=SHARDS, nodes=nodes, of_kai=True), set()
    for operation in (operation for step in islice(one.steps(), 300) for operation in step):
        match operation:
            case SubmitJob(items):
                outcome = intake.admit(items, 2.0)
                assert not outcome.refused
                assert not any("not looked at" in notice.message for notice in outcome.notices)
                limits |= {
                    item["spec"]["resources"]["gpu"]["limit"]
                    for item in items
                    if item["kind"] == "Queue"
                }
            case ChangePolicy(text):
                policy = parse_policy(text)
                assert policy.dialect is Dialect.KAI
                assert (len(policy.actions) > 1) is (seed % 4 == 3)
            case Delete():
                pass
    assert len(limits) > 2
    groups = [job for job in intake.registry.jobs.values() if job.kind == "PodGroup"]
    assert any(job.tasks > 1 for job in groups), "pods join KAI's groups"


def test_one_seed_in_four_evicts() -> None:
    """Its first policy evicts, and so does each that follows."""
    for seed in range(8):
        drawn = [draw_policy(Random(seed), evicting=evicts(seed))]
        steps = islice(load(seed).steps(), 300)
        drawn += [one.text for step in steps for one in step if isinstance(one, ChangePolicy)]
        assert len(drawn) > 1
        for text in drawn:
            actions = parse_policy(text).actions
            assert bool({"preempt", "reclaim"} & set(actions)) is (seed % 4 == 3)


def test_a_queue_has_a_bound() -> None:
    assert "nvidia.com/gpu" in json.dumps(queues(SHAPE))
