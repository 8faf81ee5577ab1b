"""Random trees and jobs: what a topology promises holds, and what is skipped was without hope."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.volcano.actions.allocate import admitted, execute
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.topology.domain_search import DomainSearch
from shard_worker.view.hyper_tree import HyperTree
from shared.model.model import Role, TaskClass
from shared.model.topology import HyperNode, SubGroupPolicy, Topology
from shared.units.slots import CPU
from tests.examples import examples
from tests.shard_worker.racks import NTA, job_of, tree_of

PART = "volcano.sh/partition"


@dataclass(frozen=True)
class Wanted:
    parts: tuple[tuple[int, int], ...]
    """(tasks, CPUs each) of every partition."""
    size: int
    """Tasks that a partition needs."""
    enough: int
    """Partitions that are needed."""
    spare: int
    tier: int | None
    part_tier: int | None
    grouped: bool
    placed: int
    """Tasks that run already, on the first nodes."""


racks = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=0, max_size=3),
    min_size=1,
    max_size=6,
)
"""(CPUs, in use) of each node of each rack."""
topologies = st.sampled_from([None, 0, 1, 1, 2, 2, 3])
"""Highest tier; None: none, 0: soft."""
wanted = st.builds(
    Wanted,
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3).map(tuple),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    topologies,
    topologies,
    st.booleans(),
    st.integers(0, 2),
)


def topology(tier: int | None) -> Topology | None:
    return None if tier is None else Topology(hard=tier > 0, highest_tier=tier or None)


def cluster_of(shape: list[list[tuple[int, int]]], jobs: list[Wanted]) -> Cluster:
    cluster = Cluster("gang", "predicates", "binpack", NTA)
    listed = []
    for i, rack in enumerate(shape):
        names = tuple(f"n{i}-{k}" for k in range(len(rack)))
        for name, (cpu, used) in zip(names, rack, strict=True):
            cluster.node(name, cpu=cpu)
            listed.append((name, cpu - min(cpu, used)))
            cluster.job(f"on-{name}", tasks=min(cpu, used), on=[name] * min(cpu, used))
        cluster.hyper_node(HyperNode.of(f"r{i}", 1, names))
    for i in range(0, len(shape), 2):
        rack_names = tuple(f"r{k}" for k in range(i, min(i + 2, len(shape))))
        cluster.hyper_node(HyperNode.of(f"row{i}", 2, (), rack_names))
    if not listed:
        cluster.node("lone", cpu=1)
    for i, job in enumerate(jobs):
        _add(
            cluster,
            f"job{i}",
            job,
            [name for name, free in listed if free >= 3][:1] if not i else [],
        )
    return cluster


def _add(cluster: Cluster, name: str, job: Wanted, free: list[str]) -> None:
    roles: list[Role] = []
    first = 0
    for i, (count, cpu) in enumerate(job.parts):
        cid = cluster.class_of(TaskClass(requests=cluster.requests(cpu=cpu, pods=1)))
        labels = ((PART, str(i)),) if job.grouped else ()
        names = tuple(f"{name}-{i}{k}" for k in range(count))
        roles.append(Role(f"p{i}", cid, first, count, labels=labels, names=names))
        first += count
    fields: dict[str, Any] = {"topology": topology(job.tier)}
    if job.grouped:
        fields["sub_groups"] = (
            SubGroupPolicy(
                "p",
                job.size,
                min(job.enough, len(roles)),
                topology(job.part_tier),
                match_label_keys=(PART,),
            ),
        )
    on = free if job.placed else []
    cluster.job(name, roles=roles, minimum=max(first - job.spare, 0), on=on, **fields)


def ours(ssn: Session) -> list[SessionJob]:
    return [job for job in ssn.world.session_jobs() if job.job.name.startswith("job")]


def tier_of(tree: HyperTree, rows: set[int]) -> int:
    """The tier of the lowest domain that has all these rows."""
    tiers = [d.tier for d in tree.listed if rows <= set(d.rows.tolist())]
    return min(tiers)


@settings(max_examples=examples(35))
@given(racks, st.lists(wanted, min_size=1, max_size=3))
def test_tiers_and_minima_hold(shape: list[list[tuple[int, int]]], jobs: list[Wanted]) -> None:
    cluster = cluster_of(shape, jobs)
    ssn = cluster.open()
    tree = tree_of(ssn)
    before = {id(task) for task in ssn.world.tasks() if task.status & OCCUPYING}
    execute(ssn)
    assert (ssn.world.idle(CPU) >= 0).all()
    for job in ours(ssn):
        fresh = [t for t in job.tasks if t.status is Status.BINDING]
        event("placed" if fresh else "not placed")
        if not fresh:
            continue
        assert job.census.ready >= job.minimum
        _tier_holds(tree, job.job.topology, {t.row for t in job.tasks if t.status & OCCUPYING})
        good: Counter[str] = Counter()
        for sub in job.subs.values():
            rows = {t.row for t in sub.tasks if t.status & OCCUPYING}
            if rows & {t.row for t in sub.tasks if id(t) not in before}:
                _tier_holds(tree, sub.topology, rows)
            if sub.policy is not None and job.has_sub_groups:
                good[sub.policy.name] += sub.ready
        for policy in job.job.sub_groups:
            assert good[policy.name] >= policy.minimum


def _tier_holds(tree: HyperTree, topology: Topology | None, rows: set[int]) -> None:
    highest = tree.highest(topology)
    if highest is not None:
        assert tier_of(tree, rows) <= highest


@settings(max_examples=examples(35))
@given(racks, st.lists(wanted, min_size=1, max_size=2))
def test_no_domain_is_counted_out_in_which_the_job_had_a_place(
    shape: list[list[tuple[int, int]]], jobs: list[Wanted]
) -> None:
    cluster = cluster_of(shape, jobs)
    counted, tried = cluster.open(), cluster.again().open()
    for ssn in (counted, tried):
        _leave_half(ssn)
    for job in ours(counted):
        outcomes: list[object] = []
        for ssn, count in ((counted, True), (tried, False)):
            mine = job_of(ssn, job.job.name)
            sheet = admitted(ssn, mine)
            if sheet is None:
                break
            search = DomainSearch(ssn, sheet, tree_of(ssn))
            if not count:
                search.room.hopeless = lambda *_: False  # type: ignore[method-assign]
            outcomes.append(search.run(tree_of(ssn).root))
            event(f"counted out: {bool(search.counted_out)}")
            outcomes.append({t.tix: t.row for t in mine.tasks})
            search.statement.rollback()
        assert outcomes[:2] == outcomes[2:]


@settings(max_examples=examples(30))
@example([[(1, 0), (2, 0)], [(2, 0)]], Wanted(((2, 1),), 1, 0, 0, 0, None, True, 0))
@given(racks, wanted)
def test_trying_the_best_first_finds_what_trying_all_finds(
    shape: list[list[tuple[int, int]]], job: Wanted
) -> None:
    cluster = cluster_of(shape, [job])
    scores = []
    for ssn, alone in ((cluster.again().open(), True), (cluster.again().open(), False)):
        if not alone:
            ssn.scored_alone = lambda sub: False  # type: ignore[method-assign]
        sheet = admitted(ssn, job_of(ssn, "job0"))
        if sheet is None:
            return
        search = DomainSearch(ssn, sheet, tree_of(ssn))
        search.run(tree_of(ssn).root)
        scores.append(None if search.best is None else round(search.best.score, 6))
    assert scores[0] == scores[1]


@settings(max_examples=examples(25))
@given(racks, st.lists(wanted, min_size=1, max_size=2))
def test_a_search_that_finds_nothing_leaves_nothing(
    shape: list[list[tuple[int, int]]], jobs: list[Wanted]
) -> None:
    ssn = cluster_of(shape, jobs).open()
    for job in ours(ssn):
        sheet = admitted(ssn, job)
        if sheet is None:
            continue
        before = _image(ssn)
        search = DomainSearch(ssn, sheet, tree_of(ssn))
        search.run(tree_of(ssn).root)
        search.statement.rollback()
        assert _image(ssn) == before


def _image(ssn: Session) -> object:
    amounts = {slot: n for slot, n in ssn.world.queues[0].allocated.items() if n}
    tasks = [(t.tix, t.row, t.status) for t in ssn.world.tasks()]
    subs = [s.allocated_hyper_node for j in ours(ssn) for s in j.subs.values()]
    return ssn.world.idle(CPU).tolist(), ssn.world.future_idle(CPU).tolist(), amounts, tasks, subs


def _leave_half(ssn: Session) -> None:
    """Every other task that runs is on its way out: there is room later that is not there now."""
    statement = WorldStatement(ssn)
    for job in ssn.world.session_jobs():
        if job.job.name.startswith("on-"):
            for task in job.tasks[::2]:
                statement.evict(task, "test")
