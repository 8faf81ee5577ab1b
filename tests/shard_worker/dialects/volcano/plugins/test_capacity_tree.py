"""capacity with a tree: limits handed down, usage added up, relatives first."""

from __future__ import annotations

import pytest

from shard_worker.dialects.volcano.actions.enqueue import refusal
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.queue_totals import link
from shard_worker.session_model.queue_tree import Branch, grow_tree, kinship, own_side, parting
from shard_worker.session_model.status import Status
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shared.codec.packed import replace
from shared.model.model import Queue
from shared.policy.model import PluginOption
from shared.units.slots import CPU, MEMORY


def tree_of(level: int = 0, cpu: float = 16) -> Cluster:
    option = PluginOption(
        "capacity", arguments={"ancestorReclaimLevel": level}, flags={"enableHierarchy": True}
    )
    cluster = Cluster(option, actions=["enqueue"])
    cluster.node("n", cpu=cpu, memory=16)
    cluster.queue("root")
    return cluster


def branches(cluster: ClusterInfo) -> dict[str, Branch]:
    return {branch.queue.name: branch for branch in grow_tree(cluster).branches.values()}


def cluster_with(*queues: Queue, cpu: int = 16000) -> ClusterInfo:
    infos = {queue.qid: QueueInfo(queue=queue) for queue in queues}
    return ClusterInfo(total={CPU: cpu, MEMORY: 100}, queues=infos)


ROOT = Queue(0, "root")


# --- limits ---------------------------------------------------------------------------------------


def test_a_child_takes_over_the_limits_it_does_not_set() -> None:
    parent = Queue(1, "parent", parent=0, capability=((CPU, 8000), (MEMORY, 50)))
    child = Queue(2, "child", parent=1, capability=((CPU, 4000), (MEMORY, 0)))
    queue_branches = branches(cluster_with(ROOT, parent, child))
    assert dict(queue_branches["child"].real) == {CPU: 4000, MEMORY: 50}
    assert dict(queue_branches["parent"].real) == {CPU: 8000, MEMORY: 50}
    assert not queue_branches["parent"].leaf and queue_branches["child"].leaf
    assert [above.queue.name for above in queue_branches["child"].above] == ["parent"]


def test_siblings_leave_each_other_their_guarantees() -> None:
    parent = Queue(1, "parent", parent=0, capability=((CPU, 8000),))
    one = Queue(2, "one", parent=1, guarantee=((CPU, 3000),))
    two = Queue(3, "two", parent=1, guarantee=((CPU, 1000),))
    apart = Queue(4, "apart", parent=0, guarantee=((CPU, 500),))
    queue_branches = branches(cluster_with(ROOT, parent, one, two, apart))
    assert [queue_branches[name].real[CPU] for name in ("one", "two")] == [7000, 5000]
    assert queue_branches["parent"].real[CPU] == 8000
    assert queue_branches["apart"].real[CPU] == 16000


def test_root_is_there_without_being_described() -> None:
    tree = grow_tree(cluster_with(Queue(3, "a"), Queue(5, "b", parent=3)))
    assert not tree.trouble and set(tree.branches) == {3, 5}
    assert tree.root is not None and tree.root.real[CPU] == 16000
    assert grow_tree(cluster_with()).trouble == ""


def test_root_has_the_clusters_amounts_unless_taken_as_written() -> None:
    root = Queue(0, "root", capability=((CPU, 99000),))
    cluster = cluster_with(root, Queue(1, "a", parent=0))
    assert grow_tree(cluster).branches[1].real[CPU] == 16000
    assert grow_tree(cluster, root_as_written=True).branches[1].real[CPU] == 99000


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ((Queue(1, "a", parent=2), Queue(2, "b", parent=1)), "a, b: parents that go round"),
        ((Queue(1, "a", parent=7),), "queue a: its parent does not exist"),
        ((Queue(1, "a", parent=1),), "a: parents that go round"),
    ],
)
def test_an_invalid_queue_tree_is_reported_and_allocates_nothing(
    queues: tuple[Queue, ...], message: str
) -> None:
    assert message in grow_tree(cluster_with(ROOT, *queues)).trouble
    cluster = tree_of()
    good = cluster.queue("good", parent="root")
    for queue in queues:
        qid = queue.qid + 10
        moved = replace(queue, qid=qid, parent=queue.parent + 10)
        cluster.world.queues[qid] = QueueInfo(queue=moved)
    cluster.job("j", queue="good", phase="Pending", min_resources=cluster.requests(cpu=1))
    session = cluster.open()
    info, job = session.world.queues[good.qid], session.world.session_job(0)
    assert not session.allocatable(info, (), session.world)
    lacking = session.lacking(info, (), session.world)
    assert lacking is not None and ("go round" in lacking.why or "does not exist" in lacking.why)
    assert not session.job_enqueueable(job, session.world)
    assert refusal(session, session.world, job)[0] == "Misconfigured"
    assert not session.reclaimable(job.tasks[0], job.tasks)
    assert not session.preemptive(info, job.tasks)


