"""Properties of every session that evicts, over random worlds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import EVICTABLE, OCCUPYING, READY, Status
from shard_worker.session_model.workload import Amounts, add
from shard_worker.view.columns import NOMINATED, RELEASING, USED
from shared.model.model import Role, TaskClass
from shared.model.topology import HyperNode, Member, SubGroupPolicy, Topology
from tests.examples import examples
from tests.shard_worker.images import image

ACTIONS = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
TOPOLOGY_AWARE: dict[str, dict[str, object]] = {"preempt": {"enableTopologyAwarePreemption": True}}
PLUGINS = ("priority", "gang", "conformance", "predicates")


@dataclass(frozen=True)
class Before:
    """State before the session, for comparison."""

    ready: dict[int, int]
    allocated: dict[int, Amounts]


def world_of(random: Random, c: Cluster, *, queues: int) -> None:
    """A few full nodes, and jobs that wait."""
    names = [f"q{i}" for i in range(queues)]
    for name in names:
        limits = {"guarantee": {"cpu": random.randint(0, 3)}} if random.random() < 0.5 else {}
        c.queue(name, weight=random.randint(1, 3), reclaimable=random.random() < 0.9, **limits)
    room = {f"n{i}": random.randint(1, 6) for i in range(random.randint(1, 4))}
    for name, cpu in room.items():
        c.node(name, cpu=cpu, own=random.random() < 0.6)
    for i in range(random.randint(2, 7)):
        cpu, tasks = random.randint(1, 3), random.randint(1, 4)
        on: list[str] = []
        while i < 4 and len(on) < tasks and (free := [n for n in room if room[n] >= cpu]):
            on.append(random.choice(free))
            room[on[-1]] -= cpu
        c.job(
            f"j{i}",
            queue=random.choice(names),
            tasks=tasks,
            minimum=random.randint(0, tasks),
            cpu=cpu,
            on=on,
            priority=random.randint(1, 3),
            task_priority=random.randint(1, 3),
        )


def before_of(session: Session) -> Before:
    world = session.world
    return Before(
        ready={job.job.jid: job.census.ready for job in world.session_jobs()},
        allocated={qid: dict(info.allocated) for qid, info in world.queues.items()},
    )


def evictors(session: Session) -> list[tuple[SessionJob, SessionJob, str]]:
    """(victim's job, evictor's job, action) of every eviction."""
    by_key = {job.job.key: job for job in session.world.session_jobs()}
    tasks = {task.key: task.job for task in session.world.tasks()}
    results = []
    for op in session.committed:
        if op.kind is OpKind.EVICT:
            report, key = op.reason.split("): for ")
            action, rules = report.split(" (")
            assert rules
            results.append((op.task.job, by_key.get(key) or tasks[key], action))
    return results


def check_books(session: Session) -> None:
    """Every total is what the tasks add up to, and no node is promised more than it will have."""
    world = session.world
    columns = {kind: np.zeros(world.size, np.int64) for kind in (USED, RELEASING, NOMINATED)}
    evictable = np.zeros(world.size, np.bool_)
    queues: dict[int, int] = dict.fromkeys(world.queues, 0)
    for task in world.tasks():
        cpu = dict(task.requests).get(0, 0)
        if task.status & (OCCUPYING | Status.RELEASING):
            columns[USED][task.row] += cpu
        if task.status & EVICTABLE:
            evictable[task.row] = True
        if task.status is Status.RELEASING:
            columns[RELEASING][task.row] += cpu
        if task.status is Status.PIPELINED:
            columns[NOMINATED][task.row] += cpu
        if task.status & (OCCUPYING | Status.PIPELINED):
            queues[task.job.qid] += cpu
    for name, kind in (("used", USED), ("releasing", RELEASING), ("nominated", NOMINATED)):
        assert (world.view.column(name, 0) == columns[kind]).all()
    assert (world.evictable_rows() == evictable).all()
    assert {qid: info.allocated.get(0, 0) for qid, info in world.queues.items()} == queues
    assert (world.future_idle(0) >= 0).all()
    for job in world.session_jobs():
        assert job.held[0] == sum(bool(task.status & READY) for task in job.tasks)


@settings(max_examples=examples(60), deadline=None)
@given(random=st.randoms(use_true_random=False), action=st.sampled_from(ACTIONS), dry=st.booleans())
def test_gangs_priorities_and_books(random: Random, action: str, dry: bool) -> None:
    arguments = TOPOLOGY_AWARE if dry else None
    c = Cluster(*PLUGINS, actions=(action,), arguments=arguments)
    world_of(random, c, queues=random.randint(1, 3))
    session = c.open()
    before, unchanged = before_of(session), image(session)
    run_actions(session)
    check_books(session)
    if not session.committed:
        assert image(session) == unchanged
    for victim, evictor, by in evictors(session):
        assert by == action
        assert victim.queue is not None and evictor.queue is not None
        if action in ("reclaim", "gangreclaim"):
            assert victim.qid != evictor.qid
            assert victim.queue.queue.reclaimable
        else:
            assert victim.qid == evictor.qid
            assert victim is evictor or victim.job.priority < evictor.job.priority
        assert evictor.is_pipelined
    for job in session.world.session_jobs():
        was, now = before.ready[job.job.jid], job.census.ready
        if now < was:
            whole = now == 0 and action.startswith("gang")
            assert now >= job.minimum or whole


@settings(max_examples=examples(60), deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    action=st.sampled_from(("reclaim", "gangreclaim")),
    shares=st.sampled_from(("proportion", "capacity")),
)
def test_no_queue_falls_below_its_guarantee(random: Random, action: str, shares: str) -> None:
    c = Cluster("gang", shares, actions=(action,))
    world_of(random, c, queues=3)
    session = c.open()
    before = before_of(session)
    run_actions(session)
    check_books(session)
    for qid, info in session.world.queues.items():
        for slot, least in info.queue.guarantee:
            was = before.allocated[qid].get(slot, 0)
            now = sum(
                dict(task.requests).get(slot, 0)
                for task in session.world.tasks()
                if task.job.qid == qid and task.status & OCCUPYING
            )
            assert now >= min(was, least)


@settings(max_examples=examples(60), deadline=None)
@given(random=st.randoms(use_true_random=False), action=st.sampled_from(ACTIONS))
def test_nothing_is_evicted_where_idle_room_suffices(random: Random, action: str) -> None:
    """One job waits, all of whose tasks are alike: what fits can be counted."""
    c = Cluster("priority", "gang", "conformance", actions=(action,))
    c.queue("a")
    c.queue("b")
    cpu, fits = random.randint(1, 3), 0
    for i in range(random.randint(1, 4)):
        total, used = random.randint(1, 8), 0
        c.node(f"n{i}", cpu=total, own=random.random() < 0.6)
        while used < total and random.random() < 0.7:
            used += 1
            c.job(f"low{i}-{used}", queue=random.choice("ab"), minimum=0, on=[f"n{i}"], priority=1)
        fits += (total - used) // cpu
    tasks = random.randint(1, 4)
    c.job("waits", queue="a", tasks=tasks, cpu=cpu, priority=2)
    session = c.open()
    run_actions(session)
    if fits >= tasks:
        assert not evictors(session)
        assert session.pipelined(
            next(
                j
                for j in session.world.session_jobs()
                if len(j.tasks) == tasks and j.job.name == "waits"
            )
        )


@settings(max_examples=examples(40), deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    action=st.sampled_from(("gangpreempt", "gangreclaim")),
    parts=st.booleans(),
)
def test_a_gang_gets_room_in_domains_that_it_may_use(
    random: Random, action: str, parts: bool
) -> None:
    """All of it below one switch of the second tier, each part below one of the first."""
    c = Cluster("priority", "gang", "conformance", "network-topology-aware", actions=(action,))
    c.queue("a")
    c.queue("b")
    for rack in range(4):
        for i in range(2):
            c.node(f"n{rack}{i}", cpu=2)
            on = f"n{rack}{i}"
            cpu = random.randint(1, 2)
            tasks = random.randint(0, 2 // cpu)
            if tasks:
                name, queue = f"low{rack}{i}", random.choice("ab")
                c.job(name, queue=queue, cpu=cpu, tasks=tasks, on=[on] * tasks, priority=1)
        members = tuple(Member(False, "exact", f"n{rack}{i}") for i in range(2))
        c.hyper_node(HyperNode(f"rack{rack}", 1, members=members))
    for hall in range(2):
        members = tuple(Member(True, "exact", f"rack{2 * hall + i}") for i in range(2))
        c.hyper_node(HyperNode(f"hall{hall}", 2, members=members))
    near = Topology(hard=True, highest_tier=1)
    policy = SubGroupPolicy(
        "part", size=2, minimum=2, topology=near, selector=(), match_label_keys=("part",)
    )
    cid = c.class_of(TaskClass(requests=c.requests(cpu=random.randint(1, 2), pods=1)))
    roles = [
        Role("w", cid, 2 * i, 2, labels=(("part", str(i)),), names=(f"w{i}0", f"w{i}1"))
        for i in range(2)
    ]
    groups = (policy,) if parts else ()
    wide = Topology(hard=True, highest_tier=2)
    c.job("gang", queue="a", roles=roles, priority=2, topology=wide, sub_groups=groups)
    session = c.open()
    run_actions(session)
    check_books(session)
    tree, gang = session.world.tree, list(session.world.session_jobs())[-1]
    assert tree is not None
    placed = [task for task in gang.tasks if task.status is Status.PIPELINED]
    assert len(placed) in (0, 4)
    if placed:
        assert tree.domains[reduce(tree.lca, (tree.leaf_of(t.row) for t in placed))].tier <= 2
        for sub in gang.subs.values() if parts else ():
            racks = {tree.leaf_of(task.row) for task in sub.tasks}
            assert racks == {sub.nominated_hyper_node}


def test_amounts_are_counted_as_the_books_do() -> None:
    """The checks above read slot 0: it is the cores."""
    c = Cluster("gang")
    total: Amounts = {}
    add(total, c.requests(cpu=2), 1)
    assert total == {0: 2000}
