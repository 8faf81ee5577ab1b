"""The order of a label's domains and the nodes chosen in them are those of a plain count, one
domain and one pod after the other."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.volcano.actions import allocate
from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.framework.session import Session
from shard_worker.harness import Cluster, Result
from shard_worker.placement.task_loop import Filling
from shard_worker.session_model.job import SessionJob, TaskInfo, requested
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shard_worker.topology.label_domains import HOLDS_PLACE, LabelDomain, LabelSearch
from shard_worker.view.mode import Mode
from shared.model.model import Role, TaskClass
from shared.units.slots import PODS

KEY = "rack"
MODES = st.sampled_from([Mode.NONE, Mode.SOFT, Mode.HARD])
NODE = st.tuples(
    st.sampled_from(["a", "b", "c", "", None]), st.sampled_from([1, 2, 4]), st.booleans()
)
"""Its rack, cores, whether it is of the own shard."""


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes in racks or in none, some of them taken, some of that leaving; gangs of two classes."""
    names = ("priority", "gang", "predicates", "nodeorder")
    cluster = Cluster(*names, mode=draw(MODES), actions=("allocate",))
    nodes = draw(st.lists(NODE, min_size=1, max_size=12))
    for at, (rack, cores, own) in enumerate(nodes):
        labels = {} if rack is None else {KEY: rack}
        cluster.node(f"n{at}", cpu=cores, memory=4 * cores, labels=labels, own=own)
    for at in range(len(nodes)):
        if draw(st.integers(0, 3)) == 0:
            leaves = draw(st.booleans())
            status = Status.RELEASING if leaves else Status.RUNNING
            cluster.job(f"on{at}", on=[f"n{at}"], status=status)
    small, large = (
        cluster.class_of(TaskClass(requests=cluster.requests(cpu=cpu, memory=1, pods=1)))
        for cpu in (0.5, 1)
    )
    for at in range(draw(st.integers(1, 4))):
        first, second = draw(st.integers(0, 3)), draw(st.integers(1, 4))
        named = draw(st.booleans())
        roles = [
            Role("first" if named else "", small, 0, first),
            Role("second" if named else "", large, first, second),
        ]
        minimum = draw(st.integers(1, first + second))
        cluster.job(
            f"gang{at}",
            roles=[role for role in roles if role.count],
            minimum=minimum,
            topology_key=draw(st.sampled_from([KEY, KEY, KEY, "kubernetes.io/hostname"])),
        )
    return cluster


def room_on(world: World, cls: TaskClass, row: int, *, now: bool) -> int:
    """How many tasks of the class a node has room for."""
    most = []
    for slot, amount in cls.requests:
        room, idle = world.room(row, slot), int(world.idle(slot)[row])
        most.append((min(room, idle) if now else room) // amount)
    return max(0, min(most)) if world.in_reach()[row] else 0


def ranked_plainly(ssn: Session, job: SessionJob, waiting: list[TaskInfo]) -> list[str]:
    """The values of the label in the order in which they are tried."""
    world = ssn.world
    groups: dict[tuple[int, int], list[TaskInfo]] = {}
    for task in waiting:
        groups.setdefault((id(task.role), task.cid), []).append(task)
    census = job.census
    missing = job.minimum - census.ready - census.pending_best_effort
    missing = min(max(missing, 1), len(waiting))
    held = {t.row for t in job.tasks if t.row >= 0 and t.status & HOLDS_PLACE}
    nominated = {task.nominated for task in waiting if task.nominated >= 0}

    def room(rows: list[int], *, now: bool) -> int:
        total = 0
        for group in groups.values():
            total += min(
                len(group), sum(room_on(world, group[0].cls, row, now=now) for row in rows)
            )
        return total

    def free(rows: list[int]) -> float:
        return sum(
            sum(max(world.room(row, slot), 0) for row in rows) / amount
            for slot, amount in requested(waiting).items()
            if slot != PODS
        )

    domains: dict[str, list[int]] = {}
    for row, node in enumerate(world.view.nodes):
        if node is not None and (value := node.labels.get(job.job.topology_key)):
            domains.setdefault(value, []).append(row)
    ranks = {}
    for value, rows in domains.items():
        if held <= set(rows) and (most := room(rows, now=False)) >= missing:
            promised = bool(nominated) and nominated <= set(rows)
            is_own = 2 * sum(bool(world.own()[row]) for row in rows) > len(rows)
            starts = room(rows, now=True) >= missing
            ranks[value] = (not promised, not starts, -most, not is_own, free(rows), value)
    return sorted(ranks, key=ranks.__getitem__)


class Checked(LabelSearch):
    """A search that compares itself with the plain count."""

    def __init__(self, ssn: Session, job: SessionJob, waiting: Iterable[TaskInfo]) -> None:
        tasks = list(waiting)
        super().__init__(ssn, job, tasks)
        self.expected = ranked_plainly(ssn, job, tasks)

    def ranked(self) -> list[LabelDomain]:
        found = super().ranked()
        assert [domain.value for domain in found] == self.expected
        return found


def result_of(cluster: Cluster, seed: int | None) -> tuple[Result, object]:
    session = cluster.again().open()
    session.seed = seed
    run_actions(session)
    jobs = {job.job.name: dict(job.unschedulable) for job in session.world.session_jobs()}
    return cluster.result(session), (session.skipped, jobs)


@settings(max_examples=60)
@given(clusters(), st.sampled_from([None, 7]))
def test_domains_and_nodes_are_those_of_the_plain_count(cluster: Cluster, seed: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocate, "LabelSearch", Checked)
        found = result_of(cluster, seed)
        patch.setattr(Filling, "_put_plain", lambda *_: False)
        assert found == result_of(cluster, seed)
