"""One node pool of a real cluster: what is in another one is neither bound nor written to, and its
Lease is another one too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.typing import EventDict

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.builders.objects import kai_group, kai_queue
from tests.kubernetes.definitions import install_kai
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
POOL = "kai.scheduler/node-pool"
BLUE = {POOL: "blue"}
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def group(name: str, labels: Json) -> Json:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return kai_group(name, "q", minMember=1) | {"metadata": metadata}


def member(of: str, *, cpu: int = 1) -> Json:
    return pod(f"{of}-0", cpu=cpu, annotations={"pod-group-name": of})


async def test_only_the_pool_is_scheduled(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
    log_lines: list[EventDict],
) -> None:
    await install_kai(cluster)
    queue = kai_queue("q")
    queue["metadata"]["labels"] = BLUE
    await cluster.create(node("blue", labels=BLUE), node("plain"), queue)
    policy = short_dir / "kai.yaml"
    policy.write_text("dialect: kai\noptions: {partition-label-value: blue}\n")
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, policy=policy) as quadrant:
        await cluster.create(group("theirs", {}), member("theirs"))
        await cluster.create(group("ours", BLUE), member("ours", cpu=3))
        assert await quadrant.until_bound("ours-0") == {"ours-0": "blue"}
        await cluster.create(group("large", BLUE), member("large", cpu=4))
        await until(lambda: _is_told(cluster, "large"))
        assert "status" not in await cluster.get(f"{GROUPS}/theirs")
        pods = await quadrant.pods()
        assert "conditions" not in pods["theirs-0"]["status"]
        lease = await cluster.get(f"{LEASES}/quadrant-quadrant-blue")
        assert lease["spec"]["holderIdentity"]
        await _moves_in(quadrant, cluster)
    warnings = [line["event"] for line in log_lines if line["log_level"] == "warning"]
    assert not [event for event in warnings if "PodGroups" in event]


async def _moves_in(quadrant: Followed, cluster: ApiClient) -> None:
    await cluster.patch("/api/v1/nodes/plain", {"metadata": {"labels": BLUE}})
    assert await quadrant.until_bound("large-0") == {"large-0": "plain"}
    await cluster.patch(f"{GROUPS}/theirs", {"metadata": {"labels": BLUE}})
    assert await quadrant.until_bound("theirs-0") == {"theirs-0": "blue"}


async def _is_told(cluster: ApiClient, name: str) -> bool:
    status: Json = (await cluster.get(f"{GROUPS}/{name}")).get("status") or {}
    return bool(status.get("schedulingConditions"))
