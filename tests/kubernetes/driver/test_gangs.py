"""Gangs on a real API server: bound by statements of ours, adopted, ended, evicted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.cluster import DELTA
from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.service.observed import feed
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.builders.objects import priority_class
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until

NODES = ("n1", "n2", "n3")
CARD = "example.com/card"


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
) -> AsyncIterator[Followed]:
    await install_volcano(cluster)
    await cluster.create(*(node(name) for name in NODES))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as running:
        yield running


def gang(size: int, name: str = "gang", **of_pod: Any) -> list[dict[str, Any]]:
    return [pod(f"{name}-{i}", group=name, **of_pod) for i in range(size)]


def with_cards(name: str, number: int) -> dict[str, Any]:
    item, amounts = pod(name), {CARD: str(number)}
    item["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return item


async def test_a_gang_whose_pods_come_before_their_group_is_bound_by_one_ledger(
    quadrant: Followed, cluster: ApiClient
) -> None:
    pods = gang(6)
    names = [p["metadata"]["name"] for p in pods]
    await cluster.create(*pods[::-1])
    await until(lambda: quadrant.states()["submitted"] == 6)
    assert not await quadrant.nodes_of(*names), "their group is not there"
    await cluster.create(pod_group("gang", 6))
    nodes = await quadrant.until_bound(*names)
    assert set(nodes.values()) <= set(NODES)
    statements = {p["metadata"]["annotations"][STATEMENT] for p in (await quadrant.pods()).values()}
    ledgers = {text.rpartition("/")[0] for text in statements}
    assert len(ledgers) == 1, "the pods say which ledger and which leader bound them"
    await until(lambda: quadrant.states()["bound"] == 6)


async def test_a_gang_that_does_not_fit_is_bound_in_no_part(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(pod_group("wide", 13), *gang(13, "wide"), pod("small"))
    await quadrant.until_bound("small")
    assert set(await quadrant.nodes_of()) == {"small"}


async def test_pods_of_another_scheduler_take_their_room(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(pod("big", cpu=4))
    await quadrant.until_bound("big")
    (other,) = await cluster.create(pod("theirs", cpu=4, scheduler="somebody"))
    free = next(iter(set(NODES) - set((await quadrant.nodes_of("big")).values())))
    await cluster.bind(other, free)
    await until(lambda: free in quadrant.observed.cluster.mirror.foreign.sums())
    await until(lambda: not quadrant.observed.cluster.foreign_changed())
    await cluster.create(pod("second", cpu=4), pod("third", cpu=4))
    nodes = await until(lambda: _two(quadrant))
    assert free not in nodes.values()


async def test_a_pod_that_comes_after_pods_of_others_is_not_placed_on_their_room(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = feed.FOREIGN_SECONDS
    monkeypatch.setattr(feed, "FOREIGN_SECONDS", 3600.0)  # so that no look comes by chance
    await asyncio.sleep(2 * usual)
    theirs = [pod(f"theirs-{name}", cpu=3, scheduler="somebody") for name in NODES]
    for item, name in zip(theirs, NODES, strict=True):
        item["spec"]["nodeName"] = name
    await cluster.create(*theirs, pod("mine", cpu=2))
    service = quadrant.service.service
    await until(lambda: service.status()["pending_reasons"] == {"Fragmented": 1})
    assert await quadrant.nodes_of("mine") == {}


async def test_a_new_node_is_not_empty_where_pods_of_others_are_on_it(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever came first: a pod of ours that waits for the node, or the node itself."""
    usual = feed.FOREIGN_SECONDS
    monkeypatch.setattr(feed, "FOREIGN_SECONDS", 3600.0)  # so that no look comes by chance
    await asyncio.sleep(2 * usual)
    theirs = pod("theirs", cpu=3, scheduler="somebody")
    theirs["spec"]["nodeName"] = "late"
    early, later = pod("early", cpu=2), pod("later", cpu=2)
    for item in (early, later):
        item["spec"]["nodeSelector"] = {"is": "late"}
    await cluster.create(theirs, early)
    await until(lambda: "late" in quadrant.observed.cluster.mirror.foreign.sums())
    service = quadrant.service.service
    await until(lambda: service.status()["jobs"]["pending"] == 1)
    late = node("late")
    late["metadata"].setdefault("labels", {})["is"] = "late"
    await cluster.create(late, later)
    await until(lambda: service.status()["pending_reasons"] == {"Fragmented": 2})
    assert await quadrant.nodes_of("early", "later") == {}


