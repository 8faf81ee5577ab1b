"""A node that shrank under its tasks, in a service: a gang runs where there is room."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.simulated.cluster import LocalCluster
from tests.coordinator.explain.cluster import job, node, settled
from tests.end_to_end.one_process.harness import running, submit


async def test_a_gang_runs_on_the_free_node_beside_one_that_is_overfull(
    tmp_path: Path, redis_url: str
) -> None:
    """The overfull node was taken from the free one's amounts, and the gang waited for ever."""
    async with running(redis_url, tmp_path, kubelets=LocalCluster(), shards=1) as service:
        await submit(service, node("shrinks", cpu="4"), job("first", 4))
        await service.until(lambda s: s["tasks"]["running"] == 4)
        await submit(service, node("shrinks", cpu="1"), node("free", cpu="4"))
        await settled(service, bound=4)
        await submit(service, job("second", 4))
        await service.until(lambda s: s["tasks"]["running"] == 8)
        service.service.core.validate()
