"""Quadrant under the name of Volcano's scheduler, beside a double of Volcano's controllers: the
example Jobs from their creation to their end, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.kubernetes.client import ApiClient
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import VOLCANO, install
from tests.kubernetes.driver.harness import followed, until
from tests.kubernetes.kubelets import DURATION, HollowKubelets
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
    """What runs beside Quadrant."""

    kubelets: HollowKubelets
    controllers: VolcanoControllers


@pytest_asyncio.fixture
async def beside(
    cluster: ApiClient, control_plane: ControlPlane, ledger_url: str, short_dir: Path
) -> AsyncIterator[Beside]:
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    await install(cluster, *VOLCANO)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    await cluster.create(queue | {"metadata": {"name": "default"}, "spec": {"weight": 1}})
    kubelets, controllers = HollowKubelets(cluster), VolcanoControllers(cluster)
    await kubelets.join(["n1", "n2"], ROOM)
    kubeconfig = control_plane.admin.kubeconfig
    async with (
        followed(
            ledger_url, short_dir, cluster, kubeconfig, policy=policy, scheduler_names="volcano"
        ),
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(part.run()) for part in (kubelets, controllers)]
        try:
            yield Beside(kubelets, controllers)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)


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


async def test_every_example_runs_to_its_end(cluster: ApiClient, beside: Beside) -> None:
    """Their pods are made after the admission of their PodGroup, and not before."""
    await cluster.create(*(lasting(job, 1.0) for job in EXAMPLES))
    names = {job["metadata"]["name"] for job in EXAMPLES}
    assert await until_ended(cluster) == dict.fromkeys(names, "Completed")
    assert {phases[-1] for phases in beside.controllers.phases.values()} <= {
        "Inqueue",
        "Running",
        DONE,
    }


async def test_a_job_waits_for_its_admission_and_its_podgroup_has_every_phase(
    cluster: ApiClient, beside: Beside
) -> None:
    """It needs a third node. Its queue says what it has, while it has it."""
    [large] = [copy.deepcopy(job) for job in EXAMPLES if job["metadata"]["name"] == "plain"]
    [task] = large["spec"]["tasks"]
    task["replicas"] = large["spec"]["minAvailable"] = 3
    task["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "14"
    await cluster.create(lasting(large, 6.0))

    async def waits() -> str | None:
        group = (await cluster.get(GROUPS))["items"]
        conditions = (group[0].get("status") or {}).get("conditions") if group else None
        return conditions[0]["message"] if conditions else None

    assert "not admitted by enqueue" in await until(waits)
    assert (await cluster.get(PODS))["items"] == []
    await beside.kubelets.join(["n3"], ROOM)
    await until(lambda: _allocated(cluster, "42"))
    assert await until_ended(cluster) == {"plain": "Completed"}
    await until(
        lambda: beside.controllers.phases["plain"] == ["Pending", "Inqueue", "Running", DONE]
    )
    await until(lambda: _allocated(cluster, "0"))
    queue = await cluster.get(f"{QUEUES}/default")
    assert (queue["status"]["state"], queue["status"]["completed"]) == ("Open", 1)


async def _allocated(cluster: ApiClient, cpu: str) -> bool:
    """Whether the queue says that it has so much."""
    status = (await cluster.get(f"{QUEUES}/default")).get("status") or {}
    return bool((status.get("allocated") or {}).get("cpu") == cpu)
