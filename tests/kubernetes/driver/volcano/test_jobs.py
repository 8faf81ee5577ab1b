"""Volcano's example Jobs from their creation to their end."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.kubelets import DURATION
from tests.kubernetes.driver.harness import Followed, until
from tests.kubernetes.driver.volcano.conftest import ROOM, VolcanoSurroundings
from tests.kubernetes.driver.volcano.objects import (
    DONE,
    EVENTS,
    GROUPS,
    PODS,
    QUEUES,
    Json,
    examples,
    lasting,
    root_and_default,
    until_ended,
)

pytestmark = pytest.mark.timeout(400)


WAITING = {
    "rings": "failed to get plugin ringsconfigmap",
    "with-volumes": "unbound immediate PersistentVolumeClaims",
}
"""Examples that wait, and why: for a plugin of another build of the controllers, and for a volume
that nobody provides."""


RESTARTING = "with-plugins"
"""An example that restarts at any event. The end of its task is one, too: where Volcano sees it
before the end of the Job, the Job begins anew, and has failed after all retries."""


async def test_every_example_runs_to_its_end(
    cluster: ApiClient,
    volcanos: VolcanoSurroundings,
    quadrant: AbstractAsyncContextManager[Followed],
) -> None:
    """Their pods are made after the admission of their PodGroup, and not before. Volcano has to
    see a task run that another depends on: an ended one does not count as ready."""
    jobs = examples()
    ending = jobs.keys() - WAITING
    async with quadrant:
        await cluster.create(
            *(lasting(job, 10.0 if "dependsOn" in str(job) else 1.0) for job in jobs.values())
        )
        ends = await until_ended(cluster, ending, 90.0)
        assert ends.pop(RESTARTING) in (DONE, "Failed")
        assert ends == dict.fromkeys(ending - {RESTARTING}, DONE)
        for name, reason in WAITING.items():
            await until(partial(_event_once_a_pod_changes, cluster, name, reason), 90.0)
    assert all(volcanos.phases.of(name)[:2] == ["Pending", "Inqueue"] for name in ending)


async def test_a_job_waits_for_its_admission_and_its_podgroup_has_each_phase_before_its_end(
    cluster: ApiClient,
    volcanos: VolcanoSurroundings,
    quadrant: AbstractAsyncContextManager[Followed],
) -> None:
    """It needs a third node. Its queue says what it has, while it has it: its pods end once that
    was seen. Volcano deletes the PodGroup of a Job that has ended."""
    large = examples()["plain"]
    [task] = large["spec"]["tasks"]
    task["replicas"] = task["minAvailable"] = large["spec"]["minAvailable"] = 3
    task["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "14"
    async with quadrant:
        await cluster.create(large)
        await until(lambda: _says(cluster, "not admitted by enqueue"))
        assert (await cluster.get(PODS))["items"] == []
        await volcanos.kubelets.join(["n3"], ROOM)
        await until(lambda: _allocated(cluster, "42"))
        await until(lambda: "Running" in volcanos.phases.of("plain"))
        for pod in await until(lambda: _items(cluster, PODS, 3)):
            ends = {"metadata": {"annotations": {DURATION: "0.5"}}}
            await cluster.patch(f"{PODS}/{pod['metadata']['name']}", ends)
        assert await until_ended(cluster, ["plain"], 90.0) == {"plain": DONE}
        assert volcanos.phases.of("plain")[:3] == ["Pending", "Inqueue", "Running"]
        await until(lambda: _count(cluster, GROUPS, 0))
        await until(lambda: _allocated(cluster, "0"))
    assert (await cluster.get(f"{QUEUES}/default"))["status"]["state"] == "Open"


async def test_what_volcano_placed_goes_on_and_the_next_job_is_placed_beside_it(
    cluster: ApiClient,
    volcanos: VolcanoSurroundings,
    quadrant: AbstractAsyncContextManager[Followed],
) -> None:
    """Volcano's scheduler made its queues, admitted a Job and bound its pods, and was stopped."""
    await cluster.create(*root_and_default())
    await cluster.create(lasting(examples()["plain"], 600.0))
    [group] = await until(lambda: _items(cluster, GROUPS, 1))
    path = f"{GROUPS}/{group['metadata']['name']}"
    await cluster.patch(path, {"status": {"phase": "Inqueue"}})
    pods = await until(lambda: _items(cluster, PODS, 6))
    for pod in pods:
        await cluster.bind({"apiVersion": "v1", "kind": "Pod"} | pod, "n1")
    async with quadrant as running:
        await until(lambda: running.states()["running"] == 6)
        await until(lambda: volcanos.phases.of("plain")[-1] == "Running")
        following = lasting(examples()[RESTARTING], 1.0)
        del following["spec"]["policies"]
        await cluster.create(following)
        assert await until_ended(cluster, [RESTARTING], 90.0) == {RESTARTING: DONE}
        nodes = await running.nodes_of(*(pod["metadata"]["name"] for pod in pods))
    assert set(nodes.values()) == {"n1"}
    assert len(nodes) == 6
    assert "Pending" not in volcanos.phases.of("plain")[1:], "no step back"


async def _items(cluster: ApiClient, path: str, count: int) -> list[Json] | None:
    items: list[Json] = (await cluster.get(path))["items"]
    return items if len(items) == count else None


async def _count(cluster: ApiClient, path: str, count: int) -> bool:
    return len((await cluster.get(path))["items"]) == count


async def _says(cluster: ApiClient, text: str) -> bool:
    """Whether a condition of the only PodGroup says so."""
    groups = (await cluster.get(GROUPS))["items"]
    conditions = [c for g in groups for c in (g.get("status") or {}).get("conditions") or ()]
    return any(text in condition["message"] for condition in conditions)


async def _allocated(cluster: ApiClient, cpu: str) -> bool:
    """Whether the queue says that it has so much."""
    status = (await cluster.get(f"{QUEUES}/default")).get("status") or {}
    return bool((status.get("allocated") or {}).get("cpu") == cpu)


async def _event_once_a_pod_changes(cluster: ApiClient, job: str, text: str) -> bool:
    """Whether an event of the Job says so. Volcano's controller reads the conditions of a PodGroup
    when a pod changes, and may do that before it has seen the newest ones."""
    selector = f"involvedObject.kind=Job,involvedObject.name={job}"
    events = (await cluster.get(EVENTS, fieldSelector=selector))["items"]
    if any(text in event["message"] for event in events):
        return True
    pods = await cluster.get(PODS, labelSelector=f"volcano.sh/job-name={job}")
    for pod in pods["items"]:
        annotations = {"tests.example/changed": str(time.monotonic())}
        path = f"{PODS}/{pod['metadata']['name']}"
        await cluster.patch(path, {"metadata": {"annotations": annotations}})
    await asyncio.sleep(1.0)
    return False
