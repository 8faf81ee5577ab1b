"""Evictions on a real API server: victims leave by the eviction subresource, budgets count, and the
room is held meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.state import leaving as leaving_pods
from coordinator.cluster.overdue import OverdueObstacle
from coordinator.service import reconcile_loop
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.identity import Identity
from tests.builders.objects import priority_class
from tests.end_to_end.one_process.harness import PATIENCE
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until
from tests.kubernetes.faults.effects import Answer, Effect, LoseAnswer, LoseRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
EFFECTS = [
    LoseAnswer(),
    *(pytest.param(e, marks=pytest.mark.all) for e in (Answer(429), Answer(500), LoseRequest())),
]
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


Begin = Callable[[str], AbstractAsyncContextManager[Followed]]


@pytest_asyncio.fixture
async def begin(
    cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path, tmp_path: Path
) -> Begin:
    """Starts the leader of this name. There is one node; the API server is reached by way of the
    proxy."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    await install_volcano(cluster)
    await cluster.create(node("n1"), priority_class("low", 10), priority_class("high", 1000))
    return lambda name: followed(
        redis_url, short_dir / name, cluster, proxied.kubeconfig, policy=policy
    )


@pytest_asyncio.fixture
async def quadrant(begin: Begin, cluster: ApiClient) -> AsyncIterator[Followed]:
    """The node is full of four pods of low priority that run."""
    async with begin("a") as running:
        await fill(running, cluster)
        yield running


async def fill(running: Followed, cluster: ApiClient) -> None:
    names = [f"low-{i}" for i in range(4)]
    await cluster.create(*(of_class(name, "low") for name in names))
    await running.until_bound(*names)
    for name in names:
        await cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    await until(lambda: running.states()["running"] == 4)


def of_class(name: str, priority_class: str, **labels: str) -> Json:
    pod_item = pod(name, labels={"app": "low"} | labels)
    pod_item["spec"] |= {"priorityClassName": priority_class, "terminationGracePeriodSeconds": 1}
    return pod_item


async def leaving(quadrant: Followed) -> list[Json]:
    pods = (await quadrant.pods()).values()
    return [pod for pod in pods if pod["metadata"].get("deletionTimestamp")]


