"""The whole stack with real processes, seeded work for it, and what its history says of it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import redis

from coordinator.cluster.simulated.client import SocketCluster
from coordinator.supervisor.supervisor import Supervisor
from laboratory.checker.check import check
from laboratory.checker.report.report import CheckReport
from laboratory.cli.stack import Sender, until_nodes_are_shared_out
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    Item,
    job_items,
    node_items,
)
from laboratory.workloads.trace import Trace
from shared.ledger import replies
from shared.ledger.entries.log import CommitEntry
from shared.ledger.keys import key
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import CommitBatch, Epoch, Verdict
from shared.settings.settings import load_settings

SHAPE = ClusterShape(nodes=12, units=8)
SHARDS = 4
SHARD_UNITS = SHAPE.capacity // SHARDS
PATIENCE = 90.0
"""Seconds that what has to happen may take: processes start meanwhile, beside others."""

Status = dict[str, Any]


def workload(seed: int, rng: random.Random) -> Iterator[Item]:
    """About 650 tasks, 2.4 s of the whole cluster: mostly narrow jobs, gangs wider than a shard
    among them, and jobs that may start with half of their tasks."""
    widths = [rng.choice((1, 1, 1, 2, 4, 8)) for _ in range(90)]
    widths += [rng.randrange(SHARD_UNITS + 2, 2 * SHARD_UNITS) for _ in range(7)]
    widths += [rng.randrange(4, SHARD_UNITS) for _ in range(10)]
    rng.shuffle(widths)
    trace = Trace(
        submit=np.zeros(len(widths)),
        duration=np.array([rng.uniform(0.1, 0.6) for _ in widths]).round(3),
        width=np.array(widths),
        queue=np.array([rng.randrange(2) for _ in widths]),
        queues=("default", "default"),
    )
    for item in job_items(trace, resource=GPU):
        spec = item["spec"]
        item["metadata"]["name"] = f"seed-{seed}-{item['metadata']['name']}"
        spec["queue"] = "default"
        if spec["minAvailable"] <= SHARD_UNITS and rng.random() < 0.2:
            spec["minAvailable"] = (spec["minAvailable"] + 1) // 2
        yield item


def log_key(log_id: str) -> tuple[int, int]:
    head, _, tail = log_id.partition("-")
    return int(head), int(tail or 0)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from a blow to what followed, as the history and the coordinator's log tell it."""

    noticed: float
    up: float
    committed: float | None
    """None where there was nothing left to place for that shard."""
    turns: int
    """Open turns that were lost."""

    def __str__(self) -> str:
        committed = "none" if self.committed is None else f"{self.committed:.2f} s"
        return (
            f"noticed {self.noticed:.2f} s, up again {self.up:.2f} s, first commit {committed}, "
            f"{self.turns} turns lost"
        )


