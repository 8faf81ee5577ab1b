"""KAI's binder binds what Quadrant decided, and what it cannot do is decided anew."""

from __future__ import annotations

from functools import partial

import pytest

from coordinator.bind.quarantine import REFUSALS
from coordinator.cluster.kubernetes.bind_requests import strays, writes
from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.service.bind_loop import CALLS
from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from laboratory.local_kubernetes.kubelets import started
from shared.messages.messages import TaskState
from tests.kubernetes.driver.harness import Followed, node, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import (
    PODS,
    REQUESTS,
    Json,
    binder_of,
    gang,
    kai_pod,
    phase,
    refuse_bindings_to,
    requests,
)
from tests.kubernetes.faults.effects import Answer
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)


async def test_a_pod_is_bound_by_the_binder_and_runs(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    await cluster.create(node("n1"))
    [created] = await cluster.create(kai_pod("a"))
    assert await quadrant.until_bound("a") == {"a": "n1"}
    await until(lambda: quadrant.states()["bound"] == 1)
    assert await binder.until_bound(1) == [("a", "n1")]
    request = await until(partial(_succeeded, cluster, "a"))
    assert request["spec"] == {
        "podName": "a",
        "selectedNode": "n1",
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 0, "portion": "0.00"},
        "backoffLimit": 1,
    }
    meta = request["metadata"]
    assert meta["labels"] == {"selected-node": "n1"}
    uid = created["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid}
    assert meta["ownerReferences"] == [owner]
    ledger, epoch, entry = meta["annotations"][STATEMENT].split("/")
    assert ledger and epoch.startswith("1:") and entry
    await cluster.patch(f"{PODS}/a/status", {"status": started()}, form=STRATEGIC_PATCH)
    await until(lambda: quadrant.states()["running"] == 1)


async def test_a_gang_is_asked_for_as_a_whole(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """Nothing of it before there is room for all; its PodGroup is told as ever."""
    names = [f"g{number}" for number in range(4)]
    await cluster.create(node("n1", cpu=2), gang("ring", 4))
    await cluster.create(*(kai_pod(name, group="ring") for name in names))
    await until(lambda: _condition(cluster, "ring"))
    assert await requests(cluster) == {}
    await cluster.create(node("n2", cpu=2))
    nodes = await quadrant.until_bound(*names)
    assert sorted(nodes.values()) == ["n1", "n1", "n2", "n2"]
    written = await requests(cluster)
    assert {name: item["spec"]["selectedNode"] for name, item in written.items()} == nodes
    entries = {item["metadata"]["annotations"][STATEMENT] for item in written.values()}
    assert len(entries) == 1, "one statement placed them"
    await until(lambda: quadrant.states()["bound"] == 4)


async def test_pods_that_the_binder_fails_to_bind_are_placed_elsewhere(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """They fit best on a node that fails each time: it is quarantined, as where a kubelet
    refuses."""
    await refuse_bindings_to(cluster, "bad")
    await cluster.create(node("bad", cpu=8), node("good", cpu=9))
    names = [f"p{number}" for number in range(6)]
    await cluster.create(*(kai_pod(name) for name in names))
    assert set((await quadrant.until_bound(*names)).values()) == {"good"}
    refused = sum(at == "bad" for _, at, _ in binder.attempts())
    assert refused >= binder_of(quadrant).counts.failed >= REFUSALS
    core = quadrant.service.service.core
    assert [(core.names[row], q.reason) for row, q in core.quarantines.now.items()] == [
        ("bad", writes.FAILED)
    ]
    written = await requests(cluster)
    assert {item["spec"]["selectedNode"] for item in written.values()} == {"good"}
    await until(lambda: quadrant.states()["bound"] == 6)


async def test_a_gang_is_whole_in_the_end_where_the_binder_fails_for_some_of_it(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    names = [f"g{number}" for number in range(4)]
    for name in names[1:]:
        proxy.inject(Answer(500), method="POST", part=f"/pods/{name}/binding", times=99)
    await cluster.create(*(node(f"n{number}", cpu=2) for number in range(3)), gang("ring", 4))
    await cluster.create(*(kai_pod(name, group="ring") for name in names))
    await until(lambda: binder_of(quadrant).counts.failed >= 3)
    proxy.clear()
    await quadrant.until_bound(*names)
    await until(lambda: quadrant.states()["bound"] == 4)


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_failure_after_which_the_binder_tries_again_is_not_the_end(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, proxy: FaultyProxy, limit: int
) -> None:
    """It does so after a second, once. ``limit``: attempts that the request allows; 2 as of a
    request that KAI's scheduler left."""
    busy = proxy.inject(Answer(500), method="POST", part="/pods/a/binding")
    binder.pause()
    await cluster.create(node("n1"), kai_pod("a"))
    [request] = (await until(lambda: _written(cluster, 1))).values()
    assert request["spec"]["backoffLimit"] == 1
    await cluster.patch(f"{REQUESTS}/a", {"spec": {"backoffLimit": limit}})
    binder.resume()
    assert await quadrant.until_bound("a") == {"a": "n1"}
    assert (busy.met, await binder.until_bound(1)) == (1, [("a", "n1")])
    counts = binder_of(quadrant).counts
    assert (counts.written, counts.failed) == (1, 0), "one request, which was never taken back"


async def test_a_silent_binder_is_told_of_and_waited_for(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(writes, "WAIT_SECONDS", 0.5)
    binder.pause()
    await cluster.create(node("n1"), node("n2"), kai_pod("a"))
    requested = await until(lambda: _written(cluster, 1))
    await until(lambda: bool(binder_of(quadrant).problem))
    assert "default/a first: does KAI's binder run?" in binder_of(quadrant).problem
    counts = binder_of(quadrant).counts
    await until(lambda: binder_of(quadrant).server.looks >= 2)
    still = await requests(cluster)
    uids = [{item["metadata"]["uid"] for item in each.values()} for each in (requested, still)]
    assert uids[0] == uids[1], "nothing is guessed: it may be bound yet"
    assert (counts.written, counts.withdrawn) == (1, 0)
    [state] = quadrant.jobs()
    assert state.states[0] == TaskState.BINDING, "its room is held"
    binder.resume()
    await quadrant.until_bound("a")
    await until(lambda: not binder_of(quadrant).problem)


async def test_many_requests_without_an_answer_hold_up_no_other_bind(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """More than calls to the cluster may be under way."""
    binder.pause()
    await cluster.create(node("n1", cpu=64))
    for number in range(3 * CALLS):
        await cluster.create(kai_pod(f"p{number}"))
        await until(lambda count=number + 1: _written(cluster, count))  # type: ignore[misc]
    binder.resume()
    await quadrant.until_bound(*(f"p{number}" for number in range(3 * CALLS)))


async def test_a_node_that_goes_takes_its_requests_along(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    binder.pause()
    await cluster.create(node("n1"), kai_pod("a"))
    await until(lambda: _written(cluster, 1))
    await cluster.delete("/api/v1/nodes/n1")
    await cluster.create(node("n2"))
    await until(lambda: _selects(cluster, "a", "n2"))
    binder.resume()
    assert await quadrant.until_bound("a") == {"a": "n2"}


async def test_a_pod_of_the_same_name_gets_a_request_of_its_own(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """As of a StatefulSet, before the garbage collector was there."""
    binder.pause()
    await cluster.create(node("n1"), kai_pod("a"))
    [old] = (await until(lambda: _written(cluster, 1))).values()
    await cluster.delete(f"{PODS}/a", gracePeriodSeconds="0")
    [created] = await cluster.create(kai_pod("a"))

    async def replaced() -> Json | None:
        new = (await requests(cluster)).get("a")
        return new if new and new["metadata"]["uid"] != old["metadata"]["uid"] else None

    new = await until(replaced)
    assert new["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    binder.resume()
    await quadrant.until_bound("a")


async def test_the_request_of_a_pod_that_goes_before_it_is_bound_goes_at_once(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The binder would bind the next pod of the name by it. It is not deleted as a stray."""
    monkeypatch.setattr(strays, "STRAY_SECONDS", 3600.0)
    binder.pause()
    await cluster.create(node("n1"), kai_pod("a"))
    await until(lambda: _written(cluster, 1))
    await cluster.delete(f"{PODS}/a", gracePeriodSeconds="0")
    await until(lambda: _gone(cluster, "a"))


async def test_requests_of_pods_that_went_are_deleted(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector does so too, where there is one."""
    monkeypatch.setattr(strays, "STRAY_SECONDS", 1.0)
    monkeypatch.setattr(strays, "SWEEP_SECONDS", 0.5)
    await cluster.create(node("n1"), kai_pod("a"), kai_pod("b"))
    await quadrant.until_bound("a", "b")
    await cluster.delete(f"{PODS}/a", gracePeriodSeconds="0")
    await until(lambda: _gone(cluster, "a"))
    assert set(await requests(cluster)) == {"b"}


async def _written(cluster: ApiClient, count: int) -> dict[str, Json] | None:
    requests_now = await requests(cluster)
    return requests_now if len(requests_now) == count else None


async def _succeeded(cluster: ApiClient, pod: str) -> Json | None:
    """The request, once the binder says that it is done: it does so after the binding."""
    request = (await requests(cluster))[pod]
    return request if phase(request) == "Succeeded" else None


async def _selects(cluster: ApiClient, pod: str, node: str) -> bool:
    result = (await requests(cluster)).get(pod)
    return result is not None and bool(result["spec"]["selectedNode"] == node)


async def _gone(cluster: ApiClient, pod: str) -> bool:
    return pod not in await requests(cluster)


async def _condition(cluster: ApiClient, group: str) -> bool:
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{group}"
    status = (await cluster.get(path)).get("status") or {}
    return bool(status.get("schedulingConditions"))
