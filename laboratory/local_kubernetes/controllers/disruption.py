"""The disruption controller: how many pods of each PodDisruptionBudget may be evicted now.

The API server refuses every eviction of a budget's pods until somebody has counted them. Here
budgets say ``minAvailable`` as a number, which is all that they may say of pods without a
controller.
"""

from __future__ import annotations

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.controllers.rounds import patch_as_seen

_ENDED = ("Succeeded", "Failed")


async def count_budgets(client: ApiClient) -> None:
    # Budgets first: an eviction notes its pod in the budget before it deletes it, so that each pod
    # that was let go before this read is in one of the two.
    budgets = (await client.get("/apis/policy/v1/poddisruptionbudgets"))["items"]
    for budget in budgets:
        metadata = budget["metadata"]
        selector = ",".join(
            f"{k}={v}" for k, v in budget["spec"]["selector"]["matchLabels"].items()
        )
        pods = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        items = (await client.get(pods, labelSelector=selector))["items"]
        status = budget_status(budget, items)
        was = budget.get("status", {})
        if any(was.get(name) != value for name, value in status.items()):
            # In a merge patch a name that is absent stays: those that are gone are set to null.
            noted = dict.fromkeys(was.get("disruptedPods") or {}) | status["disruptedPods"]
            path = f"/apis/policy/v1/namespaces/{metadata['namespace']}/poddisruptionbudgets"
            change = {"status": status | {"disruptedPods": noted}}
            await patch_as_seen(client, f"{path}/{metadata['name']}/status", budget, change)


def budget_status(budget: Json, pods: list[Json]) -> Json:
    """``pods``: those that it selects."""
    noted = budget.get("status", {}).get("disruptedPods") or {}
    living = [pod for pod in pods if pod["status"]["phase"] not in _ENDED]
    staying = {p["metadata"]["name"]: p for p in living if "deletionTimestamp" not in p["metadata"]}
    healthy = sum(is_ready(pod) for name, pod in staying.items() if name not in noted)
    needed = int(budget["spec"]["minAvailable"])
    return {
        "observedGeneration": budget["metadata"]["generation"],
        "expectedPods": len(living),
        "desiredHealthy": needed,
        "currentHealthy": healthy,
        "disruptionsAllowed": max(healthy - needed, 0),
        "disruptedPods": {name: at for name, at in noted.items() if name in staying},
    }


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