async def test_a_resource_that_a_node_offers_late_is_not_free_where_others_use_it(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a device plugin begins anew."""
    usual = feed.FOREIGN_SECONDS
    monkeypatch.setattr(feed, "FOREIGN_SECONDS", 3600.0)  # so that no look comes by chance
    await asyncio.sleep(2 * usual)
    theirs, mine, fits = with_cards("theirs", 3), with_cards("mine", 2), with_cards("fits", 1)
    theirs["spec"] |= {"schedulerName": "somebody", "nodeName": NODES[0]}
    await cluster.create(theirs, mine)
    service = quadrant.service.service
    await until(lambda: service.status()["jobs"]["pending"] == 1)
    offers = {"status": {amounts: {CARD: "4"} for amounts in ("capacity", "allocatable")}}
    await cluster.patch(f"/api/v1/nodes/{NODES[0]}/status", offers)
    await cluster.create(fits)
    await until(lambda: _one(quadrant))
    assert await quadrant.nodes_of("mine") == {}


async def _one(quadrant: Followed) -> dict[str, str] | None:
    return await quadrant.nodes_of("fits") or None


async def _two(quadrant: Followed) -> dict[str, str] | None:
    nodes = await quadrant.nodes_of("big", "second", "third")
    return nodes if len(nodes) == 2 else None


async def test_each_end_of_a_pod_ends_its_task_once(quadrant: Followed, cluster: ApiClient) -> None:
    await cluster.create(pod("ends"), pod("goes"), pod("stays"))
    await quadrant.until_bound("ends", "goes", "stays")
    for name, phase in (("ends", "Running"), ("goes", "Running"), ("ends", "Succeeded")):
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        await cluster.patch(path, {"status": {"phase": phase}})
    await until(lambda: quadrant.states()["finished"] == 1)
    path = "/api/v1/namespaces/default/pods/goes"
    await cluster.delete(path, gracePeriodSeconds="0")
    await until(lambda: quadrant.states()["submitted"] == 2)
    await until(lambda: quadrant.states()["bound"] == 2)  # one ended, one stays


async def test_a_pod_made_again_under_its_name_is_placed_again(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(pod("web-0"))
    await quadrant.until_bound("web-0")
    path = "/api/v1/namespaces/default/pods/web-0"
    await cluster.delete(path, gracePeriodSeconds="0")
    await cluster.create(pod("web-0"))
    await quadrant.until_bound("web-0")
    await until(lambda: quadrant.states()["bound"] == 1)


async def test_a_gang_made_again_under_its_name_is_placed_again(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """Its pods may come while the last one of before is still leaving the books."""
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    for number in range(4):
        names = [f"gang-{number}-{i}" for i in range(4)]
        await cluster.create(pod_group("gang", 4), *(pod(name, group="gang") for name in names))
        await quadrant.until_bound(*names)
        await cluster.delete(f"{groups}/gang")
        for name in names:
            path = f"/api/v1/namespaces/default/pods/{name}"
            await cluster.delete(path, gracePeriodSeconds="0")


async def test_the_service_takes_no_objects_and_says_where_they_live(
    quadrant: Followed, control_plane: ControlPlane
) -> None:
    async with aiohttp.ClientSession(quadrant.service.url) as session:
        async with session.post("/api/v1/namespaces/default/pods", json=pod("a")) as answer:
            body = await answer.json()
        assert answer.status == 405
        assert control_plane.url in body["message"]
        async with session.post("/apis/quadrant.dev/v1alpha1/plans", json={"items": []}) as answer:
            assert answer.status != 405, "what is only asked goes on"


async def test_a_running_cluster_is_adopted_by_an_empty_ledger(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
) -> None:
    await cluster.create(node("n1"), node("n2"))
    (first, _) = await cluster.create(pod("runs", cpu=4), pod("waits", cpu=4))
    await cluster.bind(first, "n1")
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        nodes = await quadrant.until_bound("runs", "waits")
        assert nodes == {"runs": "n1", "waits": "n2"}
        await until(lambda: quadrant.states()["bound"] == 2)


async def test_with_an_empty_ledger_nothing_is_placed_where_others_run_already(
    cluster: ApiClient,
    control_plane: ControlPlane,
    redis_url: str,
    short_dir: Path,
) -> None:
    """Waiting pods come first in the list, and more of them than intake takes at once: no turn is
    decided before the books have the running ones."""
    count = 20
    await cluster.create(node("n1", cpu=count), priority_class("high", 1000))
    running = await cluster.create(*(pod(f"runs-{i}") for i in range(count)))
    for one in running:
        await cluster.bind(one, "n1")
    urgent = pod("any")["spec"] | {"priorityClassName": "high"}
    await cluster.create(*(pod(f"a-waits-{i}") | {"spec": urgent} for i in range(DELTA + 1)))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        await until(lambda: quadrant.states()["bound"] == count)
        await until(lambda: quadrant.service.service.core.order.open == 0)
        await asyncio.sleep(1.0)
        assert len(await quadrant.nodes_of()) == count, "the room of those that run was given away"


pytestmark = pytest.mark.timeout(180)
