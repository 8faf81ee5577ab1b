"""Quadrant under the name of Volcano's scheduler, beside a double of Volcano's controllers: the
example Jobs from their creation to their end, on a real API server."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install
from laboratory.local_kubernetes.kubelets import DURATION, HollowKubelets
from tests.builders.objects import queue
from tests.kubernetes.driver.harness import Followed, followed, until
from tests.kubernetes.volcano_controllers import GROUPS, JOBS, PODS, QUEUES, VolcanoControllers

pytestmark = pytest.mark.timeout(300)

Json = dict[str, Any]
ROOM = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "100Gi"}
DONE = "Completed"
EXAMPLES: list[Json] = list(
    yaml.safe_load_all(
        (Path(__file__).parents[2] / "coordinator/controllers/volcano_jobs.yaml").read_text()
    )
)
POLICY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


@dataclass(slots=True)
class Beside:
    """Components that run beside Quadrant."""

    kubelets: HollowKubelets
    controllers: VolcanoControllers


@pytest_asyncio.fixture
async def beside(cluster: ApiClient) -> AsyncIterator[Beside]:
    await install(cluster, *VOLCANO)
    await cluster.create(queue("default", weight=1))
    kubelets, controllers = HollowKubelets(cluster), VolcanoControllers(cluster)
    await kubelets.join(["n1", "n2"], ROOM)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (kubelets, controllers)]
        yield Beside(kubelets, controllers)
        for task in tasks:
            task.cancel()


@pytest.fixture
def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AbstractAsyncContextManager[Followed]:
    """Quadrant under Volcano's name, to be entered."""
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    names = {"policy": policy, "scheduler_names": "volcano"}
    return followed(redis_url, short_dir, cluster, control_plane.admin.kubeconfig, **names)


def lasting(job: Json, seconds: float) -> Json:
    """The Job, whose pods run for so long."""
    for task in job["spec"]["tasks"]:
        meta = task["template"].setdefault("metadata", {})
        meta.setdefault("annotations", {})[DURATION] = str(seconds)
    return job


async def until_ended(cluster: ApiClient, within: float = 90.0) -> dict[str, str]:
    """Job -> its last phase."""

    async def ended() -> dict[str, str] | None:
        jobs = (await cluster.get(JOBS))["items"]
        phases = {
            job["metadata"]["name"]: (job.get("status") or {}).get("state", {}).get("phase", "")
            for job in jobs
        }
        over = all(phase in ("Completed", "Failed") for phase in phases.values())
        return phases if over else None

    phases: dict[str, str] = await until(ended, within)
    return phases


def example(name: str, seconds: float) -> Json:
    [job] = [copy.deepcopy(job) for job in EXAMPLES if job["metadata"]["name"] == name]
    return lasting(job, seconds)


async def test_every_example_runs_to_its_end(
    cluster: ApiClient, beside: Beside, quadrant: AbstractAsyncContextManager[Followed]
) -> None:
    """Their pods are made after the admission of their PodGroup, and not before."""
    names = [job["metadata"]["name"] for job in EXAMPLES]
    async with quadrant:
        await cluster.create(*(example(name, 1.0) for name in names))
        assert await until_ended(cluster) == dict.fromkeys(names, "Completed")
    last = {phases[-1] for phases in beside.controllers.phases.values()}
    assert last <= {"Inqueue", "Running", DONE}


async def test_a_job_waits_for_its_admission_and_its_podgroup_has_every_phase(
    cluster: ApiClient, beside: Beside, quadrant: AbstractAsyncContextManager[Followed]
) -> None:
    """It needs a third node. Its queue says what it has, while it has it."""
    large = example("plain", 6.0)
    [task] = large["spec"]["tasks"]
    task["replicas"] = large["spec"]["minAvailable"] = 3
    task["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "14"
    async with quadrant:
        await cluster.create(large)
        await until(lambda: _says(cluster, "not admitted by enqueue"))
        assert (await cluster.get(PODS))["items"] == []
        await beside.kubelets.join(["n3"], ROOM)
        await until(lambda: _allocated(cluster, "42"))
        assert await until_ended(cluster) == {"plain": DONE}
        phases = ["Pending", "Inqueue", "Running", DONE]
        await until(lambda: beside.controllers.phases["plain"] == phases)
        await until(lambda: _allocated(cluster, "0"))
    status = (await cluster.get(f"{QUEUES}/default"))["status"]
    assert (status["state"], status["completed"]) == ("Open", 1)


async def test_what_volcano_placed_goes_on_and_the_next_job_is_placed_beside_it(
    cluster: ApiClient, beside: Beside, quadrant: AbstractAsyncContextManager[Followed]
) -> None:
    """Volcano's scheduler admitted a Job and bound its pods, and was stopped."""
    await cluster.create(example("plain", 600.0))
    [group] = await until(lambda: _items(cluster, GROUPS, 1))
    path = f"{GROUPS}/{group['metadata']['name']}"
    await cluster.patch(path, {"status": {"phase": "Inqueue"}})
    pods = await until(lambda: _items(cluster, PODS, 6))
    for pod in pods:
        await cluster.bind({"apiVersion": "v1", "kind": "Pod"} | pod, "n1")
    async with quadrant as running:
        await until(lambda: running.states()["running"] == 6)
        await until(lambda: beside.controllers.phases["plain"][-1] == "Running")
        await cluster.create(example("with-plugins", 1.0))
        await until(lambda: beside.controllers.phases.get("with-plugins", [""])[-1] == DONE)
        nodes = await running.nodes_of(*(pod["metadata"]["name"] for pod in pods))
    assert set(nodes.values()) == {"n1"}
    assert len(nodes) == 6
    assert "Pending" not in beside.controllers.phases["plain"][1:], "no step back"


async def _items(cluster: ApiClient, path: str, count: int) -> list[Json] | None:
    items: list[Json] = (await cluster.get(path))["items"]
    return items if len(items) == count else None


async def _says(cluster: ApiClient, text: str) -> bool:
    """Whether a condition of the only PodGroup says so."""
    groups = (await cluster.get(GROUPS))["items"]
    conditions = [c for g in groups for c in (g.get("status") or {}).get("conditions") or ()]
    return any(text in condition["message"] for condition in conditions)


async def _allocated(cluster: ApiClient, cpu: str) -> bool:
    """Whether the queue says that it has so much."""
    status = (await cluster.get(f"{QUEUES}/default")).get("status") or {}
    return bool((status.get("allocated") or {}).get("cpu") == cpu)
