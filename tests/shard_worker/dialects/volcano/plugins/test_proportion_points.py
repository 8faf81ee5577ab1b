"""proportion where tasks are known: reclaim, dry runs, entry."""

from __future__ import annotations

import pytest

from shard_worker.framework.rules import Purpose
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SessionJob
from shared.units.slots import CPU


def two_queues(*, guarantee: float = 0) -> Cluster:
    """a and b deserve 4 of 8 each; b has 6, a has nothing and wants 4."""
    cluster = Cluster("proportion")
    cluster.node("n", cpu=8, memory=8)
    cluster.queue("a")
    cluster.queue("b", guarantee={"cpu": guarantee} if guarantee else {})
    cluster.job("new", queue="a", tasks=4)
    cluster.job("old", queue="b", tasks=6, minimum=1, on=["n"] * 6)
    return cluster


def jobs_of(session: Session) -> list[SessionJob]:
    return list(session.world.session_jobs())


def test_a_queue_gives_back_until_it_has_its_share() -> None:
    session = two_queues().open()
    new, old = jobs_of(session)
    victims = session.reclaimable(new.tasks[0], old.tasks)
    assert [task.name for task in victims] == ["old-0", "old-1"]
    assert session.unified_evictable(new, old.tasks, Purpose.RECLAIM) == victims
    assert session.unified_evictable(new, old.tasks, Purpose.PREEMPT) == []
    statement = WorldStatement(session)
    statement.evict(old.tasks[0], "test")
    assert len(session.reclaimable(new.tasks[0], old.tasks[1:])) == 1


def test_a_guarantee_is_left() -> None:
    session = two_queues(guarantee=6).open()
    new, old = jobs_of(session)
    assert session.reclaimable(new.tasks[0], old.tasks) == []


@pytest.mark.parametrize(("tasks", "may"), [(4, True), (5, False)])
def test_a_queue_reclaims_up_to_its_share(tasks: int, may: bool) -> None:
    cluster = two_queues()
    cluster.job("more", queue="a", tasks=5)
    session = cluster.open()
    more = jobs_of(session)[2]
    assert session.preemptive(session.world.queues[0], more.tasks[:tasks]) is may


def test_a_dry_run_counts_victims_as_gone() -> None:
    session = two_queues().open()
    _, old = jobs_of(session)
    queue = session.world.queues[1]
    assert not session.simulate_allocatable(queue, old.tasks[0])
    statement = WorldStatement(session)
    for task in old.tasks[:3]:
        statement.evict(task, "test")
    assert session.simulate_allocatable(queue, old.tasks[0])


def test_why_a_queue_has_no_room_is_told() -> None:
    session = two_queues().open()
    a, b = session.world.queues.values()
    assert session.lacking(a, ((CPU, 4000),), session.world) is None
    lacking = session.lacking(b, ((CPU, 1),), session.world)
    assert lacking is not None and (lacking.queue, lacking.slots) == (b, (CPU,))


@pytest.mark.parametrize(
    ("cpu", "open_", "entered"), [(4, True, True), (5, True, False), (1, False, False)]
)
def test_entry_asks_for_the_capability_and_not_for_the_share(
    cpu: int, open_: bool, entered: bool
) -> None:
    cluster = Cluster("proportion", actions=["enqueue"])
    cluster.node("n", cpu=8)
    cluster.queue("q", capability={"cpu": 6}, open=open_)
    cluster.queue("other", guarantee={"cpu": 1})
    asks = cluster.requests
    cluster.job(
        "runs",
        queue="q",
        tasks=3,
        minimum=2,
        on=["n"] * 3,
        phase="Running",
        min_resources=asks(cpu=2),
    )
    cluster.job("new", queue="q", phase="Pending", min_resources=asks(cpu=cpu))
    assert (cluster.run().phases["default/new"] == "Inqueue") is entered
