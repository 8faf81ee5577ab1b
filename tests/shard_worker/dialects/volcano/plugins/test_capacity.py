"""capacity without a tree: what a queue may have, deserves and is guaranteed."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.volcano.plugins.queue.capacity import Capacity
from shard_worker.framework.extension_points import JOB_ENQUEUEABLE
from shard_worker.framework.rules import PERMIT, REJECT, Purpose
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import Status
from shared.codec.packed import replace
from shared.model.model import Role, TaskClass
from shared.policy.model import PluginOption
from shared.units.slots import CPU

GPU = "nvidia.com/gpu"


def cluster_of(*, cpu: float = 8, **resources: float) -> Cluster:
    cluster = Cluster("capacity", actions=["reclaim"])
    cluster.node("n", cpu=cpu, memory=8, resources=resources)
    return cluster


def plugin(cluster: Cluster) -> tuple[Capacity, dict[str, Any]]:
    """The plugin over the cluster's world, and the branches by name."""
    session = cluster.open()
    capacity_plugin: Capacity = getattr(session.rules(JOB_ENQUEUEABLE)[0].fn, "__self__")  # noqa: B009
    tree = capacity_plugin.tree(session.world)
    return capacity_plugin, {branch.queue.name: branch for branch in tree.branches.values()}


# --- what a queue may have ------------------------------------------------------------------------


def test_real_capability_excludes_the_guarantees_of_other_queues() -> None:
    cluster = cluster_of(cpu=10)
    cluster.queue("mine", guarantee={"cpu": 2})
    cluster.queue("theirs", guarantee={"cpu": 5})
    cluster.queue("limited", capability={"cpu": 1})
    _, of = plugin(cluster)
    assert [of[name].real[CPU] for name in ("mine", "theirs", "limited")] == [5000, 8000, 1000]


def test_guarantees_beyond_the_cluster_leave_each_its_own() -> None:
    cluster = cluster_of(cpu=4)
    cluster.queue("a", guarantee={"cpu": 3})
    cluster.queue("b", guarantee={"cpu": 3})
    _, of = plugin(cluster)
    assert [of[name].real[CPU] for name in "ab"] == [3000, 3000]


def test_deserved_lies_between_guarantee_and_real_capability() -> None:
    cluster = cluster_of(cpu=10)
    cluster.queue("much", deserved={"cpu": 20}, capability={"cpu": 6})
    cluster.queue("little", deserved={"cpu": 1}, guarantee={"cpu": 3})
    cluster.queue("nothing")
    _, of = plugin(cluster)
    assert [of[n].deserved[CPU] for n in ("much", "little", "nothing")] == [6000, 3000, 0]
    session = cluster.open()
    reports = [session.deserved(q, session.world) for q in session.world.queues.values()]
    assert reports == [{CPU: 6000}, {CPU: 3000}, {}]
    most = [session.most(q, session.world)[CPU] for q in session.world.queues.values()]
    assert most == [6000, 10000, 7000]


def test_zero_capability_limits_gpus_but_not_cpu() -> None:
    cluster = cluster_of(**{GPU: 4})
    gpu = cluster.slots.intern(GPU)
    cluster.queue("q")
    session = cluster.open()
    queue = session.world.queues[0]
    queue.queue = replace(queue.queue, capability=((CPU, 0), (gpu, 0)))
    assert session.allocatable(queue, ((CPU, 8000),), session.world)
    assert not session.allocatable(queue, ((gpu, 1),), session.world)


# --- may it have more? ----------------------------------------------------------------------------


def test_a_queue_may_have_all_that_is_idle_up_to_its_capability() -> None:
    cluster = cluster_of()
    cluster.queue("q", capability={"cpu": 3}, deserved={"cpu": 1})
    cluster.job("runs", queue="q", tasks=2, on=["n", "n"])
    session = cluster.open()
    queue, world = session.world.queues[0], session.world
    assert session.allocatable(queue, ((CPU, 1000),), world)
    assert not session.allocatable(queue, ((CPU, 1001),), world)
    assert session.allocatable(queue, cluster.requests(memory=8), world)  # not asked: not looked at
    lacking = session.lacking(queue, ((CPU, 1001),), world)
    assert lacking is not None and (lacking.queue is queue, lacking.slots) == (True, (CPU,))


def test_a_closed_queue_gets_nothing_and_reclaims_nothing() -> None:
    cluster = cluster_of()
    cluster.queue("q", open=False, deserved={"cpu": 8})
    cluster.job("waits", queue="q", min_resources=cluster.requests(cpu=1))
    session = cluster.open()
    queue, (job,) = session.world.queues[0], session.world.session_jobs()
    assert not session.task_allocatable(queue, job.tasks[0])
    assert not session.simulate_allocatable(queue, job.tasks[0])
    assert not session.preemptive(queue, job.tasks)
    assert not session.job_enqueueable(job, session.world)


