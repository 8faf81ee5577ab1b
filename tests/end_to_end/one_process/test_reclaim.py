"""A queue gets its share back from jobs of one task each, however many there are, in a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.order import turn_contexts
from laboratory.workloads.generators import lists
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import HOLDING
from tests.end_to_end.one_process.harness import Running, running

Item = dict[str, Any]
NODES, CORES, GANG = 10, 4, 5
POLICY = """
actions: enqueue, allocate, reclaim
tiers:
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def node(number: int) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}"},
        "status": {"allocatable": {"cpu": str(CORES), "pods": "110"}},
    }


def queue(name: str) -> Item:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True},
    }


def job(name: str, of: str, cpu: int, tasks: int) -> Item:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    task = {"name": "a", "replicas": tasks, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"queue": of, "minAvailable": tasks, "tasks": [task]},
    }


async def send(http: aiohttp.ClientSession, service: Running, *items: Item) -> None:
    for body in lists(list(items), limit=250):
        async with http.post(
            f"{service.url}/apis/quadrant.dev/v1alpha1/lists", json=body
        ) as report:
            assert report.status == 200, await report.text()


async def residents(service: Running, ledger: RedisLedger) -> None:
    """Every worker has of every task on a node what the ledger has, once it read its log."""
    snapshot = await ledger.snapshot()
    expected = {
        (jid, tix, task.state, task.row, task.cid)
        for jid, tasks in snapshot.tasks.items()
        for tix, task in tasks.items()
        if task.state in HOLDING
    }
    for server, _, lock in service.shards._servers.values():
        async with lock:
            await server._follow()
            table = server.view.residents
            assert table is not None
            columns = [table.column(name) for name in ("jid", "tix", "state", "row", "cid")]
            lines = zip(
                *[column[table.column("row") >= 0].tolist() for column in columns], strict=True
            )
            assert set(lines) == expected


async def test_a_gang_gets_its_share_from_whoever_runs(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About 2 s. A turn may bring four jobs of one task along; twenty have to leave."""
    monkeypatch.setattr(turn_contexts, "TASKS", 20)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    ledger = RedisLedger(redis_url)
    async with (
        running(redis_url, tmp_path, policy=str(policy), grace=0.05) as service,
        aiohttp.ClientSession() as http,
    ):
        await send(http, service, queue("rich"), queue("poor"), *map(node, range(NODES)))
        await send(http, service, *(job(f"s{n}", "rich", 1, 1) for n in range(NODES * CORES)))
        await service.until(lambda s: s["tasks"]["running"] == NODES * CORES)
        await residents(service, ledger)
        service.shards.deaf.add(0)  # its successor reads everything anew
        await send(http, service, job("whole", "poor", CORES, GANG))
        full = GANG + NODES * CORES - GANG * CORES
        await service.until(lambda s: s["tasks"]["running"] == full and not s["open_turns"])
        await residents(service, ledger)
    await ledger.close()
