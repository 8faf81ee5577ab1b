"""Requests of a leader that is gone: what the ledger wants is adopted, the rest is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cluster.kubernetes.bind_requests import strays
from coordinator.cluster.kubernetes.state.pods import STATEMENT
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.driver.harness import Followed, node, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import (
    PODS,
    REQUESTS,
    Json,
    beside_binder,
    binder_of,
    gang,
    gpu_node,
    kai_pod,
    requests,
)
from tests.kubernetes.driver.test_rights import kai_ledger

pytestmark = pytest.mark.timeout(240)


async def test_requests_that_a_dead_leader_wrote_are_its_successors(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> None:
    """It died between writing and the binder's answer. A share keeps its device: the bind stream is
    read again."""
    kubeconfig = control_plane.admin.kubeconfig
    binder.pause()
    names = [f"g{number}" for number in range(3)]
    await cluster.create(gpu_node("n1", 2), gpu_node("n2", 2), gang("ring", 3))
    async with beside_binder(redis_url, short_dir / "a", cluster, kubeconfig):
        await cluster.create(*(kai_pod(n, group="ring", gpu_fraction="0.7") for n in names))
        before = await until(lambda: _written(cluster, 3))
    async with beside_binder(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await until(lambda: binder_of(second).counts.adopted == 3)
        binder.resume()
        nodes = await second.until_bound(*names)
        await until(lambda: second.states()["bound"] == 3)
        counts = binder_of(second).counts
    after = await requests(cluster)
    assert {n: item["metadata"]["uid"] for n, item in after.items()} == {
        n: item["metadata"]["uid"] for n, item in before.items()
    }
    assert counts.written == counts.withdrawn == 0
    assert nodes == {n: item["spec"]["selectedNode"] for n, item in before.items()}
    assert len({item["spec"]["selectedGPUGroups"][0] for item in after.values()}) == 3


async def test_a_request_that_was_written_and_lost_is_written_again_with_its_devices(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> None:
    """Somebody deleted it while no leader was there."""
    kubeconfig = control_plane.admin.kubeconfig
    binder.pause()
    await cluster.create(gpu_node("n1", 1))
    async with beside_binder(redis_url, short_dir / "a", cluster, kubeconfig):
        await cluster.create(kai_pod("half", gpu_fraction="0.5"))
        [before] = (await until(lambda: _written(cluster, 1))).values()
    await cluster.delete(await cluster.path_of(_typed(before)))
    async with beside_binder(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        [after] = (await until(lambda: _written(cluster, 1))).values()
        binder.resume()
        await second.until_bound("half")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] != before["metadata"]["annotations"], "its own epoch"


async def test_a_deposed_leaders_request_is_found_out_and_withdrawn(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes late, for a pod that waits for room, and for one that the ledger has elsewhere."""
    monkeypatch.setattr(strays, "STRAY_SECONDS", 1.0)
    monkeypatch.setattr(strays, "SWEEP_SECONDS", 0.3)
    binder.pause()
    await cluster.create(node("n1"), node("n2"), kai_pod("a"), kai_pod("waits", cpu=64))
    reached = await until(lambda: _written(cluster, 1))
    ledger = reached["a"]["metadata"]["annotations"][STATEMENT].partition("/")[0]
    late = f"{ledger}/0:dead/1-0"
    waits = await cluster.get(f"{PODS}/waits")
    await cluster.create(_request(waits, "n1", late))
    await until(lambda: binder_of(quadrant).strays.deleted == 1)
    assert set(await requests(cluster)) == {"a"}
    ours = reached["a"]["spec"]["selectedNode"]
    theirs = {"n1": "n2", "n2": "n1"}[ours]
    changed = {
        "metadata": {"annotations": {STATEMENT: late}},
        "spec": {"selectedNode": theirs},
    }
    await cluster.patch(f"{REQUESTS}/a", changed)
    await until(lambda: binder_of(quadrant).counts.withdrawn == 1)
    await until(lambda: _selects(cluster, "a", ours))
    binder.resume()
    assert await quadrant.until_bound("a") == {"a": ours}
    assert await binder.until_bound(1) == [("a", ours)]


async def test_a_request_that_kais_scheduler_left_is_its_binders_to_do(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> None:
    """Quadrant decides about the pod as well; the API server binds it once, and the books follow
    it, wherever it is."""
    binder.pause()
    await cluster.create(node("n1"))
    [pod] = await cluster.create(kai_pod("a"))
    await cluster.create(_request(pod, "n1", ""))
    kubeconfig = control_plane.admin.kubeconfig
    async with beside_binder(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        await until(lambda: binder_of(quadrant).counts.adopted == 1)
        binder.resume()
        await quadrant.until_bound("a")
        await until(lambda: quadrant.states()["bound"] == 1)
        assert binder_of(quadrant).counts.written == 0


async def test_a_pod_that_the_binder_put_elsewhere_is_adopted_there(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    binder.pause()
    await cluster.create(node("n1"), node("n2"))
    [pod] = await cluster.create(kai_pod("a"))
    [request] = (await until(lambda: _written(cluster, 1))).values()
    other = {"n1": "n2", "n2": "n1"}[request["spec"]["selectedNode"]]
    await cluster.bind({"apiVersion": "v1", "kind": "Pod"} | pod, other)
    await until(lambda: quadrant.states()["bound"] == 1)
    binder.resume()
    [state] = quadrant.jobs()
    core = quadrant.service.service.core
    assert core.names[state.rows[0]] == other


def _typed(request: Json) -> Json:
    return {"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest"} | request


def _request(pod: Json, node: str, statement: str) -> Json:
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    notes = {STATEMENT: statement} if statement else {}
    return _typed(
        {
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "ownerReferences": [owner],
                "annotations": notes,
            },
            "spec": {
                "podName": meta["name"],
                "selectedNode": node,
                "receivedResourceType": "Regular",
                "receivedGPU": {"count": 0, "portion": "0.00"},
            },
        }
    )


async def _written(cluster: ApiClient, count: int) -> dict[str, Json] | None:
    requests_now = await requests(cluster)
    return requests_now if len(requests_now) == count else None


async def _selects(cluster: ApiClient, pod: str, node: str) -> bool:
    result = (await requests(cluster)).get(pod)
    return result is not None and bool(result["spec"]["selectedNode"] == node)


async def test_after_a_lost_ledger_pods_are_fenced_off_before_a_request_is_written(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> None:
    """The old ledger's leader may have bound by itself, and that binding may be on its way."""
    kubeconfig = control_plane.admin.kubeconfig
    binder.pause()
    await cluster.create(node("n1", cpu=4))
    async with beside_binder(redis_url, short_dir / "a", cluster, kubeconfig):
        await cluster.create(kai_pod("a"))
        await until(lambda: _written(cluster, 1))
    async with beside_binder(kai_ledger(redis_url), short_dir / "b", cluster, kubeconfig) as second:
        writes = second.observed.writes
        assert writes is not None
        await until(lambda: writes.counts.fences == 1)
        binder.resume()
        await second.until_bound("a")
        assert writes.leases.before == "", "or every later start would fence again"
