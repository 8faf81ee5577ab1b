"""drf: shares of jobs, who may be evicted, and fairness down a tree of queues."""

from __future__ import annotations

from collections import Counter

import pytest

from shard_worker.dialects.volcano.plugins.queue.drf_tree import FairTree
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.workload import QueueInfo
from shared.policy.model import PluginOption, PolicyError

GPU = "gpu"


def by_name(session: Session) -> dict[str, SessionJob]:
    return {job.job.name: job for job in session.world.session_jobs()}


# --- jobs -----------------------------------------------------------------------------------------


def test_the_smaller_dominant_share_goes_first_and_promises_count() -> None:
    cluster = Cluster("drf")
    cluster.node("n", cpu=10, memory=10)
    cluster.job("cpu", tasks=4, on=["n", "n"])
    cluster.job("memory", tasks=2, cpu=0, memory=3, on=["n"])
    session = cluster.open()
    jobs = by_name(session)
    assert session.compare_jobs(jobs["cpu"], jobs["memory"]) < 0
    statement = WorldStatement(session)
    statement.pipeline(jobs["cpu"].tasks[2], 0)
    statement.allocate(jobs["cpu"].tasks[3], 0)
    assert session.compare_jobs(jobs["cpu"], jobs["memory"]) > 0
    statement.rollback()
    assert session.compare_jobs(jobs["cpu"], jobs["memory"]) < 0


@pytest.mark.parametrize(("has", "victims"), [(4, 3), (3, 2), (2, 1), (1, 0)])
def test_a_victim_s_job_keeps_as_large_a_share_as_the_preemptor_gets(
    has: int, victims: int
) -> None:
    """The preemptor would have 1 of 10; of its own the victim's job keeps as much."""
    cluster = Cluster("drf")
    cluster.node("n", cpu=10, memory=1000)
    cluster.job("old", tasks=has, on=["n"] * has)
    cluster.job("new")
    session = cluster.open()
    jobs = by_name(session)
    result = session.preemptable(jobs["new"].tasks[0], jobs["old"].tasks)
    assert [task.name for task in result] == [f"old-{i}" for i in range(victims)]


def test_a_candidate_that_stays_counts_as_gone_for_those_after_it() -> None:
    cluster = Cluster("drf")
    cluster.node("n", cpu=100, memory=1000)
    small = cluster.job("old", tasks=2, cpu=2, on=["n"] * 2)
    cluster.job("new", cpu=3)
    assert small.tasks == 2
    session = cluster.open()
    jobs = by_name(session)
    # without the first task old has 2 of 4, less than the 3 of new; so has it without both
    assert session.preemptable(jobs["new"].tasks[0], jobs["old"].tasks) == []


# --- queues as a tree -----------------------------------------------------------------------------


def tree_cluster(**queues: tuple[str, str]) -> Cluster:
    """``queues``: name = (hierarchy, weights)."""
    cluster = Cluster(PluginOption("drf", flags={"enableHierarchy": True}))
    cluster.node("n", cpu=10, memory=0, pods=1000, resources={GPU: 10})
    for name, (hierarchy, weights) in queues.items():
        marks = (("volcano.sh/hierarchy", hierarchy), ("volcano.sh/hierarchy-weights", weights))
        cluster.queue(name, annotations=marks)
    return cluster


def has(cluster: Cluster, queue: str, *, cpu: int = 0, gpu: int = 0, waits: int = 1) -> None:
    """A job that holds so many tasks of one core, or device, and waits for more of them."""
    for name, count, asks in (("c", cpu, {"cpu": 1.0}), ("g", gpu, {GPU: 1.0})):
        if count or (name == "c" and not gpu):
            cluster.job(
                f"{queue}-{name}",
                queue=queue,
                tasks=count + waits,
                minimum=1,
                cpu=asks.get("cpu", 0.0),
                resources={GPU: asks[GPU]} if GPU in asks else {},
                on=["n"] * count,
            )


def first(session: Session, left: str, right: str) -> float:
    of: dict[str, QueueInfo] = {q.queue.name: q for q in session.world.queues.values()}
    return session.compare_queues(of[left], of[right])


def test_shares_are_compared_by_weight_where_the_ways_part() -> None:
    cluster = tree_cluster(
        dev=("root/sci/dev", "1/1/1"), prod=("root/sci/prod", "1/1/4"), eng=("root/eng", "1/2")
    )
    has(cluster, "dev", cpu=1)
    has(cluster, "prod", cpu=3)
    has(cluster, "eng", cpu=4)
    session = cluster.open()
    assert first(session, "prod", "dev") < 0  # 3 of 10 by 4 is less than 1 of 10 by 1
    # scaled to the smaller child sci has 2 of 10 by 1, eng 4 of 10 by 2: as much
    tree = FairTree(session.world)
    assert tree.compare(0, 2) == pytest.approx(0)


def test_one_child_s_plenty_of_something_is_not_held_against_its_sibling() -> None:
    """The paper's first example: n21 has all the cores, n22 and n1 compete for devices."""
    cluster = tree_cluster(
        n1=("root/n1", "1/1"), n21=("root/n2/n21", "1/1/1"), n22=("root/n2/n22", "1/1/1")
    )
    has(cluster, "n1", gpu=5)
    has(cluster, "n21", cpu=9)
    has(cluster, "n22", gpu=1)
    session = cluster.open()
    assert first(session, "n22", "n1") < 0
    assert first(session, "n22", "n21") < 0


