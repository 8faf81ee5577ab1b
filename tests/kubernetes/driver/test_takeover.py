"""A leader that begins while the API server has not told it of any pod: it waits, and takes nothing
for lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.intake.admission.pods import CHANGED_IN_PLACE
from coordinator.intake.intake import Intake, Parsed
from coordinator.service import reconcile_loop
from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.kubelets import ended, path_of, started
from shared.messages.messages import TaskState
from shared.slices import Steps
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.faults.effects import Answer
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

PODS = "/api/v1/pods"
RUNS, SUCCEEDS, FAILS, GOES = NAMES = ("runs", "succeeds", "fails", "goes")


async def test_a_takeover_keeps_running_pods_and_records_missed_ends(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, redis_url: str, short_dir: Path
) -> None:
    await cluster.create(node("n1", cpu=2), node("n2", cpu=2))
    kubeconfig = proxied.kubeconfig
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
        await cluster.create(*(pod(name) for name in NAMES))
        nodes = await first.until_bound(*NAMES)
        await until(lambda: first.states()["bound"] == len(NAMES))
    pods = await first.pods()
    now = {RUNS: started(), SUCCEEDS: ended(pods[SUCCEEDS], 0), FAILS: ended(pods[FAILS], 1)}
    for name, status in now.items():
        path = f"{path_of(pods[name])}/status"
        await cluster.patch(path, {"status": status}, form=STRATEGIC_PATCH)
    await cluster.delete(path_of(pods[GOES]), gracePeriodSeconds="0")

    away = proxy.inject(Answer(503), part=PODS, times=1000)
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await proxy.until_met(away)
        # Longer than it takes to find the same difference twice.
        await asyncio.sleep(3 * reconcile_loop.AGAIN_SECONDS)
        assert set(books(second).values()) == {TaskState.BOUND}, "nothing is known of the pods yet"
        proxy.clear()
        await until(lambda: books(second).get(RUNS) is TaskState.RUNNING)
        await cluster.create(pod("after", cpu=2))
        nodes |= await second.until_bound("after")
        await until(lambda: GOES not in books(second))
        states = books(second)
    assert states[RUNS] is TaskState.RUNNING
    assert (states[SUCCEEDS], states[FAILS]) == (TaskState.SUCCEEDED, TaskState.FAILED)
    assert nodes["after"] != nodes[RUNS], "the room of what runs was not free"


async def test_a_pod_that_took_the_name_of_another_on_its_node_holds_up_no_next_leader(
    cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path
) -> None:
    """It can be a task only when the one that had its name is forgotten, which the driver must
    answer before every pod is a task."""
    await cluster.create(node("n1"))
    kubeconfig = proxied.kubeconfig
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
        await cluster.create(pod("again"))
        await first.until_bound("again")
        await until(lambda: first.states()["bound"] == 1)
    before = (await first.pods())["again"]
    await cluster.delete(path_of(before), gracePeriodSeconds="0")
    author_bound = pod("again")
    author_bound["spec"]["nodeName"] = "n1"
    await cluster.create(author_bound)
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await cluster.create(pod("after"))
        await second.until_bound("after")
        await until(lambda: second.states()["bound"] == 2)


async def test_a_group_that_went_before_its_pods_holds_up_no_next_leader(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, redis_url: str, short_dir: Path
) -> None:
    """The next leader hears that the group is gone before it hears of any pod (decision 0107)."""
    await install_volcano(cluster)
    await cluster.create(node("n1"))
    kubeconfig = proxied.kubeconfig
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
        await cluster.create(pod_group("gang", 1), pod("member", group="gang"))
        await first.until_bound("member")
        await until(lambda: first.states()["bound"] == 1)
    await cluster.delete("/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/gang")
    away = proxy.inject(Answer(503), part=PODS, times=1000)
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await proxy.until_met(away, 2)
        proxy.clear()
        await cluster.create(pod("after"))
        await second.until_bound("member", "after")
        await cluster.delete("/api/v1/namespaces/default/pods/member", gracePeriodSeconds="0")
        await until(lambda: set(books(second)) == {"after"})


async def test_pods_that_are_as_intake_has_them_are_not_read_again(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    parsing = Intake.parsing

    def counted(intake: Intake, items: Sequence[dict[str, Any]]) -> Steps[Parsed]:
        read.extend(item["metadata"]["name"] for item in items if item["kind"] == "Pod")
        return parsing(intake, items)

    await cluster.create(node("n1", cpu=4))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
        await cluster.create(*(pod(name) for name in NAMES[:3]), pod("waits", cpu=9))
        await first.until_bound(*NAMES[:3])
        await until(lambda: first.states()["bound"] == 3)
    labels = {"metadata": {"labels": {"new": "yes"}}}
    await cluster.patch(f"/api/v1/namespaces/default/pods/{NAMES[0]}", labels)
    monkeypatch.setattr(Intake, "parsing", counted)
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await until(lambda: second.observed.cluster.mirror.accounts_for_all)
        assert read == [NAMES[0]], "it has another label since"
        await cluster.create(pod("after"))
        await second.until_bound("after")
        assert read == [NAMES[0], "after"]


async def test_a_pod_that_changed_where_it_is_runs_on_under_the_next_leader(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await cluster.create(node("n1", cpu=4))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir / "a", cluster, kubeconfig) as first:
        await cluster.create(pod("p"))
        await first.until_bound("p")
        path = path_of((await first.pods())["p"])
        await cluster.patch(f"{path}/status", {"status": started()}, form=STRATEGIC_PATCH)
        await until(lambda: books(first) == {"p": TaskState.RUNNING})
        added = [{"key": "later", "operator": "Exists"}]
        spec = (await first.pods())["p"]["spec"]
        tolerations = [*spec.get("tolerations", []), *added]
        await cluster.patch(path, {"spec": {"tolerations": tolerations}})
        await until(partial(_told_of_change, cluster))
    async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
        await until(lambda: second.observed.cluster.mirror.accounts_for_all)
        # Longer than it takes to find the same difference twice.
        await asyncio.sleep(3 * reconcile_loop.AGAIN_SECONDS)
        assert books(second) == {"p": TaskState.RUNNING}


async def _told_of_change(cluster: ApiClient) -> bool:
    events = (await cluster.get("/api/v1/namespaces/default/events"))["items"]
    return any(CHANGED_IN_PLACE in event["message"] for event in events)


def books(quadrant: Followed) -> dict[str, TaskState]:
    """Pod -> its state in the books."""
    return {state.job.name: TaskState(state.states[0]) for state in quadrant.jobs()}
