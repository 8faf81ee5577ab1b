"""The harness opens worlds whose books agree with what was said of them."""

from __future__ import annotations

from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shared.units.slots import CPU


def small() -> Cluster:
    cluster = Cluster("gang", "priority")
    cluster.node("a", cpu=4)
    cluster.node("b", cpu=4)
    cluster.job("runs", tasks=3, cpu=1, on=["a", "a"])
    cluster.job("waits", tasks=2, cpu=2)
    return cluster


def test_amounts_counts_and_totals_follow_from_the_events() -> None:
    session = small().open()
    world = session.world
    runs, waits = world.session_jobs()
    assert world.idle(CPU).tolist() == [2000, 4000]
    assert [task.key for task in world.tasks_on(0)] == ["default/runs-0", "default/runs-1"]
    assert (runs.census.ready, runs.pending, waits.pending) == (2, 1, 2)
    assert world.queues[0].allocated[CPU] == 2000
    assert world.queues[0].requested[CPU] == 3000 + 4000
    assert session.job_starving(runs) and not runs.is_ready


def test_rollback_restores_every_count_and_redo_repeats_it() -> None:
    session = small().open()
    world = session.world
    runs, waits = world.session_jobs()
    before = (world.view.columns.image(), dict(world.queues[0].allocated), list(runs.held))
    statement = WorldStatement(session)
    statement.evict(runs.tasks[0], "test")
    statement.allocate(waits.tasks[0], 1)
    statement.pipeline(waits.tasks[1], 0)
    assert world.future_idle(CPU).tolist() == [1000, 2000]
    assert world.idle(CPU).tolist() == [2000, 2000]
    assert world.queues[0].allocated[CPU] == 1000 + 4000
    assert waits.is_pipelined and not waits.is_ready
    undone = statement.rollback()
    after = (world.view.columns.image(), dict(world.queues[0].allocated), list(runs.held))
    assert after == before
    assert [task.status for task in world.tasks()].count(Status.PENDING) == 3
    statement.redo(undone)
    assert [op.task for op in statement.operations] == [op.task for op in undone]
    assert waits.tasks[1].status is Status.PIPELINED
    statement.commit()
    assert waits.tasks[0].status is Status.BINDING
    assert small().result(session).evicted == ["default/runs-0"]