def test_a_saturated_hierarchy_node_goes_last_and_counts_in_full() -> None:
    cluster = tree_cluster(
        n1=("root/n1", "1/1"), n31=("root/n3/n31", "1/1/1"), n32=("root/n3/n32", "1/1/1")
    )
    has(cluster, "n1", gpu=4)
    has(cluster, "n31", cpu=10)  # all cores there are: it waits for what is used up
    has(cluster, "n32", gpu=3)
    session = cluster.open()
    assert first(session, "n32", "n31") < 0
    assert first(session, "n31", "n32") > 0
    assert first(session, "n32", "n1") < 0  # cores are used up: n3 has its share of devices alone
    has_all = tree_cluster(a=("root/a", "1/1"), b=("root/b", "1/1"))
    has(has_all, "a", cpu=1, waits=0)  # it has all that it asks for
    has(has_all, "b", cpu=5)
    assert first(has_all.open(), "b", "a") < 0


def test_a_satisfied_hierarchy_node_is_not_scaled_down() -> None:
    cluster = tree_cluster(
        n1=("root/n1", "1/1"), n21=("root/n2/n21", "1/1/1"), n22=("root/n2/n22", "1/1/1")
    )
    has(cluster, "n1", gpu=3)
    has(cluster, "n21", gpu=4, waits=0)
    has(cluster, "n22", gpu=1)
    assert first(cluster.open(), "n1", "n22") < 0  # n2 has 4 and 1, not 1 and 1


def test_order_follows_what_the_session_does() -> None:
    cluster = tree_cluster(a=("root/a", "1/1"), b=("root/b", "1/1"))
    has(cluster, "a", cpu=1, waits=2)
    has(cluster, "b", cpu=2)
    session = cluster.open()
    assert first(session, "a", "b") < 0
    statement = WorldStatement(session)
    for task in by_name(session)["a-c"].pending_tasks():
        statement.allocate(task, 0)
    assert first(session, "a", "b") > 0
    statement.rollback()
    assert first(session, "a", "b") < 0


def test_turns_follow_shares_that_turns_of_others_moved() -> None:
    """n2 wants both, n11 cores and n12 devices: each gets half of what there is."""
    cluster = tree_cluster(
        n11=("root/n1/n11", "1/1/1"), n12=("root/n1/n12", "1/1/1"), n2=("root/n2", "1/1")
    )
    wants = {"n11": {"cpu": 1.0}, "n12": {GPU: 1.0}, "n2": {"cpu": 1.0, GPU: 1.0}}
    for queue, asks in wants.items():
        devices = {GPU: asks[GPU]} if GPU in asks else {}
        cpu = asks.get("cpu", 0.0)
        cluster.job(queue, queue=queue, tasks=10, minimum=1, cpu=cpu, memory=0, resources=devices)
    binds = cluster.run().binds
    assert Counter(pod.partition("/")[2].partition("-")[0] for pod in binds) == dict.fromkeys(
        wants, 5
    )


def test_a_task_goes_where_its_queue_would_still_have_more() -> None:
    cluster = tree_cluster(a=("root/a", "1/1"), b=("root/b", "1/2"), c=("root/c", "1/1"))
    has(cluster, "a", cpu=2)
    has(cluster, "b", cpu=4)
    has(cluster, "c", cpu=4)
    session = cluster.open()
    jobs = by_name(session)
    candidates = [*jobs["b-c"].tasks[:4], *jobs["c-c"].tasks[:4]]
    victims = session.reclaimable(jobs["a-c"].pending_tasks()[0], candidates)
    # with it a has 3 of 10; without one of theirs b has 3 of 10 by 2, c 3 of 10 as well
    assert victims == []
    victims = session.reclaimable(jobs["b-c"].pending_tasks()[0], jobs["c-c"].tasks[:4])
    assert len(victims) == 4  # each on its own: b would have 5 by 2, c 3


@pytest.mark.parametrize(
    ("weights", "less"), [("1/x", False), ("1/0", False), ("1", False), ("1/3", True)]
)
def test_a_weight_that_is_none_counts_as_one(weights: str, less: bool) -> None:
    cluster = tree_cluster(a=("root/a", weights), b=("root/b", "1/1"))
    has(cluster, "a", cpu=2)
    has(cluster, "b", cpu=1)
    assert (first(cluster.open(), "a", "b") < 0) is less


def test_beside_proportion_the_tree_is_refused() -> None:
    cluster = Cluster(PluginOption("drf", flags={"enableHierarchy": True}), "proportion")
    cluster.queue("q")
    with pytest.raises(PolicyError, match="leave one of the two out"):
        cluster.open()


def test_a_queue_that_says_nothing_stands_below_root() -> None:
    cluster = tree_cluster(a=("root/a", "1/1"))
    cluster.queue("plain")
    has(cluster, "a", cpu=2)
    has(cluster, "plain", cpu=1)
    assert first(cluster.open(), "plain", "a") < 0
