"""Deletion end to end: intake, ledger on a real server, cluster, and a successor that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.cluster.protocol import BindAnswers, BindRequests, ClusterTimeout
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.intake.documents.document import Key
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply, PurgeJob
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.errors import LedgerArgument
from shared.ledger.records import USED, WIDTH, unpack_node
from shared.ledger.redis.client import RedisLedger
from tests.builders.objects import Item, container, node, pod, pod_group, simple_job
from tests.coordinator.controllers.support import ledger_of, submit, writer
from tests.end_to_end.one_process.harness import PATIENCE, Running, running


class Moody(LocalCluster):
    """It does not hear what it is told not to."""

    def __init__(self) -> None:
        super().__init__(grace=0.01)
        self.deaf_to: set[str] = set()
        self.deletes = 0

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        if "bind" in self.deaf_to:
            raise ClusterTimeout("bind")
        return super().bind(requests, now)

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        self.deletes += 1
        if "delete" in self.deaf_to:
            raise ClusterTimeout("delete")
        return super().delete(tasks, now, uids)


@pytest.fixture
async def cluster() -> AsyncIterator[Moody]:
    yield Moody()


# --- objects --------------------------------------------------------------------------------------


def job(name: str, tasks: int) -> Item:
    """It runs until it is deleted."""
    return simple_job(name, tasks, role="a")


def members(count: int) -> list[Item]:
    """Pods of the PodGroup g."""
    return [pod(f"g-{i}", group="g", containers=[container(memory="")]) for i in range(count)]


# --- asking ---------------------------------------------------------------------------------------


async def delete(service: Running, kind: str, name: str) -> None:
    changed = await writer(service).change(Key(kind, "ns", name), lambda _: None)
    assert not changed.admission.refused


def tasks(**wanted: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: all(status["tasks"][name] == count for name, count in wanted.items())


def gone(jobs: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: bool(status["jobs"]["deleted"] == jobs)


def used(snapshot: Snapshot) -> bool:
    """Whether any node holds anything."""
    return any(any(unpack_node(r)[2][USED::WIDTH]) for r in snapshot.nodes.records)


async def nothing_left(service: Running) -> None:
    snapshot = await ledger_of(service)
    assert (snapshot.jobs, snapshot.job_specs, snapshot.tasks) == ({}, {}, {})
    kinds = {Key.parse(key).kind for key in snapshot.documents}
    assert not kinds & {"Job", "Pod", "PodGroup"}
    assert not used(snapshot)
    service.service.core.validate()
    assert service.service.core.leaving == {}
    async with asyncio.timeout(PATIENCE):  # an entry is acknowledged after its answers are stored
        while await service.service._ledger.read_binds("coordinator", own=True):
            pass


# --- jobs -----------------------------------------------------------------------------------------


async def test_running_and_pending_jobs_go_and_others_get_their_place(
    tmp_path: Path, redis_url: str, cluster: Moody
) -> None:
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(
            service, node("n0", cpu=4), job("first", 3), job("second", 3), job("never", 40)
        )
        await service.until(tasks(running=3))
        for name in ("first", "never"):
            await delete(service, "Job", name)
        status = await service.until(lambda s: gone(2)(s) and tasks(running=3)(s))
        assert status["tasks"]["deleted"] == 43
        assert service.service.core.order.jobs.keys().isdisjoint(service.service.core.leaving)
        await delete(service, "Job", "second")
        await service.until(gone(3))
        await nothing_left(service)


async def test_the_name_is_free_when_the_job_is_gone(
    tmp_path: Path, redis_url: str, cluster: Moody
) -> None:
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node("n0", cpu=4), job("again", 2))
        await service.until(tasks(running=2))
        cluster.deaf_to = {"delete"}
        await delete(service, "Job", "again")
        (refusal,) = (await writer(service).submit([job("again", 4)])).refused
        assert refusal.reason == "AlreadyExists"
        cluster.deaf_to = set()
        await service.until(gone(1))
        assert cluster.deletes > 1
        await submit(service, job("again", 4))
        await service.until(tasks(running=4))


async def test_a_job_that_is_deleted_while_it_is_bound_gives_back_what_it_got(
    tmp_path: Path, redis_url: str, cluster: Moody
) -> None:
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        cluster.deaf_to = {"bind"}
        await submit(service, node("n0", cpu=4), job("bound", 4))
        await service.until(tasks(pending=0))
        assert used(await ledger_of(service))
        await delete(service, "Job", "bound")
        await service.until(gone(1))
        assert not used(await ledger_of(service))
        cluster.deaf_to = set()
        await submit(service, job("next", 4))
        await service.until(tasks(running=4))
        assert not any(cluster.holds(f"0.{t}") for t in range(4))
        await delete(service, "Job", "next")
        await service.until(gone(2))
        await nothing_left(service)


async def test_a_purge_that_the_ledger_refuses_is_asked_again_and_holds_up_nobody(
    tmp_path: Path, redis_url: str, cluster: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that serves a call twice may place a job after its first answer, unknown to the
    coordinator: then the ledger is right to refuse, until the tasks have left."""
    store, refused = RedisLedger.store, list[IntakeBatch]()

    async def refusing_once(self: RedisLedger, batch: IntakeBatch) -> IntakeReply:
        if not refused and any(isinstance(op, PurgeJob) for op in batch.ops):
            refused.append(batch)
            raise LedgerArgument("job 0: a task of it still holds node 0")
        return await store(self, batch)

    monkeypatch.setattr(RedisLedger, "store", refusing_once)
    monkeypatch.setattr("coordinator.service.executor.AGAIN_SECONDS", 0.2)
    async with running(redis_url, tmp_path, kubelets=cluster, shards=2) as service:
        await submit(service, node("n0", cpu=4), job("first", 2))
        await service.until(tasks(running=2))
        await delete(service, "Job", "first")
        await service.until(lambda _: bool(refused))
        await submit(service, job("second", 2))
        await service.until(lambda status: gone(1)(status) and tasks(running=2)(status))
        await delete(service, "Job", "second")
        await service.until(gone(2))
        await nothing_left(service)


