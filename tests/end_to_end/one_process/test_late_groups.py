"""Pods that are created first and named a group afterwards, as KAI's pod grouper and Volcano's
PodGroup controller do it: they are a gang by the group's queue and minimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import kai_group, kai_queue, node, pod, pod_group, queue
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit
from tests.end_to_end.one_process.test_queue_gates import pods

Json = dict[str, Any]
NAMES = [f"p{i}" for i in range(10)]


def of_cores(name: str, cpu: int) -> Json:
    return node(name, cpu=cpu, memory="64Gi")


def volcano(name: str, group: str = "") -> Json:
    return pod(name, group=group)


def kai(name: str, group: str = "") -> Json:
    new = pod(name, schedulerName="kai-scheduler")
    new["metadata"]["labels"] = {"kai.scheduler/queue": "one"}
    if group:
        new["metadata"]["annotations"] = {"pod-group-name": group}
    return new


DIALECTS = {
    "volcano": (
        "actions: allocate, backfill\ntiers:\n- plugins: [{name: priority}, {name: gang}, "
        "{name: predicates}, {name: proportion}]\n",
        [queue("one"), queue("two")],
        pod_group("gang", minMember=10, queue="two"),
        volcano,
    ),
    "kai": (
        "dialect: kai\n",
        [kai_queue("all"), kai_queue("one", "all"), kai_queue("two", "all")],
        kai_group("gang", "two", minMember=10),
        kai,
    ),
}


ALONE = {"volcano": "default", "kai": "one"}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_pods_that_wait_join_the_group_that_they_are_named_later(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path, dialect: str, shards: int
) -> None:
    flush(embedded_server)
    text, queues, group, make = DIALECTS[dialect]
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    settings: Json = {"shards": shards, "policy": policy}
    async with running(embedded_server.url, short_dir, **settings) as parts:
        await submit(parts, *queues, *map(make, NAMES))
        await parts.until(lambda status: status["jobs"]["pending"] == 10)
        await submit(parts, group)
        for name in NAMES:
            await submit(parts, make(name, "gang"))
        await parts.until(lambda _: gangs(parts) == {("gang", "two", 10)})
        await submit(parts, of_cores("a", 8), make("alone"))
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        assert parts.service.status()["tasks"]["pending"] == 10, "there is room for seven of it"
        parts.service.core.order.validate()
    async with running(embedded_server.url, short_dir, **settings) as parts:
        assert gangs(parts) == {("gang", "two", 10), ("alone", ALONE[dialect], 1)}
        await submit(parts, of_cores("b", 3))
        await parts.until(lambda status: status["tasks"]["running"] == 11)
        assert set(await pods(parts)) == {*NAMES, "alone"}
        parts.service.core.order.validate()


def gangs(parts: Running) -> set[tuple[str, str, int]]:
    """Name, queue and number of tasks of each job in the books."""
    states = parts.service.core.order.jobs.values()
    return {(s.job.name, s.job.queue, s.job.tasks) for s in states}