def test_room_that_a_gate_keeps_is_for_the_task_behind_it() -> None:
    gate = (("scheduling.volcano.sh/queue-allocation-gate", "true"),)
    cluster = cluster_of()
    cluster.queue("q", capability={"cpu": 2})
    cluster.job("passed", queue="q", cpu=2, members={"annotations": gate})
    cluster.job("other", queue="q", cpu=1)
    session = cluster.open()
    queue, (passed, other) = session.world.queues[0], session.world.session_jobs()
    assert session.task_allocatable(queue, passed.tasks[0])
    assert not session.task_allocatable(queue, other.tasks[0])
    statement = WorldStatement(session)
    statement.allocate(passed.tasks[0], 0)
    assert queue.reserved == {CPU: 0, 2: 0} and not session.task_allocatable(queue, other.tasks[0])
    statement.rollback()
    assert queue.reserved == {CPU: 2000, 2: 1}
    session.ungate(other.tasks[0])
    assert queue.reserved[CPU] == 3000


@pytest.mark.parametrize(
    ("least", "vote"), [(4, PERMIT), (5, REJECT)], ids=["fits", "does not fit"]
)
def test_admission_counts_the_needs_of_others_and_not_their_borrowing(
    least: int, vote: int
) -> None:
    """The queue has 10 cores: one job keeps 2 of its 4, another still comes for 4."""
    cluster = cluster_of(cpu=20)
    cluster.queue("q", capability={"cpu": 10})
    asks = cluster.requests
    cluster.job(
        "elastic",
        queue="q",
        tasks=4,
        minimum=2,
        on=["n"] * 4,
        phase="Running",
        min_resources=asks(cpu=2),
    )
    cluster.job("in", queue="q", tasks=4, phase="Inqueue", min_resources=asks(cpu=4))
    cluster.job("new", queue="q", tasks=8, phase="Pending", min_resources=asks(cpu=least))
    queue_plugin, _ = plugin(cluster)
    assert queue_plugin.job_enqueueable(cluster.world.jobs[2], cluster.world) == vote


def test_gated_members_do_not_count_as_coming() -> None:
    cluster = cluster_of()
    cluster.queue("q", capability={"cpu": 4})
    asks = cluster.requests
    cluster.job(
        "gated",
        queue="q",
        tasks=3,
        phase="Inqueue",
        min_resources=asks(cpu=3),
        members={"gated": True},
    )
    cluster.job("new", queue="q", phase="Pending", min_resources=asks(cpu=4))
    queue_plugin, _ = plugin(cluster)
    assert queue_plugin.job_enqueueable(cluster.world.jobs[1], cluster.world) == PERMIT


def test_a_succeeded_job_reserves_no_min_resources() -> None:
    cluster = cluster_of()
    cluster.queue("q", capability={"cpu": 4})
    asks = cluster.requests
    cluster.job(
        "done",
        queue="q",
        tasks=2,
        minimum=2,
        on=["n", "n"],
        status=Status.SUCCEEDED,
        phase="Running",
        min_resources=asks(cpu=2),
    )
    cluster.job("new", queue="q", phase="Pending", min_resources=asks(cpu=4))
    queue_plugin, _ = plugin(cluster)
    assert queue_plugin.job_enqueueable(cluster.world.jobs[1], cluster.world) == PERMIT


# --- order ----------------------------------------------------------------------------------------


def test_priority_then_share_then_those_that_deserve_something() -> None:
    cluster = cluster_of(cpu=20)
    deserved = {"cpu": 4}
    cluster.queue("full", deserved=deserved)
    cluster.queue("nothing")
    cluster.queue("half", deserved=deserved)
    cluster.queue("high", deserved=deserved, priority=1)
    for name, has in (("full", 4), ("half", 2), ("high", 4)):
        cluster.job(name, queue=name, tasks=has, on=["n"] * has)
    session = cluster.open()
    ordered = sorted(
        session.world.queues.values(), key=lambda q: session.queue_key(q, session.world)
    )
    assert [q.queue.name for q in ordered] == ["high", "half", "full", "nothing"]


# --- reclaim --------------------------------------------------------------------------------------


def reclaim(cluster: Cluster, reclaimer: str, *, whole: bool = False) -> list[str]:
    """Tasks that may be evicted for the first task (or all) of a job."""
    session = cluster.open()
    jobs = {job.job.name: job for job in session.world.session_jobs()}
    candidates = [
        task
        for job in jobs.values()
        for task in job.tasks
        if task.status is Status.RUNNING and job.queue is not jobs[reclaimer].queue
    ]
    if whole:
        result = session.unified_evictable(jobs[reclaimer], candidates, Purpose.RECLAIM)
    else:
        result = session.reclaimable(jobs[reclaimer].tasks[0], candidates)
    return sorted(task.name for task in result)


