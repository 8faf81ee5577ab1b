"""The history of a service on the embedded ledger: what it carries, and mutations of it."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.cluster.history.file import HistoryFile, LogFollower
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from tests.builders.objects import node
from tests.coordinator.controllers.support import job, submit, task
from tests.coordinator.controllers.test_history import RecordingCluster
from tests.end_to_end.one_process.harness import running
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.mutations import MUTATIONS, NUMBERS

ANYWHERE = (
    "the_cluster_takes_a_task_twice",
    "a_task_starts_twice",
    "a_queue_may_hold_less_than_it_does",
    "a_deposed_worker_commits",
    "a_deposed_leader_records",
    "a_deposed_leader_stores",
    "a_node_is_two_shards_own",
    "a_request_takes_effect_twice",
    "an_entry_of_the_log_is_told_twice",
    "the_cluster_takes_what_nobody_placed",
    "an_end_is_never_recorded",
    "a_task_is_freed_before_the_cluster_says_that_it_ended",
    "an_event_of_the_cluster_is_missing",
    "a_part_of_an_entry_is_missing",
)
"""Mutations that need nothing but that jobs ran."""


def all_told(pairs: list[tuple[int, int]], jobs: int, _: dict[str, Any]) -> bool:
    return sum(many for _, many in pairs) >= jobs


async def recorded(url: str, folder: Path) -> list[dict[str, Any]]:
    """Two leaders, one after the other, run four gangs; the events of all of it."""
    history = HistoryFile(folder / "h.jsonl")
    cluster, ledger = RecordingCluster(history), RedisLedger(url)
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    following = asyncio.create_task(follower.run())
    for names in (("a", "b"), ("c", "d")):
        async with running(url, folder, kubelets=cluster) as service:
            jobs = [job(name, task("t", 3, runs=0.1), minAvailable=3) for name in names]
            await submit(service, node("n0"), node("n1"), *jobs)
            await service.until(lambda s: s["jobs"]["running"] + s["jobs"]["pending"] == 0)
            report = service.cluster.told
            await service.until(partial(all_told, report, 2))
        history.acknowledged(time.time(), report)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.drain()
    history.end(time.time())
    await ledger.close()
    history.close()
    return [json.loads(line) for line in (folder / "h.jsonl").read_bytes().splitlines()]


async def test_a_service_leaves_a_clean_history_of_which_mutations_are_noticed(
    tmp_path: Path, redis_url: str
) -> None:
    events = await recorded(redis_url, tmp_path)
    report = History(events).check()
    assert report.violations == ()
    rows = {row.rule: row for row in report.rows}
    assert rows["acknowledged"].checked == 4
    policies = [event["policy"] for event in events if event["ev"] == "policy"]
    assert len(policies) == 2, "each leader says by which policy it goes"
    assert "gang" in json.dumps(policies[0]["tiers"])
    unnoticed = []
    for name in ANYWHERE:
        rule, mutate = MUTATIONS[name]
        history = History(json.loads(json.dumps(events)))
        mutate(history)
        if name not in NUMBERS:
            history.renumber()
        if rule.label not in {violation.rule for violation in history.check().violations}:
            unnoticed.append(name)
    assert unnoticed == []
