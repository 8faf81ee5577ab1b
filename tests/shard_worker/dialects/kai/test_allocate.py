"""allocate under a KAI policy: turns as a whole, promises, queues, and sets of nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.run import run_actions
from shard_worker.dialects.kai.devices import device_columns, fitting_devices
from shard_worker.dialects.kai.placing import Placing
from shard_worker.dialects.kai.rules.capacity import Bound
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.kai.turn_order import TurnOrder
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.status import Status
from shared.model.gpu_request import WHOLE, GpuRequest
from shared.model.kai import KaiLevel, KaiSubGroup, KaiTopology
from shared.model.kai import KaiTopologyConstraint as Constraint
from shared.units.things import Things
from tests.shard_worker.dialects.kai.clusters import KaiCluster, image, placed


def whole(*devices: int) -> Things:
    """Devices of a task with these GPUs."""
    return tuple((f"kai-gpu/{at}", (WHOLE,)) for at in devices)


def share(part: str, *, devices: int = 1) -> dict[str, str]:
    return {"gpu-fraction": part, "gpu-fraction-num-devices": str(devices)}


def ran(cluster: KaiCluster) -> KaiSession:
    session = cluster.open()
    run_actions(session)
    return session


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=2)
    cluster.job("gang", tasks=3)
    cluster.job("small", tasks=1)
    assert placed(ran(cluster)) == {"small-0": ("BINDING", "a")}


def test_surplus_tasks_come_turn_by_turn_beside_other_jobs() -> None:
    """Both jobs get their minimum before either gets more."""
    cluster = KaiCluster()
    cluster.node("a", gpus=3)
    cluster.job("elastic", tasks=3, minimum=1)
    cluster.job("late", tasks=2, minimum=1)
    assert sorted(placed(ran(cluster))) == ["elastic-0", "elastic-1", "late-0"]


def test_a_gang_that_needs_a_promise_is_promised_as_a_whole() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=1)
    cluster.node("b", gpus=1)
    cluster.job("leaving", on=["a"], status=Status.RELEASING, holding=[whole(0)])
    cluster.job("gang", tasks=2)
    session = ran(cluster)
    assert placed(session) == {
        "gang-0": ("PIPELINED", "b"),
        "gang-1": ("PIPELINED", "a"),
        "leaving-0": ("RELEASING", "a"),
    }
    assert not session.started


def test_a_surplus_task_that_is_promised_drags_nobody() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=1)
    cluster.node("b", gpus=1)
    cluster.job("leaving", on=["a"], status=Status.RELEASING, holding=[whole(0)])
    cluster.job("elastic", tasks=2, minimum=1)
    session = ran(cluster)
    assert placed(session)["elastic-0"] == ("BINDING", "b")
    assert placed(session)["elastic-1"] == ("PIPELINED", "a")
    assert list(session.started) == [1]


def test_equal_nodes_are_taken_in_order_of_name() -> None:
    cluster = KaiCluster()
    for name in ("c", "b", "a"):
        cluster.node(name, gpus=1)
    cluster.job("job")
    assert placed(ran(cluster)) == {"job-0": ("BINDING", "a")}


def test_a_limit_far_above_refuses_and_is_named() -> None:
    cluster = KaiCluster()
    cluster.queue("top", parent="", limit=2)
    cluster.queue("mid", parent="top")
    cluster.queue("leaf", parent="mid")
    cluster.node("a", gpus=8)
    cluster.job("big", tasks=3, queue="leaf")
    cluster.job("small", tasks=2, queue="leaf")
    session = ran(cluster)
    assert sorted(placed(session)) == ["small-0", "small-1"]
    refusal = session.over_capacity[0]
    assert (refusal.queue, refusal.bound, refusal.resource) == ("top", Bound.LIMIT, "gpu")
    assert (refusal.has, refusal.asks, refusal.may) in {(0, 3000, 2000), (2000, 3000, 2000)}


def test_non_preemptible_jobs_stay_within_the_queue_quota() -> None:
    cluster = KaiCluster()
    cluster.queue("department", parent="")
    cluster.queue("team", quota=1)
    cluster.node("a", gpus=4)
    cluster.job("build", tasks=2, priority=100)
    cluster.job("train", tasks=2, priority=50)
    session = ran(cluster)
    assert sorted(placed(session)) == ["train-0", "train-1"]
    assert session.over_capacity[0].bound is Bound.QUOTA


def test_a_queue_below_its_quota_goes_before_a_job_of_higher_priority_elsewhere() -> None:
    cluster = KaiCluster()
    cluster.queue("department", parent="")
    cluster.queue("rich", quota=0)
    cluster.queue("poor", quota=1)
    cluster.node("a", gpus=1)
    cluster.job("urgent", queue="rich", priority=90)
    cluster.job("owed", queue="poor", priority=10)
    assert sorted(placed(ran(cluster))) == ["owed-0"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_exactly_the_first_jobs_of_each_leaf_are_tried(depth: int) -> None:
    cluster = KaiCluster(actions="allocate", queueDepthPerAction={"allocate": depth})
    cluster.node("a", gpus=8)
    for at, priority in enumerate((10, 40, 20, 30)):
        cluster.job(f"job{at}", priority=priority)
    assert sorted(placed(ran(cluster))) == sorted(["job1-0", "job3-0", "job2-0"][:depth])


def test_a_job_of_a_parent_queue_or_of_none_is_not_tried() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=8)
    cluster.job("above", queue="department")
    cluster.job("nowhere", queue="gone")
    cluster.job("good")
    assert sorted(placed(ran(cluster))) == ["good-0"]


# --- sets of nodes --------------------------------------------------------------------------------

RACKS = KaiTopology("racks", (KaiLevel("zone"), KaiLevel("rack")))


def racks(cluster: KaiCluster, *gpus: int) -> None:
    """Two nodes in each rack, two racks in each zone."""
    cluster.topologies.append(RACKS)
    for at, number in enumerate(gpus):
        labels = {"zone": f"z{at // 4}", "rack": f"r{at // 2}"}
        cluster.node(f"n{at}", gpus=number, labels=labels)


def test_a_group_is_kept_in_one_rack_the_fullest_that_fits() -> None:
    cluster = KaiCluster()
    racks(cluster, 1, 1, 2, 2, 1, 2)
    cluster.job("job", tasks=3, topology=Constraint("racks", required="rack"))
    nodes = {node for _, node in placed(ran(cluster)).values()}
    assert nodes == {"n4", "n5"}


def test_a_required_topology_level_waits_and_a_preferred_one_does_not() -> None:
    for constraint, count in [
        (Constraint("racks", required="rack"), 0),
        (Constraint("racks", preferred="rack"), 3),
        (Constraint("racks", required="zone"), 3),
        (Constraint("gone", required="zone"), 0),
        (Constraint("racks", required="gone"), 0),
    ]:
        cluster = KaiCluster()
        racks(cluster, 1, 1, 1, 1)
        cluster.job("job", tasks=3, topology=constraint)
        assert len(placed(ran(cluster))) == count, constraint


def test_a_group_stays_where_its_members_are() -> None:
    cluster = KaiCluster()
    racks(cluster, 2, 2, 1, 1)
    cluster.job("job", tasks=2, minimum=1, on=["n0"], topology=Constraint("racks", required="rack"))
    assert placed(ran(cluster))["job-1"][1] in ("n0", "n1")


def test_a_set_that_fails_is_rolled_back_with_all_that_was_placed_in_it() -> None:
    """Zone z0 looks as if it had room for both, yet no rack of it has three GPUs for the second."""
    cluster = KaiCluster()
    racks(cluster, 2, 2, 1, 1, 3, 3, 1, 1)
    rack = Constraint("racks", required="rack")
    cluster.job(
        "job",
        sub_groups=[
            KaiSubGroup("a", min_member=2, topology=rack),
            KaiSubGroup("b", min_member=4, topology=rack),
        ],
        members=["a", "a", "b", "b", "b", "b"],
        topology=Constraint("racks", required="zone"),
    )
    where = {task: node for task, (_, node) in placed(ran(cluster)).items()}
    assert len(where) == 6
    assert {where[f"job-{at}"][1:] <= "3" for at in range(6)} in ({True}, {False})
    assert len({int(where[f"job-{at}"][1:]) // 2 for at in (0, 1)}) == 1
    assert len({int(where[f"job-{at}"][1:]) // 2 for at in (2, 3, 4, 5)}) == 1


# --- shares of GPUs -------------------------------------------------------------------------------


def devices_of(session: KaiSession) -> dict[str, Things]:
    return {task.name: task.devices for task in session.world.tasks() if task.row >= 0}


def test_shares_pack_a_device_and_a_whole_request_never_comes_beside_them() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=2)
    cluster.job("half", tasks=3, minimum=1, marks=share("0.5"))
    cluster.job("whole")
    devices = devices_of(ran(cluster))
    assert devices == {
        "half-0": (("kai-gpu/0", (WHOLE // 2,)),),
        "half-1": (("kai-gpu/0", (WHOLE // 2,)),),
        "whole-0": whole(1),
    }


def test_shares_of_several_devices_are_of_distinct_ones() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=2)
    cluster.job("two", marks=share("0.3", devices=2))
    cluster.job("three", marks=share("0.3", devices=3))
    names = [name for name, _ in devices_of(ran(cluster))["two-0"]]
    assert names == ["kai-gpu/0", "kai-gpu/1"]


def test_a_share_of_a_releasing_device_is_a_promise() -> None:
    cluster = KaiCluster()
    cluster.node("a", gpus=1)
    cluster.job("leaving", on=["a"], status=Status.RELEASING, holding=[whole(0)])
    cluster.job("half", marks=share("0.5"))
    cluster.job("rest", marks=share("0.6"))
    assert placed(ran(cluster)) == {
        "half-0": ("PIPELINED", "a"),
        "leaving-0": ("RELEASING", "a"),
    }


def test_memory_is_a_share_of_each_node_s_own_devices() -> None:
    cluster = KaiCluster()
    cluster.queue("department", parent="")
    cluster.queue("team", limit=1)
    cluster.node("big", gpus=1, labels={"nvidia.com/gpu.memory": "80099"})
    cluster.job("job", marks={"gpu-memory": "20001"})
    session = ran(cluster)
    assert devices_of(session)["job-0"] == (
        ("kai-gpu/0", (20001 * WHOLE // 80000,)),
    )  # 20001 of 80000 MiB
    assert session.queues["team"].allocated.gpu == 260


# --- what always holds ----------------------------------------------------------------------------

JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(-2, 2), st.integers(0, 4), st.sampled_from("xy")),
    min_size=1,
    max_size=5,
)


def random_cluster(gpus: Sequence[int], jobs: Sequence[tuple[int, int, int, str]]) -> KaiCluster:
    """Tasks that want -1 or -2 GPUs want two fifths of a device, or of two."""
    cluster = KaiCluster()
    cluster.queue("department", parent="", limit=6)
    cluster.queue("x", quota=1)
    cluster.queue("y", quota=2, limit=4)
    racks(cluster, *gpus)
    for at, (tasks, wants, minimum, queue) in enumerate(jobs):
        leaving = at == 0 and 0 <= wants <= gpus[0]
        cluster.job(
            f"job{at}",
            tasks=tasks,
            gpus=wants,
            minimum=min(tasks, minimum),
            queue=queue,
            on=["n0"] if leaving else (),
            holding=[whole(*range(wants))] if leaving else (),
            status=Status.RELEASING,
            marks=share("0.4", devices=-wants) if wants < 0 else None,
            topology=Constraint("racks", preferred="rack") if at % 2 else None,
        )
    return cluster


@given(gpus=st.lists(st.integers(0, 3), min_size=1, max_size=5), jobs=JOBS)
def test_a_rollback_leaves_image_and_books_as_they_were(
    gpus: list[int], jobs: list[tuple[int, int, int, str]]
) -> None:
    session = random_cluster(gpus, jobs).open()
    for job in session.kai_jobs.values():
        before = image(session)
        statement = WorldStatement(session)
        tasks = tasks_to_allocate(job.root)
        Placing(session, statement, job).place(job.root, tasks, session.world.view.exists())
        statement.promise(job.job)
        statement.rollback()
        assert image(session) == before


@given(gpus=st.lists(st.integers(0, 3), min_size=1, max_size=5), jobs=JOBS)
def test_counts_of_devices_follow_the_rows_that_change(
    gpus: list[int], jobs: list[tuple[int, int, int, str]]
) -> None:
    """Counts that follow the rows equal a count of everything."""
    session = random_cluster(gpus, jobs).open()
    world = session.world

    def counts() -> list[list[int]]:
        columns = device_columns(world)
        fits = [
            fitting_devices(GpuRequest(1, part=part), columns, world, now=now)
            for part in (400, 1000)
            for now in (False, True)
        ]
        report = (
            columns.declared,
            columns.whole_now,
            columns.whole_later,
            columns.free_parts,
            *fits,
        )
        return [each.tolist() for each in report]

    for job in session.kai_jobs.values():
        statement = WorldStatement(session)
        tasks = tasks_to_allocate(job.root)
        Placing(session, statement, job).place(job.root, tasks, world.view.exists())
        followed = counts()
        world.derived.clear()
        assert counts() == followed
        if len(job.job.tasks) % 2:
            statement.rollback()
        else:
            statement.promise(job.job)


@given(gpus=st.lists(st.integers(0, 3), min_size=1, max_size=5), jobs=JOBS)
def test_no_node_queue_or_gang_is_left_in_part(
    gpus: list[int], jobs: list[tuple[int, int, int, str]]
) -> None:
    session = ran(random_cluster(gpus, jobs))
    world = session.world
    for slot in range(len(world.view.slot_names)):
        assert (world.idle(slot) >= 0).all()
        assert (world.future_idle(slot) >= 0).all()
    columns = device_columns(world)
    assert (columns.idle >= 0).all()
    for name in columns.names:
        for row in range(world.size):
            staying = [t for t in world.tasks_on(row) if t.status is not Status.RELEASING]
            assert sum(dict(t.devices).get(name, (0,))[0] for t in staying) <= WHOLE
    for queue in session.queues.values():
        for has, limit in zip(queue.allocated, queue.limit, strict=True):
            assert limit == -1 or has <= limit
    for job in session.kai_jobs.values():
        for pod_set in job.root.pod_sets():
            bound = pod_set.number(Status.BINDING)
            assert bound == 0 or pod_set.satisfied


def test_the_next_job_of_the_tree_follows_the_shares_of_its_queues() -> None:
    """With their next job: 1/2 and 1/4 of their shares; then 1/2 both, and 0 and 1/4 without it;
    then the left one is above its quota."""
    cluster = KaiCluster()
    cluster.queue("left", parent="", quota=1)
    cluster.queue("right", parent="", quota=4)
    cluster.queue("left-leaf", parent="left", quota=1)
    cluster.queue("right-leaf", parent="right", quota=4)
    cluster.node("a", gpus=8)
    for at in range(2):
        cluster.job(f"l{at}", queue="left-leaf")
        cluster.job(f"r{at}", queue="right-leaf")
    session = cluster.open()
    order = TurnOrder(session, session.kai_jobs.values())
    names = []
    while (job := order.pop()) is not None:
        names.append(job.job.job.name)
        job.queue.charge(session.asked_by(job.job.tasks), preemptible=True)
        order.changed(job)
    assert names == ["r0", "l0", "r1", "l1"]
