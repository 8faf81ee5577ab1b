"""Jobs with policies keep every promise: the checker agrees to the last event."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coordinator.cluster.history.file import HistoryFile, LogFollower
from coordinator.cluster.protocol import BindAnswers, BindRequests
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from laboratory.checker.check import check
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from tests.builders.objects import node
from tests.coordinator.controllers.support import gone, job, phase, status, submit, task, when
from tests.end_to_end.one_process.harness import running


class RecordingCluster(FaultyCluster):
    """It loses answers, says reports twice, and writes down what it does before it answers."""

    def __init__(self, history: HistoryFile) -> None:
        faults = Faults(refuse=0.1, unknown_after=0.1, silent_after=0.1, duplicate=0.2)
        super().__init__(LocalCluster(grace=0.01), faults, 3)
        self._history = history

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        try:
            return super().bind(requests, now)
        finally:
            self._history.cluster_events(self.drain())

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        try:
            return super().delete(tasks, now, uids)
        finally:
            self._history.cluster_events(self.drain())

    def advance(self, now: float) -> None:
        super().advance(now)
        self._history.cluster_events(self.drain())


async def test_the_checker_has_nothing_to_say(tmp_path: Path, redis_url: str) -> None:
    path = tmp_path / "h.jsonl"
    history = HistoryFile(path)
    cluster = RecordingCluster(history)
    ledger = RedisLedger(redis_url)
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    following = asyncio.create_task(follower.run())
    restart = [when("PodFailed", "RestartJob")]
    jobs = [
        job(f"r{i}", task("bad", 1, runs=0.05, code=1), task("long", 2), policies=restart)
        for i in range(4)
    ]
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        await submit(service, node(cpu=6), *jobs)
        await service.until(lambda _: status(service, "r0").get("retryCount", 0) > 0)
    async with running(redis_url, tmp_path, kubelets=cluster) as service:
        first = task("first", 1, runs=0.3, policies=[when("TaskCompleted", "CompleteJob")])
        waits = job("w", first, task("then", 2, after=["first"]), minAvailable=1)
        brief = job("b", task("a", 3, runs=0.05), ttlSecondsAfterFinished=0)
        await submit(service, waits, brief)
        for name in ("r0", "r1", "r2", "r3"):
            assert (await phase(service, name, "Failed"))["retryCount"] == 3
        await phase(service, "w", "Completed")
        await gone(service, "b")
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.drain()
    await ledger.close()
    history.close()
    report = check(path, closed=True)
    assert report.ok, report.violations
    assert report.events > 100
