"""A flat job gets the same nodes from the fast path and from a session over a world: role by role
where roles differ in priority, else member by member."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from coordinator.intake.admission.membership import group_of, make_groups
from shard_worker.dialects.volcano.actions.allocate import AllocateResult, allocate_job
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster
from shard_worker.placement.plain_class import is_plain, plain_classes
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import Status
from shard_worker.topology.domain_room import room_per_row
from shard_worker.turns.flat_turn import PlacedTurn, place
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from shared.messages.messages import ALLOCATE, TaskRun, Turn
from shared.model.constraints import Constraints, PodTerm
from shared.model.model import Node, Role, TaskClass
from shared.policy.model import PluginOption
from tests.examples import examples


class Ranked:
    """Tells all nodes apart: of equals the two ways take different ones."""

    name = "ranked"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_node_order_fn(self._rank)

    @staticmethod
    def _rank(task_class: TaskClass, node: Node) -> float:
        return 0.01 * math.sqrt(2 + node.row) * (1 + len(task_class.selector))


class Mapped:
    """Adds nothing to any score, but by a point that only the way of all rows knows."""

    name = "mapped"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_node_map_fn(lambda task, row, world: 0.0)


@dataclass(frozen=True)
class DrawnNode:
    cpu: int
    used: int
    leaving: int
    own: bool
    disk: bool


@dataclass(frozen=True)
class DrawnJob:
    roles: tuple[tuple[str, int, int, bool, int, int], ...]
    """(name, tasks, CPUs, picky, minimum, priority)"""
    spare: int
    """How many tasks more than the minimum there are."""
    priority: int


nodes = st.builds(
    DrawnNode, st.integers(1, 5), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans()
)
role = st.tuples(
    st.sampled_from(["a", "b", "c", ""]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 1),
)
jobs = st.builds(
    DrawnJob,
    st.lists(role, min_size=1, max_size=3, unique_by=lambda r: r[0]).map(tuple),
    st.integers(0, 4),
    st.integers(0, 1),
)
plugins = st.sampled_from(
    [
        ("gang", "predicates", "priority"),
        ("gang", "predicates", "priority", "nodeorder"),
        ("gang", "predicates", "priority", "binpack"),
        ("priority", "gang", "predicates", "nodeorder", "binpack"),
        ("predicates", "binpack", "priority"),
    ]
)


def cluster_of(
    listed: list[DrawnNode], wanted: list[DrawnJob], named: tuple[str | type, ...], mode: Mode
) -> Cluster:
    cluster = Cluster(*named, Ranked, mode=mode)
    for i, node in enumerate(listed):
        labels = {"rank": str(i), **({"disk": "ssd"} if node.disk else {})}
        cluster.node(f"n{i}", cpu=node.cpu, own=node.own, labels=labels)
        used = min(node.used, node.cpu)
        leaving = min(node.leaving, node.cpu - used)
        cluster.job(f"runs{i}", tasks=used, on=[f"n{i}"] * used)
        cluster.job(f"leaves{i}", tasks=leaving, on=[f"n{i}"] * leaving, status=Status.RELEASING)
    for i, job in enumerate(wanted):
        minima = tuple((name, least) for name, _, _, _, least, _ in job.roles if name and least)
        total = sum(count for _, count, *_ in job.roles)
        roles: list[Role] = []
        first = 0
        # Ties between members of one index go by uid, which begins with the role.
        for name, count, cpu, picky, _, priority in sorted(job.roles):
            cls = TaskClass(
                requests=cluster.requests(cpu=cpu, pods=1),
                selector=(("disk", "ssd"),) if picky else (),
            )
            group = group_of(name, minima)
            cid = cluster.class_of(cls)
            roles.append(Role(name, cid, first, count, group, priority=priority))
            first += count
        groups = make_groups(max(total - job.spare, 0), minima)
        cluster.job(f"job{i}", roles=roles, groups=groups, role_minima=minima)
    return cluster


def turn_of(ssn: Session, job: SessionJob) -> Turn:
    """One turn: the gang, or one task of a job that is ready."""
    runs = [
        TaskRun(role.cid, role.group, role.name, left, rank=1 - role.priority, first=role.first)
        for role in sorted(job.job.roles, key=lambda role: (ssn.task_key(role), role.first))
        if (left := [t.tix for t in job.tasks if t.role is role and t.status is Status.PENDING])
    ]
    return Turn(
        jid=job.job.jid,
        job_version=1,
        qid=job.qid,
        priority=job.job.priority,
        groups=[replace(g, held=job.held[i]) for i, g in enumerate(job.job.groups)],
        runs=runs,
        total=job.job.tasks,
        tail=0,
    )


def outcome_of(placed: PlacedTurn) -> AllocateResult:
    if not placed.core:
        return AllocateResult.NOTHING
    bound = any(p.kind == ALLOCATE for p in placed.core)
    return AllocateResult.COMMITTED if bound else AllocateResult.PIPELINED


def where(job: SessionJob, kinds: bool) -> dict[int, tuple[int, bool]]:
    """Task -> its row, and whether it is bound there (else promised)."""
    placed_states = Status.BINDING | Status.ALLOCATED | Status.PIPELINED
    return {
        t.tix: (t.row, bool(t.status & Status.BINDING) and kinds)
        for t in job.tasks
        if t.status & placed_states
    }


def counts_agree(ssn: Session, job: SessionJob) -> bool:
    """Whether a compiled class has counted how many tasks each row has room for."""
    for task in job.tasks:
        compiled = plain_classes(ssn).compiled(task)
        rooms = room_per_row(ssn, task.cls, ssn.world.in_reach())
        if compiled is not None and not np.array_equal(compiled.counts, rooms):
            return False
    return True


@settings(max_examples=examples(70))
@given(
    st.lists(nodes, min_size=1, max_size=5),
    st.lists(jobs, min_size=1, max_size=3),
    plugins,
    st.sampled_from(list(Mode)),
    st.booleans(),
)
def test_same_turns_same_places(
    listed: list[DrawnNode], wanted: list[DrawnJob], named: tuple[str, ...], mode: Mode, plain: bool
) -> None:
    """``plain``: the session may judge classes as the fast path does, or goes through all rows."""
    ssn = cluster_of(listed, wanted, named if plain else (*named, Mapped), mode).open()
    other = cluster_of(listed, wanted, named, mode).open()
    classes = CompiledClasses(view=other.world.view, session=other, mode=mode, seed=1)
    for job in ssn.world.session_jobs():
        if not job.job.name.startswith("job") or ssn.job_valid(job, ssn.world):
            continue
        assert not other.slow
        assert all(is_plain(ssn, task.cls) is plain for task in job.tasks)
        twin = other.world.session_job(job.job.jid)
        for _ in job.tasks:
            assert counts_agree(ssn, job)
            before = where(job, kinds=True)
            placed = place(
                turn_of(other, twin), session=other, view=other.world.view, classes=classes
            )
            outcome = allocate_job(ssn, job)
            after = where(job, kinds=outcome is AllocateResult.COMMITTED)
            mine = {t: after[t] for t in after if t not in before}
            theirs = {
                p.task: (p.row, p.kind == ALLOCATE and outcome is AllocateResult.COMMITTED)
                for p in placed.core
            }
            event(outcome.name)
            assert mine == theirs
            if outcome is AllocateResult.PIPELINED:
                return  # from here on one promises what the other holds
            if outcome is AllocateResult.NOTHING:
                break
            for p in placed.core:
                task = twin.tasks[p.task]
                task.row = p.row
                twin.move(task, Status.BINDING if p.kind == ALLOCATE else Status.PIPELINED)


def test_the_two_ways_can_differ() -> None:
    """The comparison is of something: with another score the same job goes elsewhere."""
    listed = [DrawnNode(4, 0, 0, True, False)] * 3
    expected = [DrawnJob((("a", 2, 1, False, 0, 0),), 0, 0)]
    first = cluster_of(listed, expected, ("gang", "predicates", "binpack"), Mode.NONE)
    second = cluster_of(listed, expected, ("gang", "predicates", "nodeorder"), Mode.NONE)
    assert first.run().binds != second.run().binds


pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("weight", [0, 50])
def test_anti_affinity_of_running_pods_applies_to_plain_tasks(weight: int) -> None:
    """A pod repels (weight 0: forbids) all others from its zone; the plain task goes elsewhere."""
    cluster = Cluster("gang", "predicates", "nodeorder")
    for i, zone in enumerate("aab"):
        cluster.node(f"n{i}", labels={"zone": zone})
    apart = PodTerm("zone", (), (), anti=True, weight=weight)
    rules = {"constraints": Constraints(pod_terms=(apart,))}
    cluster.job("lone", on=["n0"], rules=rules)
    cluster.job("full", tasks=6, on=["n2"] * 6)
    cluster.job("plain", cpu=1)
    ssn = cluster.open()
    plain = next(job for job in ssn.world.session_jobs() if job.job.name == "plain")
    assert is_plain(ssn, plain.tasks[0].cls)
    allocate_job(ssn, plain)
    assert cluster.result(ssn).binds == {"default/plain-0": "n2"}
