"""backfill: tasks that ask for nothing."""

from __future__ import annotations

from shard_worker.dialects.volcano.actions.backfill import backfill_job, execute
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shard_worker.view.mode import Mode
from shared.model.model import Role, TaskClass


def cluster_of(*nodes: str, actions: tuple[str, ...] = ("allocate", "backfill")) -> Cluster:
    cluster = Cluster("gang", "predicates", "nodeorder", actions=actions)
    for node in nodes:
        cluster.node(node, cpu=1)
    return cluster


def test_they_are_left_to_it_and_go_where_nothing_else_fits() -> None:
    cluster = cluster_of("a")
    cluster.job("full", cpu=1)
    cluster.job("little", tasks=3, cpu=0)
    result = cluster.run()
    assert result.binds == {
        f"default/{n}": "a" for n in ("full-0", *(f"little-{i}" for i in "012"))
    }


def test_a_pending_group_is_let_in_by_others_only() -> None:
    for actions, placed in ((("backfill",), 0), (("allocate", "backfill"), 1)):
        cluster = cluster_of("a", actions=actions)
        cluster.job("little", cpu=0, phase="Pending")
        assert len(cluster.run().binds) == placed


def test_the_own_shard_comes_before_better_scores() -> None:
    cluster = Cluster("gang", "predicates", "nodeorder", actions=("backfill",), mode=Mode.SOFT)
    cluster.node("other", cpu=8, own=False)
    cluster.node("busy", cpu=1)
    cluster.job("runs", on=["busy"], cpu=1)
    cluster.job("little", cpu=0)
    assert cluster.run().binds == {"default/little-0": "busy"}


def test_a_promise_is_taken_back_and_the_task_placed() -> None:
    cluster = cluster_of("a")
    cluster.job("little", tasks=2, cpu=0)
    ssn = cluster.open()
    job = next(ssn.world.session_jobs().__iter__())
    WorldStatement(ssn).pipeline(job.tasks[1], 0)
    execute(ssn)
    assert [task.status for task in job.tasks] == [Status.BINDING, Status.BINDING]
    assert len(ssn.world.tasks_on(0)) == 2
    assert cluster.result(ssn).pipelined == {}


def test_a_job_that_becomes_ready_by_it_is_bound_as_a_whole() -> None:
    """Its other task was only allocated before, because the rest had no place."""
    cluster = cluster_of("a")
    big = cluster.class_of(TaskClass(requests=cluster.requests(cpu=1, pods=1)))
    none = cluster.class_of(TaskClass(requests=cluster.requests(pods=1)))
    cluster.job("mixed", minimum=2, roles=[Role("big", big, 0, 1), Role("little", none, 1, 1)])
    ssn = cluster.open()
    job = next(ssn.world.session_jobs().__iter__())
    WorldStatement(ssn).allocate(job.tasks[0], 0)
    assert backfill_job(ssn, job) == 1
    assert {op.task.tix for op in ssn.committed} == {0, 1}
    assert job.census.by_status[Status.BINDING] == 2


def test_gates_and_refusals_leave_them_pending() -> None:
    cluster = cluster_of("a")
    cluster.job("gated", cpu=0, members={"gated": True, "own_gate": True})
    cluster.job("picky", cpu=0, rules={"selector": (("disk", "ssd"),)})
    ssn = cluster.open()
    execute(ssn)
    assert cluster.result(ssn).binds == {}
    assert list(ssn.world.session_job(1).unschedulable.values()) == [1]