@pytest.mark.parametrize("whole", [False, True])
def test_a_queue_gives_back_until_it_has_what_it_deserves(whole: bool) -> None:
    cluster = cluster_of()
    cluster.queue("lends", deserved={"cpu": 4})
    cluster.queue("borrows", deserved={"cpu": 2})
    cluster.job("old", queue="borrows", tasks=5, minimum=1, on=["n"] * 5)
    cluster.job("new", queue="lends", tasks=2)
    assert reclaim(cluster, "new", whole=whole) == ["old-2", "old-3", "old-4"]


def test_reclaim_leaves_a_queue_its_guarantee() -> None:
    cluster = cluster_of()
    cluster.queue("lends", deserved={"cpu": 4})
    cluster.queue("borrows", guarantee={"cpu": 3})
    cluster.job("old", queue="borrows", tasks=5, minimum=1, on=["n"] * 5)
    cluster.job("new", queue="lends")
    assert reclaim(cluster, "new") == ["old-3", "old-4"]


def test_tasks_outside_the_deserved_resources_are_always_reclaimable() -> None:
    cluster = cluster_of(**{GPU: 4})
    cluster.queue("lends", deserved={"cpu": 4, GPU: 4})
    cluster.queue("borrows", deserved={"cpu": 4})
    cluster.job("gpu", queue="borrows", cpu=0, resources={GPU: 1}, on=["n"])
    cluster.job("cpu", queue="borrows", cpu=1, resources={GPU: 1}, on=["n"])
    cluster.job("new", queue="lends", cpu=1, resources={GPU: 1})
    assert reclaim(cluster, "new") == ["gpu-0"]


def test_a_victim_has_something_that_the_reclaimer_asks_for() -> None:
    cluster = cluster_of()
    cluster.queue("lends", deserved={"cpu": 4, "memory": 4})
    cluster.queue("borrows")
    cluster.job("memory", queue="borrows", cpu=0, memory=1, on=["n"])
    cluster.job("cpu", queue="borrows", cpu=1, on=["n"])
    cluster.job("new", queue="lends", cpu=1)
    assert reclaim(cluster, "new") == ["cpu-0"]


def test_a_job_gets_nothing_back_from_its_own_queue() -> None:
    cluster = cluster_of()
    cluster.queue("q", deserved={"cpu": 1})
    cluster.job("old", queue="q", tasks=3, minimum=1, on=["n"] * 3)
    cluster.job("new", queue="q")
    queue_plugin, _ = plugin(cluster)
    old, new = cluster.world.session_job(0), cluster.world.session_job(1)
    assert queue_plugin.unified_evictable(new, old.tasks, Purpose.RECLAIM, cluster.world) == []


def test_for_preemption_it_has_no_opinion() -> None:
    cluster = cluster_of()
    cluster.queue("q")
    cluster.job("new", queue="q")
    queue_plugin, _ = plugin(cluster)
    job = cluster.world.session_job(0)
    assert queue_plugin.unified_evictable(job, [], Purpose.PREEMPT, cluster.world) is None


@pytest.mark.parametrize(
    ("deserved", "capability", "may"),
    [
        ({"cpu": 3}, {}, True),
        ({"cpu": 2}, {}, False),
        ({"memory": 2}, {}, True),  # of one resource it would have no more than it deserves
        ({"cpu": 8, "memory": 8}, {"cpu": 2}, False),
        ({}, {}, False),
    ],
)
def test_a_queue_reclaims_what_it_deserves(
    deserved: dict[str, float], capability: dict[str, float], may: bool
) -> None:
    cluster = cluster_of()
    cluster.queue("q", deserved=deserved, **({"capability": capability} if capability else {}))
    cluster.job("runs", queue="q", tasks=2, on=["n", "n"], memory=0)
    cluster.job("waits", queue="q", memory=1)
    session = cluster.open()
    waits: SessionJob = session.world.session_job(1)
    assert session.preemptive(session.world.queues[0], waits.tasks) is may


def test_an_argument_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="ancestorReclaimLevel"):
        Capacity(
            PluginOption(
                "capacity",
                arguments={"ancestorReclaimLevel": "one"},
                flags={"enableHierarchy": True},
            )
        )


def test_members_of_several_roles_may_keep_room() -> None:
    """Only those whose gate is gone: the others are not to be placed yet."""
    gate = (("scheduling.volcano.sh/queue-allocation-gate", "true"),)
    cluster = cluster_of()
    cluster.queue("q")

    cid = cluster.class_of(TaskClass(requests=cluster.requests(cpu=1, pods=1)))
    roles = [
        Role("open", cid, 0, 1, annotations=gate),
        Role("shut", cid, 1, 1, annotations=gate, gated=True, own_gate=True),
    ]
    cluster.job("j", queue="q", roles=roles)
    session = cluster.open()
    assert session.world.queues[0].reserved == {CPU: 1000, 2: 1}
    assert session.world.session_job(0).gated == {CPU: 1000, 2: 1}
