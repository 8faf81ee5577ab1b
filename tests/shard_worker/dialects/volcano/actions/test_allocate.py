"""allocate over a session: turns, gangs, what is kept and what is undone."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.volcano.actions.allocate import AllocateResult, allocate_job, execute
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.placement.task_loop import goes_on
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.queue_totals import QUEUE_GATE
from shard_worker.session_model.status import Status
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shard_worker.session_model.world import World
from shared.model.model import Node, Role, TaskClass
from shared.policy.model import PluginOption


def job_of(ssn: Session, name: str) -> SessionJob:
    return next(job for job in ssn.world.session_jobs() if job.job.name == name)


def gpus(cluster: Cluster, cpu: float) -> int:
    return cluster.class_of(TaskClass(requests=cluster.requests(cpu=cpu, pods=1)))


# --- turns ----------------------------------------------------------------------------------------


def test_a_gang_gets_its_minimum_in_one_turn_and_each_further_task_costs_one() -> None:
    """Two elastic jobs, room for five: with drf each turn goes to the one that has less."""
    cluster = Cluster("gang", "drf", "predicates")
    cluster.node("n", cpu=5)
    cluster.job("a", tasks=5, minimum=2)
    cluster.job("b", tasks=5, minimum=1)
    binds = list(cluster.run().binds)
    assert binds[:2] == ["default/a-0", "default/a-1"]
    assert sorted(binds[2:4]) == ["default/b-0", "default/b-1"]
    assert len(binds) == 5


def test_without_shares_the_older_job_goes_on_first() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("n", cpu=4)
    cluster.job("a", tasks=3, minimum=1)
    cluster.job("b", tasks=3, minimum=1)
    assert sorted(cluster.run().binds) == [
        "default/a-0",
        "default/a-1",
        "default/a-2",
        "default/b-0",
    ]


class Greedy:
    """A queue called "full" is overused once it has anything."""

    name = "greedy"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_overused_fn(self._overused)

    @staticmethod
    def _overused(queue: QueueInfo, cluster: ClusterInfo) -> bool:
        del cluster
        return queue.queue.name == "full" and any(queue.allocated.values())


def test_an_overused_queue_is_dropped_for_the_rest_of_the_action() -> None:
    cluster = Cluster("gang", "predicates", Greedy)
    cluster.queue("full")
    cluster.queue("other")
    cluster.node("n", cpu=9)
    for name in ("a", "b"):
        cluster.job(name, queue="full")
    cluster.job("c", queue="other", tasks=2)
    ssn = cluster.open()
    execute(ssn)
    assert sorted(cluster.result(ssn).binds) == ["default/a-0", "default/c-0", "default/c-1"]
    assert ssn.skipped[1] == ("WaitingForQuota", "queue full has its share")
    assert allocate_job(ssn, job_of(ssn, "b")) is AllocateResult.NOTHING


def test_a_pipelined_job_binds_nothing_and_keeps_its_places() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("n", cpu=2)
    cluster.job("leaves", on=["n"], status=Status.RELEASING)
    cluster.job("gang", tasks=2)
    cluster.job("later")
    ssn = cluster.open()
    execute(ssn)
    result = cluster.result(ssn)
    assert result.binds == {}
    assert list(result.pipelined) == ["default/gang-1"]
    assert job_of(ssn, "gang").tasks[0].status is Status.ALLOCATED
    assert job_of(ssn, "later").unschedulable == {"Insufficient cpu": 1}


def test_a_gang_that_cannot_come_about_leaves_nothing_behind() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("n", cpu=2)
    cluster.job("gang", tasks=3)
    cluster.job("small", tasks=2)
    ssn = cluster.open()
    execute(ssn)
    assert sorted(cluster.result(ssn).binds) == ["default/small-0", "default/small-1"]
    gang = job_of(ssn, "gang")
    assert (gang.unschedulable, gang.failed_role) == ({"Insufficient cpu": 1}, "task")


def test_one_turn_of_one_job() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("n", cpu=9)
    cluster.job("a", tasks=3, minimum=2)
    ssn = cluster.open()
    job = job_of(ssn, "a")
    assert allocate_job(ssn, job) is AllocateResult.COMMITTED
    assert [task.status for task in job.tasks] == [Status.BINDING, Status.BINDING, Status.PENDING]
    assert allocate_job(ssn, job) is AllocateResult.COMMITTED
    assert job.census.ready == 3
    assert allocate_job(ssn, job) is AllocateResult.NOTHING


# --- who gets a turn ------------------------------------------------------------------------------


def test_a_pending_group_waits_for_enqueue_where_there_is_one() -> None:
    for actions, phase, binds in (
        (("allocate",), "Inqueue", 1),
        (("enqueue", "allocate"), "Pending", 0),
    ):
        cluster = Cluster("gang", "predicates", actions=actions)
        cluster.node("n")
        cluster.job("a", phase="Pending")
        ssn = cluster.open()
        execute(ssn)
        assert (job_of(ssn, "a").phase, len(cluster.result(ssn).binds)) == (phase, binds)


def test_a_job_passed_over_says_why() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("n")
    cluster.job("few", tasks=1, minimum=2)
    cluster.queue()
    cluster.job("lost", queue="nowhere")
    ssn = cluster.open()
    execute(ssn)
    assert ssn.skipped[0][0] == "NotEnoughTasks"
    assert ssn.skipped[1] == ("Misconfigured", "queue nowhere does not exist")


class OddOnly:
    """The queue takes only tasks whose name ends in an odd number."""

    name = "odd"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_allocatable_fn(None, scalar=lambda queue, task, world: task.tix % 2 == 1)


def test_a_task_the_queue_may_not_take_is_lost_and_the_others_go_on() -> None:
    cluster = Cluster("gang", "predicates", OddOnly)
    cluster.node("n")
    cluster.job("a", tasks=4, minimum=2)
    cluster.job("b", tasks=4, minimum=3)
    ssn = cluster.open()
    execute(ssn)
    assert sorted(cluster.result(ssn).binds) == ["default/a-1", "default/a-3"]
    assert ssn.skipped[1] == ("WaitingForQuota", "queue default has no room for 2 of its tasks")


def test_a_job_that_needs_no_member_is_told_of_the_quota_too() -> None:
    """It is ready without one, and its turn said "nothing to do"."""
    cluster = Cluster("gang", "predicates", OddOnly)
    cluster.node("n")
    cluster.job("a", tasks=1, minimum=0)
    ssn = cluster.open()
    execute(ssn)
    assert cluster.result(ssn).binds == {}
    assert ssn.skipped[0] == ("WaitingForQuota", "queue default has no room for 1 of its tasks")


def test_gates() -> None:
    """A foreign gate: no task at all. Its own: it goes once the queue has room, if it may."""
    cluster = Cluster("gang", "predicates")
    cluster.node("n")
    cluster.job("foreign", members={"gated": True})
    cluster.job(
        "own", members={"gated": True, "own_gate": True, "annotations": ((QUEUE_GATE, "true"),)}
    )
    cluster.job("kept", members={"gated": True, "own_gate": True})
    ssn = cluster.open()
    execute(ssn)
    assert cluster.result(ssn).binds == {}
    assert list(ssn.ungated) == ["default/own-0"]
    assert ssn.skipped[2] == ("Gated", "tasks that wait for their gate: 1")


# --- tasks and roles ------------------------------------------------------------------------------


class Never:
    """PrePredicate fails for the tasks of a role called "bad"; counts how often it was asked."""

    name = "never"
    asked = 0

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_pre_predicate_fn(self._refuse)

    @staticmethod
    def _refuse(task: TaskInfo, world: World) -> str | None:
        del world
        Never.asked += 1
        return "bad luck" if task.role.name == "bad" else None


def test_after_one_task_fails_no_other_task_of_its_role_is_tried() -> None:
    Never.asked = 0
    cluster = Cluster("gang", "predicates", Never)
    cluster.node("n")
    cluster.node("m")
    cid = gpus(cluster, 1)
    cluster.job("a", minimum=2, roles=[Role("bad", cid, 0, 3), Role("good", cid, 3, 2)])
    ssn = cluster.open()
    execute(ssn)
    assert len(cluster.result(ssn).binds) == 2
    assert Never.asked == 1 + 2
    assert job_of(ssn, "a").unschedulable == {"bad luck": 2}


def test_tasks_without_a_role_are_each_tried() -> None:
    Never.asked = 0
    cluster = Cluster("gang", "predicates", Never)
    cluster.node("n", cpu=1)
    cid = gpus(cluster, 2)
    cluster.job("a", minimum=1, roles=[Role("", cid, 0, 3), Role("good", gpus(cluster, 1), 3, 1)])
    assert list(cluster.run().binds) == ["default/a-good-0"]
    assert Never.asked == 4


@pytest.mark.parametrize("cached", [True, False])
def test_a_node_that_refused_one_of_a_role_is_not_asked_for_the_others(cached: bool) -> None:
    """Volcano's cache is by job and role, whatever the tasks ask for."""
    cluster = Cluster(
        "gang", "predicates", arguments={"allocate": {"predicateErrorCacheEnable": cached}}
    )
    cluster.node("small", cpu=1)
    cluster.node("big", cpu=3)
    roles = [
        Role("w", gpus(cluster, 3), 0, 1, names=("first",)),
        Role("w", gpus(cluster, 1), 1, 1, names=("second",)),
    ]
    cluster.job("a", minimum=2, roles=roles)
    assert len(cluster.run().binds) == (0 if cached else 2)