async def test_a_victim_leaves_and_its_room_is_held_for_the_preemptor(
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


@pytest.mark.parametrize(
    "effect",
    [
        LoseAnswer(),
        *(
            pytest.param(e, marks=pytest.mark.all)
            for e in (Answer(429), Answer(500), LoseRequest())
        ),
    ],
    ids=repr,
)
async def test_an_eviction_whose_request_fails_costs_one_victim(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, effect: Effect
) -> None:
    fault = proxy.inject(effect, method="POST", part="/eviction", times=2)
    await cluster.create(of_class("urgent", "high"))
    (victim,) = await until(lambda: _some(quadrant))
    assert fault.met >= 1
    await cluster.delete(f"{PODS}/{victim['metadata']['name']}", gracePeriodSeconds="0")
    await quadrant.until_bound("urgent")
    assert len(await quadrant.nodes_of()) == 4
    assert await leaving(quadrant) == [], "nobody else had to go"


async def _some(quadrant: Followed) -> list[Json] | None:
    return await leaving(quadrant) or None


async def test_a_budget_that_the_policy_does_not_look_at_is_kept_by_the_server(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """The eviction is asked for until the budget allows it."""
    await _allow_no_eviction(cluster)
    await cluster.create(of_class("urgent", "high"))
    writes = quadrant.observed.writes
    assert writes is not None
    await until(lambda: writes.counts.budget_refusals >= 2)
    assert await leaving(quadrant) == []
    await cluster.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/all")
    (victim,) = await until(lambda: _some(quadrant))
    await cluster.delete(f"{PODS}/{victim['metadata']['name']}", gracePeriodSeconds="0")
    await quadrant.until_bound("urgent")


async def _allow_no_eviction(cluster: ApiClient) -> None:
    budget = {"minAvailable": 4, "selector": {"matchLabels": {"app": "low"}}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    await cluster.create(
        kind | {"metadata": {"name": "all", "namespace": "default"}, "spec": budget}
    )


async def _events_of(cluster: ApiClient, pod: str, reason: str) -> list[str]:
    """Their messages."""
    listed = await cluster.get("/api/v1/namespaces/default/events")
    return [
        event["message"]
        for event in listed["items"]
        if event["involvedObject"]["name"] == pod and event["reason"] == reason
    ]


async def _reason(quadrant: Followed, pod: str) -> str:
    """Message of the pod's condition, as `kubectl describe` shows it."""
    conditions = (await quadrant.pods())[pod]["status"].get("conditions", [])
    messages = [c.get("message", "") for c in conditions if c["type"] == "PodScheduled"]
    return messages[0] if messages else ""


async def test_a_job_that_waits_for_a_victim_gets_the_victims_name(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner's finalizer stays, and no kubelet stops it."""
    monkeypatch.setattr(leaving_pods, "OVERDUE_SECONDS", 1.0)
    for i in range(4):
        path = f"{PODS}/low-{i}"
        await cluster.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    await cluster.create(of_class("urgent", "high"))
    (victim,) = await until(lambda: _some(quadrant))
    name = victim["metadata"]["name"]
    overdue = quadrant.service.service.core.victims.overdue
    await until(lambda: overdue.counts() == {OverdueObstacle.FINALIZER: 1})

    async def find_report() -> tuple[str, str, str] | None:
        of_victim = await _events_of(cluster, name, "EvictionOverdue")
        of_waiting = await _events_of(cluster, "urgent", "FailedScheduling")
        reason = await _reason(quadrant, "urgent")
        waiting = [text for text in of_waiting if name in text]
        if not of_victim or not waiting or name not in reason:
            return None
        return of_victim[0], waiting[0], reason

    for text in await until(find_report):
        assert f"default/{name} on n1 was told to end at 20" in text
        assert "with 1 s of grace" in text
        assert "the finalizers example.com/hold" in text
        assert f"kubectl delete pod {name} -n default --grace-period=0 --force" in text

    # What it is promised stays promised, and nobody else has to go meanwhile.
    await asyncio.sleep(2.0)
    assert [pod["metadata"]["name"] for pod in await leaving(quadrant)] == [name]
    assert (await quadrant.pods())["urgent"]["status"]["nominatedNodeName"] == "n1"
    await cluster.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    await cluster.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
    await quadrant.until_bound("urgent")
    await until(lambda: not overdue.counts())


async def test_a_job_waiting_for_an_overdue_victim_takes_other_room(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving_pods, "OVERDUE_SECONDS", 1.0)
    await cluster.create(of_class("urgent", "high"))
    await until(lambda: _some(quadrant))
    overdue = quadrant.service.service.core.victims.overdue
    await until(lambda: overdue.counts() == {OverdueObstacle.KUBELET: 1})
    await cluster.create(node("n2"))
    assert await quadrant.until_bound("urgent") == {"urgent": "n2"}


async def test_a_victim_that_a_budget_keeps_is_named_with_the_budget(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving_pods, "OVERDUE_SECONDS", 1.0)
    await _allow_no_eviction(cluster)
    await cluster.create(of_class("urgent", "high"))

    async def find_report() -> str | None:
        texts = await _events_of(cluster, "urgent", "FailedScheduling")
        return next((text for text in texts if "was to be evicted at" in text), None)

    text = await until(find_report)
    assert "The disruption budget all " in text, "in the server's words"
    overdue = quadrant.service.service.core.victims.overdue
    assert overdue.counts() == {OverdueObstacle.REFUSED: 1}


def _victims(quadrant: Followed) -> list[str]:
    return [job.job.name for job in quadrant.jobs() if job.evicted]


async def test_evictions_that_a_budget_refuses_hold_up_no_binding(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """More of them than there are calls to the cluster at once."""
    await _allow_no_eviction(cluster)
    writes = quadrant.observed.writes
    assert writes is not None
    for i in range(4):
        await cluster.create(of_class(f"urgent-{i}", "high"))
        await until(lambda: len(_victims(quadrant)) > i)  # noqa: B023 - called before it changes
    await until(lambda: writes.counts.evictions >= 8)  # each was asked for, and refused
    await cluster.create(node("n2"), of_class("plain", "low"))
    assert await quadrant.until_bound("plain") == {"plain": "n2"}


async def test_a_victim_that_a_budget_keeps_hides_none_that_is_gone(
    begin: Begin, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leader asks for both in one call, and the server goes on to refuse one of them."""
    # Reconciling would find the other one, after two looks.
    monkeypatch.setattr(reconcile_loop, "AGAIN_SECONDS", 2 * PATIENCE)
    urgent = ("urgent-0", "urgent-1")
    async with begin("a") as first:
        await fill(first, cluster)
        await _allow_no_eviction(cluster)
        await cluster.create(*(of_class(name, "high") for name in urgent))
        await until(lambda: len(_victims(first)) == 2)
        gone, stays = _victims(first)
    await cluster.delete(f"{PODS}/{gone}", gracePeriodSeconds="0")
    async with begin("b") as second:
        await until(partial(_bound, second, *urgent))
        assert stays in await second.nodes_of()


async def _bound(quadrant: Followed, *names: str) -> dict[str, str] | None:
    return await quadrant.nodes_of(*names) or None
