"""A statement that moves: what stays, what moves, whose devices are exchanged, what is undone."""

from __future__ import annotations

import pytest

from shard_worker.dialects.kai.search.statement import SearchStatement
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import OpKind
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.model.gpu_request import WHOLE
from tests.shard_worker.dialects.kai.clusters import KaiCluster, image


def opened() -> KaiSession:
    """Node a with two devices, both taken, b with one that is free; a job of one GPU waits."""
    cluster = KaiCluster()
    cluster.node("a", gpus=2)
    cluster.node("b", gpus=1)
    for device in (0, 1):
        cluster.job(f"runs{device}", on=["a"], holding=[((f"kai-gpu/{device}", (WHOLE,)),)])
    cluster.job("waits")
    return cluster.open()


def task(session: KaiSession, name: str) -> TaskInfo:
    return next(task for task in session.world.tasks() if task.name == name)


def test_a_victim_pipelined_to_its_own_node_is_not_evicted() -> None:
    session = opened()
    before = image(session)
    statement, victim = SearchStatement(session), task(session, "runs0-0")
    statement.evict(victim, "reclaim")
    statement.pipeline(victim, 0)
    assert victim.status is Status.RUNNING
    assert not victim.evicted
    assert image(session) == before
    statement.commit()
    assert session.committed == []


def test_a_rollback_between_the_two_brings_the_eviction_back() -> None:
    session = opened()
    before = image(session)
    statement, victim = SearchStatement(session), task(session, "runs0-0")
    statement.evict(victim, "reclaim")
    evicted, checkpoint = image(session), statement.checkpoint
    statement.pipeline(victim, 0)
    statement.rollback(checkpoint)
    assert image(session) == evicted
    assert victim.status is Status.RELEASING
    statement.rollback()
    assert image(session) == before


def test_rollback_of_a_move_restores_the_node_and_the_device() -> None:
    session = opened()
    before = image(session)
    statement, victim = SearchStatement(session), task(session, "runs1-0")
    statement.evict(victim, "consolidation")
    statement.pipeline(victim, 1)
    assert (victim.status, victim.row) == (Status.PIPELINED, 1)
    assert victim.devices == (("kai-gpu/0", (WHOLE,)),)
    gpu = session.world.view.slot_names.index("nvidia.com/gpu")
    assert session.world.future_idle(gpu).tolist() == [1000, 0]
    statement.rollback()
    assert image(session) == before
    assert victim.devices == (("kai-gpu/1", (WHOLE,)),)


def test_a_move_is_one_eviction_and_one_promise() -> None:
    session = opened()
    statement, victim = SearchStatement(session), task(session, "runs1-0")
    statement.evict(victim, "consolidation")
    statement.pipeline(victim, 1)
    statement.commit()
    assert [op.kind for op in session.committed] == [OpKind.EVICT, OpKind.PIPELINE]
    assert [op.row for op in session.committed] == [0, 1]
    assert not victim.evicted  # no later search places it again


@pytest.mark.parametrize("stays", ["runs0-0", "runs1-0"])
def test_whole_devices_of_a_node_are_alike(stays: str) -> None:
    """Both leave, and somebody is promised one of the devices: whoever of the two is tried first
    stays, on its own device."""
    session = opened()
    before = image(session)
    statement = SearchStatement(session)
    for name in ("runs0-0", "runs1-0"):
        statement.evict(task(session, name), "reclaim")
    preemptor, victim = task(session, "waits-0"), task(session, stays)
    statement.pipeline(preemptor, 0)
    own = victim.devices
    statement.pipeline(victim, 0)
    assert (victim.status, victim.devices) == (Status.RUNNING, own)
    assert preemptor.devices != own
    assert session.world.view.things.future_at("kai-gpu/0", 1, 0) == [0]
    assert session.world.view.things.future_at("kai-gpu/1", 1, 0) == [0]
    statement.rollback()
    assert image(session) == before
