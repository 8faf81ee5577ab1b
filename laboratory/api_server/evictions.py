"""Evictions: what disruption budgets say of one, and what it changes in them."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from laboratory.api_server.answers import Json, NotServed, Refused
from laboratory.api_server.metadata import copied
from laboratory.api_server.pods import ENDED, is_ready
from shared.units.times import rfc3339

EVICTED: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_RETRY_SECONDS = 10
_MOST_NOTED = 2000


def needs_budget(pod: Json) -> bool:
    """Whether budgets count for a pod in this state."""
    going = "deletionTimestamp" in pod["metadata"]
    return not going and pod["status"]["phase"] not in (*ENDED, "Pending")


def budget_of(pod: Json, budgets: Iterable[Json]) -> Json | None:
    """The budget that selects the pod. Raises Refused where there are several."""
    labels = pod["metadata"].get("labels", {})
    chosen = [budget for budget in budgets if _selects(budget, labels)]
    if len(chosen) > 1:
        raise Refused(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
        )
    return chosen[0] if chosen else None


def _selects(budget: Json, labels: dict[str, str]) -> bool:
    selector = budget["spec"].get("selector") or {}
    wanted = selector.get("matchLabels")
    if not wanted or selector.keys() != {"matchLabels"}:
        raise NotServed("a budget whose selector is not of labels alone")
    return all(labels.get(key) == value for key, value in wanted.items())


def is_exempt(budget: Json, pod: Json) -> bool:
    """Whether the pod may go because it does not count as healthy."""
    if "unhealthyPodEvictionPolicy" in budget["spec"]:
        raise NotServed("a budget with a policy for unhealthy pods")
    status = budget["status"]
    enough = status["currentHealthy"] >= status["desiredHealthy"] > 0
    return enough and not is_ready(pod)


def budget_after_eviction(budget: Json, pod: Json, *, now: float) -> Json:
    """The budget after this eviction. Raises Refused."""
    status, name = budget["status"], budget["metadata"]["name"]
    healthy, needed = status["currentHealthy"], status["desiredHealthy"]
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise still_counting(name)
    if len(status.get("disruptedPods", {})) > _MOST_NOTED:
        raise NotServed("a budget with thousands of evicted pods that nobody counted")
    if not status["disruptionsAllowed"]:
        raise _too_many(
            f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        )
    result = copied(budget)
    left = status["disruptionsAllowed"] - 1
    noted = status.get("disruptedPods", {}) | {pod["metadata"]["name"]: rfc3339(now)}
    result["status"] |= {"disruptionsAllowed": left, "disruptedPods": noted}
    if not left:
        _not_allowed(result, now=now)
    return result


def _not_allowed(budget: Json, *, now: float) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "lastTransitionTime": rfc3339(now),
        "reason": "InsufficientPods",
        "message": "",
    }
    if generation := budget["status"].get("observedGeneration"):
        condition["observedGeneration"] = generation
    budget["status"].setdefault("conditions", [])
    for i, old in enumerate(budget["status"]["conditions"]):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            budget["status"]["conditions"][i] = old | condition
            return
    budget["status"]["conditions"].append(condition)


def still_counting(budget: str) -> Refused:
    """Nobody has looked at the budget's pods since something changed."""
    why = f"The disruption budget {budget} is still being processed by the server."
    return _too_many(why, retry_seconds=_RETRY_SECONDS)


def _too_many(cause: str, *, retry_seconds: int = 0) -> Refused:
    return Refused(
        HTTPStatus.TOO_MANY_REQUESTS,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={
            "causes": [{"reason": "DisruptionBudget", "message": cause}],
            **({"retryAfterSeconds": retry_seconds} if retry_seconds else {}),
        },
        retry_after=retry_seconds,
    )
