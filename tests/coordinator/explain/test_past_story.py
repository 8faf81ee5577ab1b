"""A job's story after a change of leader: what the one before did is told from the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from coordinator.cluster.history.file import HistoryFile, LogFollower
from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import Item
from tests.conftest import flush
from tests.coordinator.explain.cluster import explained, job, node
from tests.end_to_end.one_process.harness import running, submit

FROM_HISTORY = ("Submitted", "Scheduled", "Started")


@asynccontextmanager
async def recorded(url: str, path: Path) -> AsyncIterator[None]:
    """The ledger's log is written down, as the cluster's process does."""
    history, ledger = HistoryFile(path), RedisLedger(url)
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    following = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await ledger.close()
        history.close()


def reported(story: list[Item]) -> list[tuple[str, str, list[str]]]:
    return [
        (entry["reason"], entry["message"], entry["names"])
        for entry in story
        if entry["reason"] in FROM_HISTORY
    ]


async def test_the_next_leader_tells_what_happened_before_it(
    tmp_path: Path, embedded_server: EmbeddedServer
) -> None:
    url, path = embedded_server.url, tmp_path / "history.jsonl"
    flush(embedded_server)
    cluster = LocalCluster()
    async with recorded(url, path):
        async with running(url, tmp_path, kubelets=cluster, history=path) as first:
            await submit(first, node("a", gpus=4), job("train", 3, gpus=1))
            await first.until(lambda s: s["tasks"]["running"] == 3)
            before = (await explained(first, "train"))["story"]
            of_pod = (await explained(first, "train-worker-1", kind="pods"))["story"]
        async with running(url, tmp_path, kubelets=cluster, history=path) as second:
            await submit(second, job("late", 1, gpus=1))
            await second.until(lambda s: s["tasks"]["running"] == 4)
            after = (await explained(second, "train"))["story"]
            pod_after = (await explained(second, "train-worker-1", kind="pods"))["story"]
            late = (await explained(second, "late"))["story"]
        async with running(url, tmp_path, kubelets=cluster, history=tmp_path / "none") as third:
            alone = (await explained(third, "train"))["story"]
    assert [reason for reason, _, _ in reported(before)] == [*FROM_HISTORY]
    assert reported(after) == reported(before)
    assert reported(pod_after) == reported(of_pod)
    assert [reason for reason, _, _ in reported(late)] == [*FROM_HISTORY]
    assert [reason for reason, _, _ in reported(alone)] == ["Submitted"]