def test_the_promised_node_is_tried_first() -> None:
    cluster = Cluster("gang", "predicates", "nodeorder")
    cluster.node("a")
    cluster.node("b")
    cluster.node("full", cpu=0.5)
    cluster.job("x", tasks=2)
    ssn = cluster.open()
    first, second = job_of(ssn, "x").tasks
    first.nominated, second.nominated = 1, 2
    execute(ssn)
    assert cluster.result(ssn).binds == {"default/x-0": "b", "default/x-1": "a"}


def elastic(*, minimum: int, **fields: Any) -> SessionJob:
    """Six tasks in roles a and b, three each, one of each has a place."""
    cluster = Cluster("gang", "predicates")
    cluster.node("n")
    cid = gpus(cluster, 1)
    roles = [Role("a", cid, 0, 3), Role("b", cid, 3, 3)]
    cluster.job(
        "x",
        roles=roles,
        on=["n", None, None, "n", None, None],
        minimum=minimum,
        **fields,
    )
    return job_of(cluster.open(), "x")


@pytest.mark.parametrize(
    ("fields", "failed", "goes"),
    [
        pytest.param({"minimum": 6}, "a", False, id="every task is needed"),
        pytest.param({"minimum": 3}, "a", True, id="no role has a minimum"),
        pytest.param(
            {"minimum": 4, "role_minima": (("a", 3), ("b", 3))},
            "a",
            True,
            id="below the roles' sum: 2 placed and 2 of b are 4",
        ),
        pytest.param(
            {"minimum": 5, "role_minima": (("a", 3), ("b", 3))},
            "a",
            False,
            id="below the roles' sum: 2 placed and 2 of b are not 5",
        ),
        pytest.param(
            {"minimum": 3, "role_minima": (("a", 1), ("b", 2))},
            "a",
            True,
            id="the role that failed has its minimum",
        ),
        pytest.param(
            {"minimum": 3, "role_minima": (("a", 1), ("b", 2))},
            "b",
            False,
            id="the role that failed is short of its minimum",
        ),
    ],
)
def test_whether_a_failure_ends_the_turn(fields: dict[str, Any], failed: str, goes: bool) -> None:
    job = elastic(**fields)
    assert goes_on(job.subs[""], [failed]) is goes


class Even:
    """A static check that only nodes with an even row pass."""

    name = "even"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(self._check)

    @staticmethod
    def _check(_: TaskClass, node: Node) -> str | None:
        return "node(s) are odd" if "odd" in node.labels else None


def test_reasons_count_each_node_once() -> None:
    cluster = Cluster("gang", "predicates", Even)
    cluster.node("a", cpu=1)
    cluster.node("b", labels={"odd": ""})
    cluster.job("x", cpu=2)
    ssn = cluster.open()
    execute(ssn)
    assert job_of(ssn, "x").unschedulable == {"Insufficient cpu": 1, "node(s) are odd": 1}


def test_a_seed_decides_between_equal_nodes() -> None:
    """Without one the first node wins; shards with different seeds do not all want the same."""
    placements = {}
    for seed in (None, 1, 2, 3, 4, 5):
        cluster = Cluster("gang", "predicates", "nodeorder")
        for i in range(8):
            cluster.node(f"n{i}")
        cluster.job("x")
        ssn = cluster.open()
        ssn.seed = seed
        execute(ssn)
        placements[seed] = cluster.result(ssn).binds["default/x-0"]
    assert placements[None] == "n0"
    assert len(set(placements.values())) > 2
