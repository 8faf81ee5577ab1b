"""Evictions on a real API server: victims leave by the eviction subresource, budgets count, and the
room is held meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.verification.local_kubernetes.client import ApiClient
from coordinator.verification.local_kubernetes.control_plane import ControlPlane
from coordinator.verification.local_kubernetes.definitions import VOLCANO, install
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
POLICY = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient,
    control_plane: ControlPlane,
    ledger_url: str,
    short_dir: Path,
    tmp_path: Path,
) -> AsyncIterator[Followed]:
    """One node, full of four pods of low priority that run."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    await install(cluster, *VOLCANO)
    await cluster.create(node("n1"), priority("low", 10), priority("high", 1000))
    async with followed(
        ledger_url, short_dir, cluster, control_plane.admin.kubeconfig, policy=policy
    ) as running:
        names = [f"low-{i}" for i in range(4)]
        await cluster.create(*(of_class(name, "low") for name in names))
        await running.until_bound(*names)
        for name in names:
            await cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
        await until(lambda: running.states()["running"] == 4)
        yield running


def priority(name: str, value: int) -> Json:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return kind | {"metadata": {"name": name}, "value": value}


def of_class(name: str, priority_class: str, **labels: str) -> Json:
    made = pod(name, labels={"app": "low"} | labels)
    made["spec"] |= {"priorityClassName": priority_class, "terminationGracePeriodSeconds": 30}
    return made


async def leaving(quadrant: Followed) -> list[Json]:
    pods = (await quadrant.pods()).values()
    return [pod for pod in pods if pod["metadata"].get("deletionTimestamp")]


async def test_a_victim_leaves_and_the_room_is_held_for_whom_it_left(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(of_class("urgent", "high"))
    (victim,) = await until(lambda: _some(quadrant))
    assert victim["metadata"]["name"].startswith("low-")
    conditions = {c["type"]: c for c in victim["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["status"] == "True"

    async def nominated() -> bool:
        waiting = (await quadrant.pods())["urgent"]
        return bool(waiting["status"].get("nominatedNodeName") == "n1")

    await until(nominated)
    await cluster.create(of_class("other", "low"))  # it does not get what was made free
    await cluster.delete(f"{PODS}/{victim['metadata']['name']}", gracePeriodSeconds="0")
    await quadrant.until_bound("urgent")
    assert set(await quadrant.nodes_of("other")) == set()
    assert len(await leaving(quadrant)) == 0, "nobody else had to go"


async def _some(quadrant: Followed) -> list[Json] | None:
    return await leaving(quadrant) or None


async def test_a_budget_that_the_policy_does_not_look_at_is_kept_by_the_server(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """The eviction is asked for until the budget allows it."""
    budget = {"minAvailable": 4, "selector": {"matchLabels": {"app": "low"}}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    await cluster.create(
        kind | {"metadata": {"name": "all", "namespace": "default"}, "spec": budget}
    )
    await cluster.create(of_class("urgent", "high"))
    writes = quadrant.observed.writes
    assert writes is not None
    await until(lambda: writes.counts.budget_refusals >= 2)
    assert await leaving(quadrant) == []
    await cluster.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/all")
    (victim,) = await until(lambda: _some(quadrant))
    await cluster.delete(f"{PODS}/{victim['metadata']['name']}", gracePeriodSeconds="0")
    await quadrant.until_bound("urgent")
