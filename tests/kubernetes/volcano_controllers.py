"""A double of Volcano's controllers: what its Job and Queue controllers write, beside a scheduler.

A Job gets a PodGroup; once that is Inqueue it gets its pods, with Volcano's labels and annotations;
its status follows them. Queues are opened, and count their PodGroups by phase. Everything that is
a scheduler's is left alone: phases of PodGroups, nodes, what queues have allocated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from typing import Any

from laboratory.local_kubernetes.client import ApiClient
from shared.units.quantity import amount

Json = dict[str, Any]
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/default/pods"
TICK_SECONDS = 0.1
_ENDED = ("Completed", "Failed")


class VolcanoControllers:
    """``run`` serves the namespace ``default`` until it is cancelled."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.phases: dict[str, list[str]] = {}
        """Job -> the phases of its PodGroup, as they were seen one after the other."""

    async def run(self) -> None:
        while True:
            await self.step()
            await asyncio.sleep(TICK_SECONDS)

    async def step(self) -> None:
        """Look at everything once, and write what follows from it."""
        groups = {owner(group): group for group in await self._items(GROUPS)}
        pods: dict[str, list[Json]] = {}
        for pod in await self._items(PODS):
            pods.setdefault(owner(pod), []).append(pod)
        for job in await self._items(JOBS):
            await self._sync(job, groups.get(uid(job)), pods.get(uid(job), []))
        for queue in await self._items(QUEUES):
            await self._count(queue, list(groups.values()))

    async def _items(self, path: str) -> list[Json]:
        items: list[Json] = (await self._client.get(path))["items"]
        return items

    # --- jobs -----------------------------------------------------------------------------------

    async def _sync(self, job: Json, group: Json | None, pods: list[Json]) -> None:
        if group is None:
            await self._client.create(group_of(job))
            return
        observed = self.phases.setdefault(job["metadata"]["name"], [])
        phase = (group.get("status") or {}).get("phase", "Pending")
        if not observed or observed[-1] != phase:
            observed.append(phase)
        if phase not in ("", "Pending") and not pods:
            await self._client.create(*pods_of(job, group["metadata"]["name"]))
            return
        status = status_of(job, pods)
        if status != job.get("status"):
            path = f"{JOBS}/{job['metadata']['name']}/status"
            await self._client.patch(path, {"status": status})

    # --- queues ---------------------------------------------------------------------------------

    async def _count(self, queue: Json, groups: list[Json]) -> None:
        name, status = queue["metadata"]["name"], queue.get("status") or {}
        mine = [group for group in groups if group["spec"]["queue"] == name]
        counts = Counter((group.get("status") or {}).get("phase", "Pending") for group in mine)
        words = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
        report = {"state": "Open"} | {word.lower(): counts[word] for word in words}
        if any(status.get(field) != value for field, value in report.items()):
            await self._client.patch(f"{QUEUES}/{name}/status", {"status": report})


def uid(item: Json) -> str:
    return str(item["metadata"]["uid"])


def owner(item: Json) -> str:
    """The uid of its controller; "" without one."""
    owners = item["metadata"].get("ownerReferences") or [{"uid": ""}]
    return str(owners[0]["uid"])


def controlled(job: Json) -> list[Json]:
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}
    return [kind | {"name": job["metadata"]["name"], "uid": uid(job)}]


def group_of(job: Json) -> Json:
    """The PodGroup of a Job: its minima, and what the first of its tasks ask for."""
    spec = job["spec"]
    tasks = spec["tasks"]
    replicas = sum(task.get("replicas", 1) for task in tasks)
    minimum = spec.get("minAvailable") or replicas
    expected = {"minMember": minimum, "minResources": least(tasks, minimum)}
    members = {t["name"]: t["minAvailable"] for t in tasks if t.get("minAvailable")}
    if members:
        expected["minTaskMember"] = members
    for field in ("priorityClassName", "networkTopology"):
        if spec.get(field):
            expected[field] = spec[field]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"{job['metadata']['name']}-{uid(job)}",
            "namespace": "default",
            "ownerReferences": controlled(job),
            "annotations": job["metadata"].get("annotations") or {},
        },
        "spec": expected | {"queue": spec.get("queue") or "default"},
    }


def least(tasks: list[Json], count: int) -> dict[str, str]:
    """Sum of the first ``count`` pods' requests."""
    total: Counter[str] = Counter()
    for task in tasks:
        number = min(count, task.get("replicas", 1))
        count -= number
        for container in task["template"]["spec"]["containers"]:
            for name, value in (container.get("resources") or {}).get("requests", {}).items():
                total[name] += number * amount(name, value, name)
    return {name: _quantity(name, units) for name, units in total.items()}


def _quantity(name: str, units: int) -> str:
    """``units``: thousandths, but of memory and storage, which are whole bytes."""
    if name in ("memory", "ephemeral-storage"):
        return str(units)
    return format((Decimal(units) / 1000).normalize(), "f")


def pods_of(job: Json, group: str) -> list[Json]:
    name = job["metadata"]["name"]
    queue = job["spec"].get("queue") or "default"
    items: list[Json] = []
    for number, task in enumerate(job["spec"]["tasks"]):
        role = task.get("name") or f"default{number}"
        words = {
            "volcano.sh/job-name": name,
            "volcano.sh/task-spec": role,
            "volcano.sh/queue-name": queue,
        }
        template = task["template"]
        meta = template.get("metadata") or {}
        for index in range(task.get("replicas", 1)):
            notes = words | {"scheduling.k8s.io/group-name": group, "volcano.sh/job-version": "0"}
            spec = {"schedulerName": job["spec"].get("schedulerName", "volcano")}
            items.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{name}-{role}-{index}",
                        "namespace": "default",
                        "ownerReferences": controlled(job),
                        "labels": (meta.get("labels") or {}) | words,
                        "annotations": (meta.get("annotations") or {}) | notes,
                    },
                    "spec": spec | template["spec"],
                }
            )
    return items


def status_of(job: Json, pods: list[Json]) -> Json:
    """The Job's status: Running with its minimum, and its end once all pods have ended."""
    phases = Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods)
    replicas = sum(task.get("replicas", 1) for task in job["spec"]["tasks"])
    minimum = job["spec"].get("minAvailable") or replicas
    before = (job.get("status") or {}).get("state", {}).get("phase", "Pending")
    alive = phases["Running"] + phases["Succeeded"]
    phase = before
    if before not in _ENDED and pods and phases["Succeeded"] + phases["Failed"] == len(pods):
        phase = "Completed" if phases["Succeeded"] >= minimum else "Failed"
    elif before == "Pending" and alive >= minimum:
        phase = "Running"
    counts = {word.lower(): phases[word] for word in ("Pending", "Running", "Succeeded", "Failed")}
    return {"state": {"phase": phase}, "minAvailable": minimum} | counts
