"""Two Quadrants with ledgers of their own on one cluster: one writes, the other says why not."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.cluster.kubernetes.writes import cluster_lease
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until

pytestmark = pytest.mark.timeout(180)

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/quadrant-quadrant"


async def test_one_writes_and_the_other_follows_it_when_it_ends(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    second_ledger: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_lease, "RENEW_SECONDS", 0.5)
    await cluster.create(node("n1", cpu=3), node("n2", cpu=3))
    kubeconfig = control_plane.admin.kubeconfig
    waits = followed(second_ledger, short_dir / "b", cluster, kubeconfig)
    async with contextlib.AsyncExitStack() as stack:
        async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
            await until(lambda: held(first))
            second = await stack.enter_async_context(waits)
            names = [f"p{i}" for i in range(6)]
            await cluster.create(*(pod(name) for name in names))
            nodes = await first.until_bound(*names)
            assert sorted(nodes.values()) == ["n1"] * 3 + ["n2"] * 3, "no room was given twice"
            assert await ledgers(cluster) == {await holder(cluster)}
            await until(lambda: second.states()["bound"] == len(names))
            assert not held(second)
            assert await holder(cluster) in (await health(second))["cluster_lease"]
            assert (await health(first))["cluster_lease"] == "ok"
            before = await holder(cluster)
        await until(lambda: held(second))
        assert await holder(cluster) not in ("", before)
        await cluster.delete("/api/v1/namespaces/default/pods/p0", gracePeriodSeconds="0")
        await cluster.create(pod("after"))
        await second.until_bound("after")
    assert await holder(cluster) == "", "given up"


def held(quadrant: Followed) -> bool:
    assert quadrant.observed.writes is not None
    return quadrant.observed.writes.leases.held


async def holder(cluster: ApiClient) -> str:
    return str((await cluster.get(LEASE))["spec"].get("holderIdentity", ""))


async def ledgers(cluster: ApiClient) -> set[str]:
    """Ledgers that the pods name as their binder."""
    pods = (await cluster.get("/api/v1/pods"))["items"]
    return {pod["metadata"]["annotations"][STATEMENT].partition("/")[0] for pod in pods}


async def health(quadrant: Followed) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession(quadrant.service.url) as session,
        session.get("/health") as answer,
    ):
        body: dict[str, Any] = await answer.json()
    return {check["name"]: check["message"] for check in body["checks"]}