def test_a_queue_with_jobs_and_queues_below_it_stops_everything() -> None:
    cluster = tree_of()
    cluster.queue("parent", parent="root")
    cluster.queue("child", parent="parent")
    cluster.job("good", queue="child")
    assert may(cluster.open(), "child", 1)
    cluster.job("bad", queue="parent")
    session = cluster.open()
    assert not may(session, "child", 1) and not may(session, "parent", 1)
    info = cluster.queue_named("child")
    lacking = session.lacking(info, (), session.world)
    assert lacking is not None and "parent: holds jobs" in lacking.why


def test_trees_of_any_depth() -> None:
    chain = [Queue(i, f"q{i}", parent=i - 1) for i in range(1, 300)]
    cluster = cluster_with(ROOT, *chain)
    assert len(grow_tree(cluster).branches) == 300
    link(cluster.queues)
    assert len(cluster.queues[299].above) == 299


# --- relatives ------------------------------------------------------------------------------------


def family() -> dict[str, Branch]:
    return branches(
        cluster_with(
            ROOT,
            Queue(1, "a", parent=0),
            Queue(2, "b", parent=0),
            Queue(3, "a1", parent=1),
            Queue(4, "a2", parent=1),
            Queue(5, "a21", parent=4),
            Queue(6, "b1", parent=2),
        )
    )


@pytest.mark.parametrize(
    ("one", "other", "parted", "close"),
    [
        ("a1", "a21", ("a1", "a2"), 1),
        ("a21", "b1", ("a", "b"), 0),
        ("a1", "a1", ("a1", "a1"), 2),
        ("a21", "a2", ("a21", "a2"), 2),
    ],
)
def test_where_the_ways_of_two_part(
    one: str, other: str, parted: tuple[str, str], close: int
) -> None:
    of = family()
    left, right = of[one], of[other]
    assert tuple(branch.queue.name for branch in parting(left, right)) == parted
    assert kinship(left, right) == kinship(right, left) == close
    assert len(own_side(left, right)) == len(left.above) + 1 - close


# --- may it have more? ----------------------------------------------------------------------------


def may(session: Session, queue: str, cpu: float) -> bool:
    info = next(q for q in session.world.queues.values() if q.queue.name == queue)
    return session.allocatable(info, ((CPU, round(cpu * 1000)),), session.world)


def test_every_queue_above_has_to_have_room() -> None:
    cluster = tree_of()
    cluster.queue("top", parent="root", capability={"cpu": 8})
    cluster.queue("mid", parent="top", capability={"cpu": 6})
    cluster.queue("low", parent="mid")
    cluster.queue("side", parent="top")
    cluster.job("l", queue="low", tasks=3, on=["n"] * 3)
    cluster.job("s", queue="side", tasks=4, on=["n"] * 4)
    session = cluster.open()
    assert may(session, "low", 1) and not may(session, "low", 1.5)
    lacking = session.lacking(cluster.queue_named("low"), ((CPU, 2000),), session.world)
    assert lacking is not None and lacking.queue.queue.name == "top"
    assert not may(session, "top", 0) and not may(session, "mid", 0)  # no leaves


def test_entry_asks_all_above_and_the_cluster() -> None:
    cluster = tree_of(cpu=6)
    cluster.queue("a", parent="root", capability={"cpu": 4})
    cluster.queue("a1", parent="a")
    cluster.queue("a2", parent="a")
    cluster.queue("b", parent="root")
    for name, queue, cpu in (("1", "a1", 2), ("2", "a2", 3), ("3", "b", 2), ("4", "b", 3)):
        least = cluster.requests(cpu=cpu)
        cluster.job(name, queue=queue, phase="Pending", min_resources=least)
    phases = cluster.run().phases
    assert [phases[f"default/{n}"] for n in "1234"] == ["Inqueue", "Pending", "Inqueue", "Pending"]


def test_entry_asks_the_cluster_where_nobody_describes_root() -> None:
    cluster = Cluster(
        PluginOption("capacity", flags={"enableHierarchy": True}), actions=["enqueue"]
    )
    cluster.node("n", cpu=3)
    for name in "ab":
        cluster.queue(name)
        cluster.job(name, queue=name, phase="Pending", min_resources=cluster.requests(cpu=2))
    assert list(cluster.run().phases.values()) == ["Inqueue", "Pending"]


# --- order ----------------------------------------------------------------------------------------


