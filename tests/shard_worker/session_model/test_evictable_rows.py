"""The nodes with possible victims, in a world that reads others' jobs as it looks at nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.status import EVICTABLE
from shard_worker.session_model.world import Mask, World

NODES = 4


@dataclass(frozen=True)
class Elsewhere:
    """The jobs of a whole world, for another world that reads them one by one."""

    world: World
    at_first: Mask
    """The rows with possible victims when the turn began."""
    spared: Collection[int] = ()

    def jids_on(self, row: int) -> Sequence[int]:
        return sorted({task.job.job.jid for task in self.world.resident.get(row, ())})

    def jids(self) -> Sequence[int]:
        return list(self.world.jobs)

    def jids_on_nodes(self, queue: str, inside: bool | None) -> Sequence[int]:
        return [jid for row in self.world.resident for jid in self.jids_on(row)]

    def job(self, jid: int) -> SessionJob:
        return self.world.session_job(jid)

    def evictable(self, size: int) -> Mask:
        assert size == len(self.at_first)
        return self.at_first.copy()


@given(random=st.randoms(use_true_random=False))
def test_they_are_those_of_a_scan_after_every_look_and_eviction(random: Random) -> None:
    session = _full(random).open()
    whole = session.world
    others = Elsewhere(whole, whole.evictable_rows().copy())
    session.enter(World(view=whole.view, queues=whole.queues, whole=False, others=others))
    statement = WorldStatement(session)
    for _ in range(random.randint(1, 12)):
        _step(random, session.world, statement)
        assert session.world.evictable_rows().tolist() == _scan(session.world).tolist()


def _full(random: Random) -> Cluster:
    cluster = Cluster("gang")
    for number in range(NODES):
        cluster.node(f"n{number}", cpu=8)
    for number in range(random.randint(1, 6)):
        on = [f"n{random.randrange(NODES)}" for _ in range(random.randint(1, 3))]
        cluster.job(f"j{number}", tasks=len(on), cpu=1, on=on)
    return cluster


def _step(random: Random, world: World, statement: WorldStatement) -> None:
    """Look at a node or a job, evict what was looked at, or take evictions back."""
    choice = random.randrange(4)
    running = [task for there in world.resident.values() for task in there]
    running = [task for task in running if task.status & EVICTABLE]
    if choice == 0:
        world.tasks_on(random.randrange(NODES))
    elif choice == 1:
        world.session_job(random.choice(list(world.others.jids() if world.others else ())))
    elif choice == 2 and running:
        statement.evict(random.choice(running), "preempt (gang): for test")
    else:
        statement.rollback(random.randint(0, statement.checkpoint))


def _scan(world: World) -> Mask:
    """Oracle of evictable rows: the others' report for unread rows, and the tasks of read ones."""
    assert world.others is not None
    rows = world.others.evictable(world.size)
    for row in range(world.size):
        there = world.resident.get(row, [])
        if row in world._rows_read:
            rows[row] = False
        rows[row] |= any(task.status & EVICTABLE for task in there)
    return rows
