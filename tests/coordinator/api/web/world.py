"""A small cluster with everything that the page shows: jobs of several kinds that run, that wait
for nodes or for others, queues that share, a cordoned node."""

from __future__ import annotations

import asyncio

from shard_worker.worker.transport import WorkerConfig
from tests.builders.objects import Item, node, pod, pod_group, queue, simple_job
from tests.end_to_end.one_process.harness import DirectShards

HOURS = 36_000.0
NODES = 12


def _member(name: str, group: str) -> Item:
    item = pod(name, group=group)
    item["metadata"]["annotations"] |= {"quadrant.dev/duration": str(HOURS)}
    return item


ITEMS: list[Item] = [
    *(node(f"node-{at:03}", gpus=4 * (at % 2)) for at in range(NODES - 1)),
    node("node-cordoned", unschedulable=True),
    queue("research", weight=2),
    queue("serving"),
    pod_group("gang", minMember=2),
    _member("gang-0", "gang"),
    _member("gang-1", "gang"),
    simple_job("train", 3, gpus=2, seconds=HOURS, queue="research"),
    *(
        simple_job(f"sweep-{at:02}", 2, seconds=HOURS, queue=("research", "serving")[at % 2])
        for at in range(12)
    ),
    simple_job("huge", 2, cpu=100, seconds=HOURS, queue="research"),
    simple_job("many", 40, cpu=2, seconds=HOURS, queue="serving"),
]
RUNNING = 2 + 3 + 24
WAITING = {"ns/huge", "ns/many"}


class HeldShards(DirectShards):
    """Workers that start when a test lets them."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def start(self, config: WorkerConfig) -> int:
        await self.may_start.wait()
        return await super().start(config)