def test_order_compares_shares_where_the_ways_part() -> None:
    """x1 has less of its own share than y1, but x has more of its than y."""
    cluster = tree_of()
    for name in "xy":
        cluster.queue(name, parent="root", deserved={"cpu": 4})
    cluster.queue("x1", parent="x", deserved={"cpu": 4})
    cluster.queue("x2", parent="x", deserved={"cpu": 4})
    cluster.queue("y1", parent="y", deserved={"cpu": 2})
    cluster.queue("first", parent="x", priority=5, deserved={"cpu": 1})
    for queue, has in (("x1", 1), ("x2", 3), ("y1", 2)):
        cluster.job(queue, queue=queue, tasks=has, on=["n"] * has)
    session = cluster.open()
    of = {info.queue.name: info for info in session.world.queues.values()}
    assert session.compare_queues(of["y1"], of["x1"]) < 0
    assert session.compare_queues(of["x1"], of["x2"]) < 0
    assert session.compare_queues(of["first"], of["y1"]) < 0
    assert session.compare_queues(of["y1"], of["x"]) < 0  # leaves first
    assert session.compare_queues(of["x"], of["y1"]) > 0


def test_victims_come_from_close_relatives_first() -> None:
    cluster = tree_of()
    cluster.queue("a", parent="root")
    cluster.queue("b", parent="root")
    for name, parent in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        cluster.queue(name, parent=parent)
    session = cluster.open()
    of = {info.queue.name: info for info in session.world.queues.values()}
    assert session.compare_victim_queues(of["a2"], of["b1"], of["a1"]) < 0
    assert session.compare_victim_queues(of["b1"], of["a2"], of["a1"]) > 0
    # no closer than each other: whoever goes last in order
    assert session.compare_victim_queues(of["b1"], of["b2"], of["a1"]) > 0


# --- reclaim --------------------------------------------------------------------------------------


def reclaim(cluster: Cluster, reclaimer: str) -> list[str]:
    """Victims for the job's first task; [] where it may not reclaim at all."""
    session = cluster.open()
    jobs = {job.job.name: job for job in session.world.session_jobs()}
    asks = jobs[reclaimer]
    assert asks.queue is not None
    if not session.preemptive(asks.queue, asks.tasks[:1]):
        return []
    others = [
        task
        for job in jobs.values()
        for task in job.tasks
        if task.status is Status.RUNNING and job.queue is not asks.queue
    ]
    return [task.name for task in session.reclaimable(asks.tasks[0], others)]


def lent(level: int, **amounts: float) -> Cluster:
    """Each of a and b has a child; b1 uses 4. ``amounts``: what queues deserve."""
    cluster = tree_of(level)
    for name, parent in (("a", "root"), ("b", "root"), ("a1", "a"), ("b1", "b")):
        deserved = {"cpu": amounts[name]} if name in amounts else {}
        cluster.queue(name, parent=parent, deserved=deserved)
    cluster.job("old", queue="b1", tasks=4, minimum=1, on=["n"] * 4)
    cluster.job("new", queue="a1")
    return cluster


def test_parents_of_victims_count_up_to_the_level() -> None:
    within = {"a1": 2, "b1": 1, "b": 4}
    assert len(reclaim(lent(0, **within), "new")) == 3
    assert reclaim(lent(1, **within), "new") == []
    assert len(reclaim(lent(1, **{**within, "b": 3}), "new")) == 1  # then b has what it deserves
    assert len(reclaim(lent(1, a1=2, b1=1), "new")) == 3  # b deserves nothing: it protects nothing


def test_a_right_may_come_from_a_parent_up_to_the_level() -> None:
    assert reclaim(lent(0, a=1), "new") == []
    assert len(reclaim(lent(1, a=1), "new")) == 4


def siblings(level: int, **deserved: float) -> Cluster:
    cluster = tree_of(level)
    cluster.queue("p", parent="root", deserved={"cpu": 8})
    for name in ("p1", "p2"):
        own = {"cpu": deserved[name]} if name in deserved else {}
        cluster.queue(name, parent="p", deserved=own)
    cluster.job("old", queue="p2", tasks=4, minimum=1, on=["n"] * 4)
    cluster.job("new", queue="p1")
    return cluster


def test_a_shared_parent_gives_no_right_and_no_protection() -> None:
    assert reclaim(siblings(1), "new") == []  # else siblings could reclaim from each other for ever
    assert len(reclaim(siblings(1, p1=2, p2=1), "new")) == 3
    assert len(reclaim(siblings(2, p1=2, p2=1), "new")) == 3


def test_a_parent_guarantee_protects_against_reclaim_from_other_subtrees() -> None:
    cluster = tree_of()
    cluster.queue("a", parent="root", deserved={"cpu": 8})
    cluster.queue("b", parent="root", guarantee={"cpu": 3})
    cluster.queue("b1", parent="b")
    cluster.queue("b2", parent="b", deserved={"cpu": 8})
    cluster.job("old", queue="b1", tasks=4, minimum=1, on=["n"] * 4)
    cluster.job("far", queue="a")
    cluster.job("near", queue="b2")
    assert len(reclaim(cluster, "far")) == 1
    assert len(reclaim(cluster, "near")) == 4  # what b has stays the same
