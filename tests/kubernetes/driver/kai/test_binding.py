"""KAI's binder binds what Quadrant decided, and what it cannot do is decided anew."""

from __future__ import annotations

import pytest

from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.verification.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from coordinator.verification.local_kubernetes.kubelets import started
from tests.kubernetes.driver.harness import Followed, node, until
from tests.kubernetes.driver.kai.objects import PODS, kai_pod, phase, requests
from tests.kubernetes.kai_binder import KaiBinder

pytestmark = pytest.mark.timeout(180)


async def test_a_pod_is_bound_by_the_binder_and_runs(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    await cluster.create(node("n1"))
    [made] = await cluster.create(kai_pod("a"))
    assert await quadrant.until_bound("a") == {"a": "n1"}
    await until(lambda: quadrant.states()["bound"] == 1)
    assert binder.attempts == [("a", "n1")]
    request = (await requests(cluster))["a"]
    assert request["spec"] == {
        "podName": "a",
        "selectedNode": "n1",
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 0, "portion": "0.00"},
        "backoffLimit": 1,
    }
    meta = request["metadata"]
    assert meta["labels"] == {"selected-node": "n1"}
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid}
    assert meta["ownerReferences"] == [owner]
    ledger, epoch, entry = meta["annotations"][STATEMENT].split("/")
    assert ledger and epoch.startswith("1:") and entry
    assert phase(request) == "Succeeded"
    await cluster.patch(f"{PODS}/a/status", {"status": started()}, form=STRATEGIC_PATCH)
    await until(lambda: quadrant.states()["running"] == 1)
