"""Volcano's objects as its webhooks hand them to its controllers, and what becomes of them."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.kubelets import DURATION, changes
from tests.builders.objects import kube_object, queue

Json = dict[str, Any]
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
DONE = "Completed"
ENDS = (DONE, "Failed", "Aborted", "Terminated")
_RETRIES = 3
_BY_NETWORK = ("tensorflow", "mpi", "pytorch", "ray")
"""Plugins whose pods find each other by the plugin svc."""

_EXAMPLES = Path(__file__).parents[3] / "coordinator/controllers/volcano_jobs.yaml"


def root_and_default() -> tuple[Json, Json]:
    """The queues that Volcano's scheduler makes at its start, as Quadrant does."""
    return queue("root", weight=1, reclaimable=False), queue("default", weight=1, reclaimable=True)


def examples() -> dict[str, Json]:
    """Name -> Job, with the fields of Volcano's own examples."""
    jobs = (with_defaults(job) for job in yaml.safe_load_all(_EXAMPLES.read_text()))
    return {job["metadata"]["name"]: job for job in jobs}


def with_defaults(job: Json) -> Json:
    """The Job with the fields that Volcano's webhook fills in."""
    job = copy.deepcopy(job)
    spec = job["spec"]
    for number, task in enumerate(spec["tasks"]):
        task.setdefault("name", f"default{number}")
        task.setdefault("replicas", 1)
        task.setdefault("minAvailable", task["replicas"])
        task.setdefault("maxRetry", _RETRIES)
    spec.setdefault("queue", "default")
    spec.setdefault("schedulerName", "volcano")
    spec.setdefault("maxRetry", _RETRIES)
    spec.setdefault("minAvailable", sum(task["minAvailable"] for task in spec["tasks"]))
    plugins = spec.get("plugins") or {}
    if any(name in plugins for name in _BY_NETWORK):
        plugins.setdefault("svc", [])
    if "mpi" in plugins:
        plugins.setdefault("ssh", [])
    return job


def lasting(job: Json, seconds: float) -> Json:
    """The Job, whose pods run for so long."""
    for task in job["spec"]["tasks"]:
        metadata = task["template"].setdefault("metadata", {})
        metadata.setdefault("annotations", {})[DURATION] = str(seconds)
    return job


def command(name: str, action: str, target: Json) -> Json:
    """A Command of Volcano's to a Job or a Queue."""
    reference = {"apiVersion": target["apiVersion"], "kind": target["kind"], "controller": True}
    reference |= {key: target["metadata"][key] for key in ("name", "uid")}
    item = kube_object("bus.volcano.sh/v1alpha1", "Command", name, action=action, target=reference)
    item["metadata"]["ownerReferences"] = [reference]
    return item


class GroupPhases:
    """Follows the PodGroups while ``run`` runs."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._by_owner: dict[str, list[str]] = {}

    async def run(self) -> None:
        async for _, group in changes(self._client, GROUPS):
            [owner] = group["metadata"].get("ownerReferences") or [{"name": ""}]
            phases = self._by_owner.setdefault(owner["name"], [])
            phase = (group.get("status") or {}).get("phase", "Pending")
            if not phases or phases[-1] != phase:
                phases.append(phase)

    def of(self, owner: str) -> list[str]:
        """Phases of the owner's PodGroup, one after the other."""
        return self._by_owner.get(owner, [])


def phase(item: Json) -> str:
    """Phase of a Job; "" before its controller has seen it."""
    return str((item.get("status") or {}).get("state", {}).get("phase", ""))


async def until_ended(cluster: ApiClient, names: Iterable[str], within: float) -> dict[str, str]:
    """Job -> its phase, once all of these have ended or the time is over."""
    deadline = time.monotonic() + within
    while True:
        jobs = {job["metadata"]["name"]: phase(job) for job in (await cluster.get(JOBS))["items"]}
        phases = {name: jobs.get(name, "") for name in names}
        if time.monotonic() > deadline or all(one in ENDS for one in phases.values()):
            return phases
        await asyncio.sleep(0.1)
