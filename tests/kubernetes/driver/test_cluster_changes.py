"""Changes of a cluster under pods of ours: nodes go, groups are made again, clocks differ, answers
are late, another scheduler is quicker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.writes import status_queue, writes
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.kubelets import HollowKubelets
from shared.messages.messages import ENDED, TaskState
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.faults.effects import Answer, HoldAnswer, HoldRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
GANG = ("gang-0", "gang-1")
HOUR = 3600.0


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """Two nodes for one pod each; the API server is reached by way of the proxy."""
    await install_volcano(cluster)
    await cluster.create(node("n1", cpu=1), node("n2", cpu=1))
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig) as running:
        yield running


def books(quadrant: Followed, job: str) -> list[TaskState]:
    results = [state for state in quadrant.jobs() if state.job.name == job]
    return [TaskState(state) for state in results[0].states] if results else []


async def bound_gang(quadrant: Followed, cluster: ApiClient) -> dict[str, str]:
    await cluster.create(pod_group("gang", 2), *(pod(name, group="gang") for name in GANG))
    nodes = await quadrant.until_bound(*GANG)
    await until(lambda: books(quadrant, "gang") == [TaskState.BOUND] * 2)
    return nodes


async def test_a_removed_node_ends_its_pod_once_and_the_gang_is_placed_anew(
    quadrant: Followed, cluster: ApiClient
) -> None:
    nodes = await bound_gang(quadrant, cluster)
    gone = nodes[GANG[0]]
    await cluster.delete(f"/api/v1/nodes/{gone}")
    # What the garbage collector of pods does, and then whoever owns the gang.
    await cluster.delete(f"{PODS}/{GANG[0]}", gracePeriodSeconds="0")
    # It may be seen to leave first, and keeps its place until it is gone.
    await until(lambda: any(state in ENDED for state in books(quadrant, "gang")))
    assert Counter(books(quadrant, "gang")) == {TaskState.BOUND: 1, TaskState.FAILED: 1}
    await cluster.create(pod(GANG[0], group="gang"))
    await asyncio.sleep(1.0)
    assert GANG[0] not in await quadrant.nodes_of(), "there is no room: its node is gone"
    await cluster.create(node("n3", cpu=1))
    assert await quadrant.until_bound(GANG[0]) == {GANG[0]: "n3"}


async def test_a_group_made_again_under_its_pods_is_their_job(
    quadrant: Followed, cluster: ApiClient
) -> None:
    nodes = await bound_gang(quadrant, cluster)
    await cluster.delete(f"{GROUPS}/gang")
    await cluster.create(pod_group("gang", 1))
    await asyncio.sleep(1.0)
    await until(lambda: books(quadrant, "gang") == [TaskState.BOUND] * 2)
    assert await quadrant.nodes_of(*GANG) == nodes
    for name in GANG:
        await cluster.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
    await cluster.create(pod("next"))
    await quadrant.until_bound("next")


async def test_a_group_made_again_under_its_pods_has_its_status_again(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_queue, "LONGEST_PAUSE_SECONDS", 1.0)
    await bound_gang(quadrant, cluster)

    async def has_status() -> bool:
        status = (await cluster.get(f"{GROUPS}/gang")).get("status") or {}
        return {"phase", "conditions"} <= status.keys()

    await until(has_status)
    await asyncio.sleep(4.0)  # then nothing is left to say of the gang
    await cluster.delete(f"{GROUPS}/gang")
    await cluster.create(pod_group("gang", 2))
    await until(has_status)


async def test_the_next_leader_writes_the_status_of_a_gang_that_was_bound_before(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, redis_url: str, short_dir: Path
) -> None:
    await install_volcano(cluster)
    fault = proxy.inject(Answer(503), method="PATCH", part="podgroups/gang", times=1000)
    async with followed(redis_url, short_dir / "a", cluster, proxied.kubeconfig) as first:
        await cluster.create(node("n1", cpu=1), node("n2", cpu=1))
        await bound_gang(first, cluster)
        await proxy.until_met(fault)
    assert "status" not in await cluster.get(f"{GROUPS}/gang")
    proxy.clear()

    async def scheduled() -> bool:
        status = (await cluster.get(f"{GROUPS}/gang")).get("status") or {}
        return any(c["type"] == "Scheduled" for c in status.get("conditions") or ())

    async with followed(redis_url, short_dir / "b", cluster, proxied.kubeconfig):
        await until(scheduled)


async def test_a_group_made_again_while_a_pod_runs_is_still_admitted(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """Volcano's controllers do that to restart a pod, and create the pod once its group is
    admitted. Judged anew it would not be: the pod that runs leaves no room for both."""
    group = pod_group("gang", 2)
    group["spec"]["minResources"] = {"cpu": "2"}
    await cluster.create(group, *(pod(name, group="gang") for name in GANG))
    await quadrant.until_bound(*GANG)
    await cluster.delete(f"{PODS}/{GANG[0]}", gracePeriodSeconds="0")
    await cluster.delete(f"{GROUPS}/gang")
    await cluster.create(group)

    async def phase() -> str | None:
        status = (await cluster.get(f"{GROUPS}/gang")).get("status") or {}
        return status.get("phase")

    assert await until(phase) != "Pending"
    await cluster.create(pod(GANG[0], group="gang"))
    await quadrant.until_bound(GANG[0])


@pytest.mark.parametrize("late", [HoldRequest, HoldAnswer])
async def test_a_late_answer_is_looked_up_and_changes_nothing(
    quadrant: Followed,
    cluster: ApiClient,
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
    late: type[HoldRequest] | type[HoldAnswer],
) -> None:
    monkeypatch.setattr(writes, "LONGEST_SECONDS", 0.5)
    effect = late()
    held = proxy.inject(effect, method="POST", part="/binding", times=2)
    nodes = await bound_gang(quadrant, cluster)
    assert held.met == 2
    effect.released.set()  # the write of before lands now, or its answer
    await asyncio.sleep(1.0)
    assert await quadrant.nodes_of(*GANG) == nodes
    assert books(quadrant, "gang") == [TaskState.BOUND] * 2


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_our_clock_may_be_an_hour_from_the_servers(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: float,
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + ahead)
    await install_volcano(cluster)
    await cluster.create(node("n1", cpu=1), node("n2", cpu=1))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        await bound_gang(quadrant, cluster)
        await cluster.patch(f"{PODS}/{GANG[0]}/status", {"status": {"phase": "Running"}})
        await until(lambda: TaskState.RUNNING in books(quadrant, "gang"))


@pytest.mark.usefixtures("kube_scheduler")
async def test_beside_kube_scheduler_on_the_same_nodes_every_pod_runs_in_the_end(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    """Both give room away that the other has just given: a kubelet refuses what does not fit, and
    who is refused is made again, as by its controller."""
    kubelets = HollowKubelets(cluster)
    await kubelets.join([f"n{i}" for i in range(4)], {"cpu": "8", "memory": "64Gi"})
    kubeconfig, created_pods = control_plane.admin.kubeconfig, {}
    async with (
        followed(redis_url, short_dir, cluster, kubeconfig) as quadrant,
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(kubelets.run())
        for number in range(32):
            scheduler = "quadrant" if number % 2 else "default-scheduler"
            created_pods[f"p{number}"] = pod(f"p{number}", scheduler=scheduler)
            await cluster.create(created_pods[f"p{number}"])
        while len(phases := await _phases(quadrant)) < 32 or set(phases.values()) != {"Running"}:
            for name in [name for name, phase in phases.items() if phase == "Failed"]:
                await cluster.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
                await cluster.create(created_pods[name])
            await asyncio.sleep(0.1)
        nodes = Counter((await quadrant.nodes_of()).values())
        assert nodes == {f"n{i}": 8 for i in range(4)}
        await until(lambda: quadrant.states()["running"] == 16)
        running.cancel()


async def _phases(quadrant: Followed) -> dict[str, str]:
    return {name: pod["status"]["phase"] for name, pod in (await quadrant.pods()).items()}