async def test_a_successor_continues_begun_deletions(
    tmp_path: Path, redis_url: str, cluster: Moody
) -> None:
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node("n0", cpu=4), job("runs", 3), job("waits", 4))
        await submit(service, pod_group("g", minMember=1), *members(2))
        await service.until(tasks(running=4))
        cluster.deaf_to = {"delete"}
        for kind, name in (("Job", "runs"), ("Pod", "g-0"), ("Pod", "g-1")):
            await delete(service, kind, name)
        await service.until(lambda _: cluster.deletes >= 2)
        assert len((await ledger_of(service)).jobs) == 3
    cluster.deaf_to = set()
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await service.until(lambda s: gone(1)(s) and tasks(running=4)(s))
        snapshot = await ledger_of(service)
        assert "Pod/ns/g-0" not in snapshot.documents
        assert "Pod/ns/g-1" not in snapshot.documents
        for kind, name in (("Job", "waits"), ("PodGroup", "g")):
            await delete(service, kind, name)
        await service.until(gone(3))
        await nothing_left(service)


# --- members --------------------------------------------------------------------------------------


async def test_members_go_one_by_one(tmp_path: Path, redis_url: str, cluster: Moody) -> None:
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node("n0", cpu=4), pod_group("g", minMember=2), *members(6))
        await service.until(tasks(running=4, pending=2))
        for i in range(4):
            await delete(service, "Pod", f"g-{i}")
        await service.until(tasks(running=2, finished=0, deleted=4))
        core = service.service.core
        await service.until(lambda _: not core.order.departures.members)
        core.validate()
        documents = (await ledger_of(service)).documents
        left = [key for key in documents if key.startswith("Pod/")]
        assert left == ["Pod/ns/g-4", "Pod/ns/g-5"]
        await submit(service, *members(1))
        await service.until(tasks(running=3))
        await delete(service, "PodGroup", "g")
        await service.until(gone(1))
        await nothing_left(service)
