"""Properties of queues, whatever they are and whatever is allowed in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.volcano.plugins.queue.proportion import water_fill
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.queue_limits import guarantees
from shard_worker.session_model.queue_totals import link, used
from shard_worker.session_model.queue_tree import Tree, grow_tree, side_by_side
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo
from shared.codec.packed import replace
from shared.model.model import Queue, Requests
from shared.policy.model import PluginOption
from shared.units.slots import CPU, MEMORY
from tests.examples import examples

SLOTS = (CPU, MEMORY, 5)
TOTAL = {CPU: 64, MEMORY: 64, 5: 16}
amounts = st.dictionaries(st.sampled_from(SLOTS), st.integers(1, 80), max_size=3)


def frozen(of: Amounts) -> Requests:
    return tuple(sorted(of.items()))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterInfo:
    """Queues in a tree; guarantees that can be kept: within the parent's, and its limit."""
    cluster = ClusterInfo(total=dict(TOTAL))
    room: dict[int, Amounts] = {0: dict(TOTAL)}
    limits: dict[int, Amounts] = {0: {}}
    cluster.queues[0] = QueueInfo(queue=Queue(0, "root"))
    for qid in range(1, draw(st.integers(2, 9))):
        parent = draw(st.integers(0, qid - 1))
        capability = {**limits[parent], **draw(amounts)}
        guarantee = {}
        for slot in draw(st.sets(st.sampled_from(SLOTS))):
            most = min(room[parent].get(slot, 0), capability.get(slot, 80))
            guarantee[slot] = draw(st.integers(0, most))
            room[parent][slot] = room[parent].get(slot, 0) - guarantee[slot]
        room[qid], limits[qid] = dict(guarantee), capability
        queue = Queue(
            qid,
            f"q{qid}",
            parent=parent,
            weight=draw(st.integers(1, 4)),
            capability=frozen(capability),
            guarantee=frozen(guarantee),
            deserved=frozen(draw(amounts)),
        )
        cluster.queues[qid] = QueueInfo(queue=queue, requested=draw(amounts), jobs=1)
    link(cluster.queues)
    return cluster


def check_bounds(tree: Tree) -> None:
    for branch in tree.branches.values():
        for slot, least in branch.queue.guarantee:
            assert least <= branch.deserved.get(slot, 0)
        for slot, amount in branch.deserved.items():
            assert amount <= branch.real.get(slot, 0) or slot not in branch.real
        for slot, most in branch.queue.capability or ():
            assert branch.real[slot] <= most


@settings(max_examples=examples(40))
@given(clusters())
def test_guarantee_deserved_and_limit_are_in_this_order(cluster: ClusterInfo) -> None:
    tree = grow_tree(cluster)
    assert not tree.trouble and len(tree.branches) == len(cluster.queues)
    check_bounds(tree)
    assert tree.root is not None
    for branch in tree.branches.values():
        above = branch.above[0] if branch.above else tree.root
        if branch is not tree.root:
            assert all(most <= above.real[slot] for slot, most in branch.real.items())


@settings(max_examples=examples(40))
@given(clusters())
def test_side_by_side_as_well(cluster: ClusterInfo) -> None:
    for info in cluster.queues.values():  # what is guaranteed below a queue is not so twice
        info.queue = replace(info.queue, guarantee=())
    check_bounds(side_by_side(cluster))


@settings(max_examples=examples(40))
@given(clusters())
def test_shares_add_up_to_no_more_than_there_is(cluster: ClusterInfo) -> None:
    """A guarantee is kept, if what was dealt before did not leave it: as much may be too much."""
    for info in list(cluster.queues.values()):
        if info.queue.parent > 0:  # guarantees of children are part of their parents'
            info.queue = replace(info.queue, guarantee=())
    shares = water_fill(cluster)
    guaranteed = guarantees(info.queue for info in cluster.queues.values())
    for slot, total in TOTAL.items():
        most = total + guaranteed.get(slot, 0)
        assert sum(share.get(slot, 0) for share in shares.values()) <= most + 1e-6
    for qid, share in shares.items():
        queue = cluster.queues[qid].queue
        assert all(share[slot] >= least for slot, least in queue.guarantee)


# --- sequences ------------------------------------------------------------------------------------

moves = st.lists(st.tuples(st.integers(0, 19), st.sampled_from("apeu")), max_size=25)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """A tree of queues with jobs in its leaves, under capacity."""
    option = PluginOption("capacity", flags={"enableHierarchy": True})
    cluster = Cluster(option)
    cluster.node("n", cpu=40, memory=40)
    names = ["root"]
    cluster.queue("root")
    parents = set()
    for i in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from(names))
        parents.add(parent)
        fields: dict[str, Any] = {"deserved": {"cpu": draw(st.integers(0, 8))}}
        if draw(st.booleans()):
            fields["capability"] = {"cpu": draw(st.integers(1, 8))}
        cluster.queue(f"q{i}", parent=parent, **fields)
        names.append(f"q{i}")
    for name in names:
        if name not in parents:
            cpu = draw(st.integers(1, 3))
            cluster.job(name, queue=name, tasks=4, minimum=1, cpu=cpu, memory=1)
    return cluster.open()


def within_limits(session: Session) -> None:
    world = session.world
    for branch in grow_tree(world).branches.values():
        has = used(world.queues[branch.qid])
        assert has.get(CPU, 0) <= branch.real[CPU], (branch.queue.name, has, branch.real)


@settings(max_examples=examples(60))
@given(sessions(), moves)
def test_no_sequence_that_is_allowed_takes_a_queue_beyond_its_limit(
    session: Session, steps: list[tuple[int, str]]
) -> None:
    statement = WorldStatement(session)
    tasks = list(session.world.tasks())
    for which, what in steps:
        task = tasks[which % len(tasks)]
        queue = task.job.queue
        assert queue is not None
        if what == "u":
            statement.rollback(len(statement.operations) // 2)
        elif what == "e" and task.status.name == "ALLOCATED":
            statement.evict(task, "test")
        elif task.status.name == "PENDING" and session.task_allocatable(queue, task):
            (statement.allocate if what == "a" else statement.pipeline)(task, 0)
        within_limits(session)
    used_before = {qid: used(info) for qid, info in session.world.queues.items()}
    link(session.world.queues)
    for qid, info in session.world.queues.items():
        assert {s: a for s, a in used_before[qid].items() if a} == {
            s: a for s, a in used(info).items() if a
        }
    statement.rollback()
    assert not any(any(used(info).values()) for info in session.world.queues.values())
