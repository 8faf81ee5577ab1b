"""A plan is what then happens, where nobody else submits anything meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import Item, queue
from tests.conftest import flush
from tests.coordinator.explain.cluster import asking, explained, job, node
from tests.coordinator.explain.random_clusters import (
    COMPARED,
    RandomCluster,
    at_rest,
    clusters,
    filled,
    jobs,
)
from tests.coordinator.explain.test_plan import planned
from tests.end_to_end.one_process.harness import running, submit

ROOM_OR_SHARE = {"NotEnoughResources", "Fragmented", "WaitingForQuota"}
PODS = "/api/v1/namespaces/default/pods"


ONE_NODE = RandomCluster([node("n0", cpu="8")], [queue("lab")], [job("old0", cpu="4")])
"""Room for one more job of four cores. The queue default has what it uses, lab nothing."""


@pytest.mark.all
@example(cluster=ONE_NODE, new=[job("new0", cpu="4"), job("new1", cpu="4")], shards=1)
@example(cluster=ONE_NODE, new=[job("new0", cpu="4"), job("new1", cpu="4", queue="lab")], shards=1)
@given(
    cluster=clusters(prefix="old", most=3),
    new=jobs(prefix="new", most=5),
    # With several, two jobs that want the last room of one node are placed at the same time, and
    # the ledger takes the one that comes first: a plan says that it does not know which.
    shards=st.sampled_from([1, 1, 3]),
)
@COMPARED
def test_planned_placements_happen(
    cluster: RandomCluster,
    new: list[Item],
    shards: int,
    tmp_path: Path,
    embedded_server: EmbeddedServer,
) -> None:
    flush(embedded_server)
    asyncio.run(_compare(cluster, new, shards, tmp_path, embedded_server.url))


async def _compare(
    cluster: RandomCluster, new: list[Item], shards: int, path: Path, url: str
) -> None:
    async with running(url, path, shards=shards) as service:
        await filled(service, cluster)
        plan = await planned(service, *new)
        await submit(service, *new)
        await at_rest(service)
        async with asking(service) as client, client.get(PODS) as answer:
            pods = (await answer.json())["items"]
        words = {job["name"]: await explained(service, job["name"]) for job in plan["jobs"]}
    running_pods = Counter(
        pod["metadata"]["labels"]["volcano.sh/job-name"]
        for pod in pods
        if pod["spec"].get("nodeName")
    )
    certain = [job for job in plan["jobs"] if job["certain"]]
    assert shards > 1 or certain == plan["jobs"]
    foretold = {job["name"]: job["tasks"]["now"] for job in certain}
    assert foretold == {name: running_pods[name] for name in foretold}, (plan, words)
    for each in plan["jobs"]:
        runs, tasks = running_pods[each["name"]], each["tasks"]
        assert not runs or tasks["minimum"] <= runs <= tasks["total"], (plan, words)
        if not each["certain"]:
            # Several shards may leave the queue a share that the plan gave to others: then the job
            # is judged by its nodes, of which a plan that waits for the share says nothing.
            happened = words[each["name"]]["reason"]
            by_nodes = each.get("reason") == "WaitingForQuota"
            assert runs == tasks["total"] or by_nodes or happened in ROOM_OR_SHARE
        elif each["verdict"] != "now":
            # Room and share: which of them is told depends on which was missing last.
            happened = words[each["name"]]["reason"]
            assert each["reason"] == happened or {each["reason"], happened} <= ROOM_OR_SHARE
    if not any(job["tasks"]["now"] for job in plan["jobs"]):
        # Nobody takes anything: there is nothing to compete for.
        assert not any(running_pods[job["name"]] for job in plan["jobs"]), (plan, words)