class Stack:
    def __init__(self, supervisor: Supervisor, api: BulkClient) -> None:
        self.supervisor = supervisor
        self.api = api

    async def submit(self, items: Iterator[Item]) -> None:
        await Sender(self.api).send(items)

    async def until(self, done: Callable[[Status], bool], *, within: float = PATIENCE) -> Status:
        """Ask for the status until ``done`` says so."""
        deadline = time.monotonic() + within
        while not done(status := await self.api.status()):
            assert time.monotonic() < deadline, f"not after {within:g} s: {status}"
            self.supervisor.check()
            await asyncio.sleep(0.02)
        return status

    async def until_finished(self) -> None:
        await self.until(lambda status: status["jobs"]["finished"] == status["jobs"]["submitted"])

    async def until_replaced(self, shard: int, epoch: str) -> None:
        """Wait until a shard is up under another epoch than the given one."""
        await self.until(
            lambda status: (
                status["shards"][shard]["up"] and status["shards"][shard]["epoch"] != epoch
            )
        )

    async def until_gone(self, pid: int) -> None:
        """Wait until none of the workers' processes is this one."""
        deadline = time.monotonic() + PATIENCE
        while pid in self.supervisor.worker_pids():
            assert time.monotonic() < deadline, f"worker {pid} was given up and still lives"
            await asyncio.sleep(0.05)

    async def strike_upon_commit(self, shard: int, pid: int, number: signal.Signals) -> float:
        """Send a worker a signal as soon as a commit of its shard is in the log, with some luck
        before it has told the coordinator. Returns when."""
        return await asyncio.to_thread(_strike_upon_commit, self._access, shard, pid, number)

    async def commit_under(self, shard: int, epoch: str) -> Verdict:
        """Verdict of the ledger on a late batch of the shard's worker of that epoch."""
        async with self._ledger() as ledger:
            batch = CommitBatch(
                writer=str(shard),
                epoch=Epoch.parse(epoch),
                sequence=1_000_000,
                run_id=await ledger.run_id(),
                statements=[],
            )
            return (await ledger.commit(batch)).verdict

    @property
    def _access(self) -> Access:
        return self.supervisor.settings.access()

    # --- what happened ------------------------------------------------------------------------

    async def report(self) -> CheckReport:
        """The checker's word on everything so far; all that was submitted must be finished."""
        settings = self.supervisor.settings
        cluster = SocketCluster(settings.cluster_socket or "")
        async with self._ledger() as ledger:
            tail = await ledger.log_tail()
        try:
            deadline = time.monotonic() + PATIENCE
            while log_key(await cluster.history_position()) < log_key(tail):
                assert time.monotonic() < deadline, "the history does not follow the log"
                await asyncio.sleep(0.02)
        finally:
            await cluster.close()
        return check(settings.history, closed=True)

    @asynccontextmanager
    async def _ledger(self) -> AsyncIterator[RedisLedger]:
        ledger = RedisLedger(self._access)
        try:
            yield ledger
        finally:
            await ledger.close()

    def history(self) -> list[dict[str, Any]]:
        """The ledger's side of the history, in order."""
        lines = self.supervisor.settings.history.read_bytes().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [event for event in events if event["src"] == "ledger"]

    def commits_of_void_epochs(self) -> list[dict[str, Any]]:
        """Commits that stand in the history behind a newer epoch of their writer."""
        epochs: dict[str, str] = {}
        late = []
        for event in self.history():
            if event["ev"] == "epoch":
                epochs[event["writer"]] = event["epoch"]
            elif event["ev"] == "commit" and event["epoch"] != epochs[event["writer"]]:
                late.append(event)
        return late

    def log(self) -> list[dict[str, Any]]:
        """Log lines of the coordinators."""
        path = self.supervisor.settings.run_dir / "log" / "coordinator.log"
        lines = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]  # the last one may be under way
        return [json.loads(line) for line in whole if line.startswith(b"{")]

    def _lost_and_up(self, shard: int, epoch: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Log entries of the loss and of the next start; other workers may have done all work
        before they are written."""
        deadline = time.monotonic() + PATIENCE
        while True:
            replies = [entry for entry in self.log() if entry.get("shard") == shard]
            lost = [
                e for e in replies if e["event"] == "Lost a shard worker" and e["epoch"] == epoch
            ]
            later = replies[replies.index(lost[0]) :] if lost else []
            if up := [e for e in later if e["event"] == "Started a shard worker"]:
                return lost[0], up[0]
            assert time.monotonic() < deadline, (
                f"the loss of shard {shard} under epoch {epoch} is not told",
                *(f"{e['ts']} {e['event']} {e.get('epoch')}" for e in replies),
            )
            time.sleep(0.05)

    def times(self, shard: int, epoch: str, blow: float) -> Times:
        """Times of loss, restart and first commit after the worker of that epoch was struck at that
        time (since 1970)."""
        lost, up = self._lost_and_up(shard, epoch)
        commits = (
            event["t"] - blow
            for event in self.history()
            if event["ev"] == "commit"
            and event["epoch"] == up["epoch"]
            and event["writer"] == str(shard)
        )
        return Times(_seconds(lost) - blow, _seconds(up) - blow, next(commits, None), lost["turns"])


def _strike_upon_commit(access: Access, shard: int, pid: int, number: signal.Signals) -> float:
    for thread in psutil.Process(pid).threads():  # so that we are faster than its answer
        os.setpriority(os.PRIO_PROCESS, thread.id, 19)
    after = b"$"
    with redis.Redis.from_url(access.url, password=access.password, protocol=2) as client:
        while result := client.xread({key("log"): after}, block=10_000):
            for after, fields in result[0][1]:
                entry = replies.unpack_entry(after.decode(), fields)
                if isinstance(entry, CommitEntry) and entry.writer == str(shard) and entry.accepted:
                    return strike(pid, number)
    raise AssertionError(f"shard {shard} commits nothing")


def strike(pid: int, number: signal.Signals) -> float:
    """Send a signal; returns when."""
    now = time.time()
    os.kill(pid, number)
    return now


@asynccontextmanager
async def running_stack(path: Path, **settings: Any) -> AsyncIterator[Stack]:
    options = {"shards": SHARDS, "mode": "soft", "seed": 7, "log_format": "json"} | settings
    supervisor = Supervisor(load_settings(run_dir=path, **options))
    async with supervisor, BulkClient(supervisor.url) as api:
        stack = Stack(supervisor, api)
        await stack.submit(node_items(SHAPE))
        await until_nodes_are_shared_out(api, nodes=SHAPE.nodes)
        yield stack
    assert supervisor.exit_codes["cluster"] == 0, "the history may lack its end"


def _seconds(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["ts"]).timestamp()
