"""Write a dump of this version's schema under a KAI policy: ``python -m
tests.shared.ledger.migration.record_kai FILE``.

Beside what :mod:`tests.shared.ledger.migration.record` has: devices of shared GPUs, KAI's queues
and groups, and a pod that is on its way to another node, with the job that makes it move.
``schema-5-kai.json`` is of the version that came with ``schema-5.json``: what it wrote is read.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import redis

from shared.ledger.redis.server import EmbeddedServer
from tests.coordinator.intake.objects import node, pod
from tests.coordinator.intake.test_kai_objects import kai_group
from tests.end_to_end.one_process.harness import Running, running
from tests.end_to_end.one_process.test_kai_evictions import in_pieces, is_leaving, running_pods
from tests.end_to_end.one_process.test_kai_order import single
from tests.end_to_end.one_process.test_kai_walk import GPUS, member, submit
from tests.shared.ledger.migration.dump import ClusterColumns, write
from tests.shared.ledger.migration.record import Halting

MOVING = "dialect: kai\nactions: allocate, consolidation\n"
SHARED = {"s": "share"}
"""Label of the node whose GPUs are shared."""


def sharing(name: str, fraction: str) -> dict[str, Any]:
    made = pod(name, schedulerName="kai-scheduler", nodeSelector=SHARED)
    labels = {"kai.scheduler/queue": "red"}
    made["metadata"] |= {"labels": labels, "annotations": {"gpu-fraction": fraction}}
    return made


async def fill(service: Running, kubelets: Halting, http: aiohttp.ClientSession) -> None:
    """``x`` and a gang of two are leaving one node and have the promise of another; two pods share
    a GPU."""
    await in_pieces(http, service)
    amounts = {**GPUS, "nvidia.com/gpu": "1"}
    shared = node("shared", labels=SHARED) | {"status": {"allocatable": amounts}}
    group = kai_group("pair", "red", minMember=2)
    pair = [member(f"p{at}", "pair", gpus=0) for at in range(2)]
    halves = [sharing("half", "0.5"), sharing("third", "0.3")]
    await submit(http, service, shared, *halves, group, *pair)
    await service.until(lambda _: {"half", "third", "p0", "p1"} <= running_pods(service))
    kubelets.linger()
    await submit(http, service, single("whole", "red", 4))
    await service.until(lambda _: is_leaving(service, "x"))


async def record(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="qt-") as directory:
        run_dir = Path(directory)
        policy = run_dir / "kai.yaml"
        policy.write_text(MOVING)
        server = EmbeddedServer(run_dir, run_dir / "data", fsync="no")
        server.start()
        kubelets = Halting(grace=0.05)
        try:
            async with (
                running(server.url, run_dir, kubelets=kubelets, policy=policy) as service,
                aiohttp.ClientSession() as http,
            ):
                await fill(service, kubelets, http)
                listed = kubelets.listing("")
                with redis.Redis.from_url(server.url, protocol=2) as client:
                    cluster = ClusterColumns(listed.tasks, listed.uids, listed.nodes, listed.phases)
                    write(path, client, cluster)
        finally:
            server.stop()


def main() -> None:
    asyncio.run(record(Path(sys.argv[1])))
    sys.stdout.write(f"{sys.argv[1]}\n")


if __name__ == "__main__":
    main()
