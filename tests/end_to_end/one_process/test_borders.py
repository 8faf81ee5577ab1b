"""Nodes that change hands under a whole service: the real ledger, its log, what is shown of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coordinator.cluster.history.events import LedgerEvents
from laboratory.checker.state.ownership import RowOwnership
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    job_items,
    node_items,
    queue_items,
    seeded_workload,
)
from shared.ledger.entries.intake_batch import IntakeBatch, Move, PutPartition
from shared.ledger.entries.log import EpochEntry
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import Verdict
from tests.builders.objects import hyper_node
from tests.end_to_end.one_process.harness import PATIENCE, Running, running, submit

SHAPE = ClusterShape(nodes=8, units=4)
WIDEST = ClusterShape(nodes=2, units=4)
"""No job is wider: a shard has three nodes at least."""


def named(members: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"node-{number}" for number in members)


def domain(*members: int) -> dict[str, Any]:
    return hyper_node("rack", *named(members))


def settled(status: dict[str, Any]) -> bool:
    shards = status["shards"]
    return all(shard["nodes"] == shard["desired"] for shard in shards) and all(
        shard["nodes"] for shard in shards
    )


async def owners(service: Running, *, until: dict[int, int] | None = None) -> dict[int, int]:
    """Row -> shard as the workers see it: of all nodes, or as ``until`` says."""
    deadline = time.monotonic() + PATIENCE
    while True:  # they follow the log with each heartbeat
        views = {s: server.view for s, (server, _, _) in service.shards._servers.items()}
        results = {row: s for s, view in views.items() for row in view.own.nonzero()[0].tolist()}
        if results == until or (until is None and len(results) == SHAPE.nodes):
            return results
        assert time.monotonic() < deadline, results
        await asyncio.sleep(0.02)


async def pull_together(service: Running, members: Sequence[int]) -> None:
    """Make these a domain, and wait until every node is where it belongs."""
    core = service.service.core

    def done(status: dict[str, Any]) -> bool:
        is_stored = core.hyper_nodes["rack"].nodes == named(members)
        return is_stored and settled(status) and core.partition.at_rest

    await submit(service, domain(*members))
    await service.until(done)


async def test_nodes_change_hands_while_jobs_run_and_no_worker_crosses_a_border(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, mode="hard", speedup=20000.0, grace=0.01) as service:
        trace = seeded_workload(jobs=200, seed=1, capacity=WIDEST.capacity)
        await submit(service, *node_items(SHAPE), *queue_items(trace))
        await service.until(settled)
        await submit(service, *job_items(trace, resource=GPU))
        core = service.service.core
        for members in ((0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 5, 6), (1, 6, 7)):
            await pull_together(service, members)
        await service.until(lambda status: bool(status["statements"]["committed"] > 10))
        entries = await service.service._ledger.read_log("0", count=100_000)
        events = [event for entry in entries for event in LedgerEvents().of(entry)]
        borders, commits = RowOwnership(), 0
        for event in events:
            if event["ev"] == "partition":
                assert borders.put(event) == []
            for statement in event.get("statements", ()):
                commits += 1
                report = statement["alloc"] + statement["nominate"]
                assert borders.foreign(event["shard"], report) == []
        assert commits > 10
        assert core.tally.nodes_moved >= 3
        assert sum(bool(event.get("moving")) for event in events) >= 3
        await owners(service)


async def test_a_successor_finishes_what_was_between_two_phases(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, *node_items(SHAPE))
        await service.until(settled)
        before = await owners(service)
    row_moved = next(row for row, shard in before.items() if shard == 1)
    await _begin_to_move(redis_url, row_moved)
    async with running(redis_url, tmp_path) as service:
        status = await service.until(settled)
        assert sum(shard["nodes"] for shard in status["shards"]) == SHAPE.nodes
        handover = service.service.core.partition.handover
        await service.until(lambda _: not handover.moving and not handover.storing)
        await owners(service, until=before | {row_moved: 0})


async def _begin_to_move(url: str, row: int) -> None:
    """A coordinator tells that a row goes from shard 1 to 0, and is gone."""
    ledger = RedisLedger(url)
    try:
        leader = await ledger.claim(COORDINATOR, lease=0.001)
        run_id = await ledger.bless(leader)
        partition = (await ledger.snapshot()).partition
        assert partition is not None
        shards = {shard: [r for r in rows if r != row] for shard, rows in partition.shards.items()}
        put = PutPartition(partition.revision + 1, shards, [Move(1, 0, [row])], partition.mode)
        epoch = await ledger.claim("intake", leader=leader)
        reply = await ledger.store(IntakeBatch("intake", epoch, 1, run_id, [put]))
        assert reply.verdict is Verdict.COMMITTED
    finally:
        await ledger.close()


async def test_nodes_of_shards_that_are_no_more_are_others_after_their_epoch_is_void(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=3) as service:
        await submit(service, *node_items(SHAPE))
        await service.until(settled)
        observed = (await service.service._ledger.read_log("0", count=100_000))[-1].id
    async with running(redis_url, tmp_path, shards=2) as service:
        await service.until(settled)
        entries = await service.service._ledger.read_log(observed, count=100_000)
        void = [i for i, e in enumerate(entries) if isinstance(e, EpochEntry) and e.writer == "2"]
        reports = [
            index
            for index, entry in enumerate(entries)
            for event in LedgerEvents().of(entry)
            if event["ev"] == "partition" and "2" not in event["shards"]
        ]
        assert void[0] < reports[0]
        status = await service.until(settled)
        assert sum(shard["nodes"] for shard in status["shards"]) == SHAPE.nodes
        await owners(service)
