"""A queue gets its share back from jobs of one task each, however many there are, in a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.order import turn_contexts
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import HOLDING
from tests.builders.objects import Item, node, queue, simple_job
from tests.end_to_end.one_process.harness import Running, running, submit

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


def job(name: str, of: str, cpu: int, tasks: int) -> Item:
    return simple_job(name, tasks, cpu=cpu, queue=of)


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


async def test_a_gang_reclaims_its_share_from_running_jobs(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About 2 s. A turn may bring four jobs of one task along; twenty have to leave."""
    monkeypatch.setattr(turn_contexts, "TASKS", 20)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    ledger = RedisLedger(redis_url)
    async with running(redis_url, tmp_path, policy=str(policy), grace=0.05) as service:
        nodes = [node(f"n{number}", cpu=CORES) for number in range(NODES)]
        queues = [queue(name, reclaimable=True) for name in ("rich", "poor")]
        await submit(service, *queues, *nodes)
        await submit(service, *(job(f"s{n}", "rich", 1, 1) for n in range(NODES * CORES)))
        await service.until(lambda s: s["tasks"]["running"] == NODES * CORES)
        await residents(service, ledger)
        service.shards.deaf.add(0)  # its successor reads everything anew
        await submit(service, job("whole", "poor", CORES, GANG))
        full = GANG + NODES * CORES - GANG * CORES
        await service.until(lambda s: s["tasks"]["running"] == full and not s["open_turns"])
        await residents(service, ledger)
    await ledger.close()
