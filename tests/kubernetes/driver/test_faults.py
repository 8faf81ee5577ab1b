"""The driver between faults: answers that are lost, storms, watches that end, a server that
forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.writes import cluster_lease
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until
from tests.kubernetes.faults.effects import Answer, CutStream, Effect, LoseAnswer, LoseRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

BINDING = "/binding"
NAMES = ("a", "b", "c", "d")
EFFECTS = [
    LoseAnswer(),
    *(pytest.param(e, marks=pytest.mark.all) for e in (Answer(429), Answer(500), LoseRequest())),
]


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """It reaches the API server by way of the proxy."""
    await cluster.create(node("n1"), node("n2"))
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig) as running:
        await until(lambda: running.observed.cluster.mirror.complete)
        yield running


def writes_of(quadrant: Followed) -> ApiWrites:
    assert quadrant.observed.writes is not None
    return quadrant.observed.writes


async def test_a_binding_without_an_answer_is_looked_up_and_not_made_twice(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    lost = proxy.inject(LoseAnswer(), method="POST", part=BINDING, times=2)
    unheard = proxy.inject(LoseRequest(), method="POST", part=BINDING, times=2)
    await cluster.create(*(pod(name) for name in NAMES))
    nodes = await quadrant.until_bound(*NAMES)
    await until(lambda: quadrant.states()["bound"] == len(NAMES))
    assert (lost.met, unheard.met) == (2, 2)
    counts = writes_of(quadrant).counts
    assert counts.looks >= 4, "each of them was looked at"
    assert counts.bindings == len(NAMES) + unheard.met, "only what had not been made was made again"
    assert await quadrant.nodes_of(*NAMES) == nodes


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_storm_of_refusals_delays_bindings_and_loses_none(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, code: int
) -> None:
    storm = proxy.inject(Answer(code), method="POST", part=BINDING, times=9)
    await cluster.create(*(pod(name) for name in NAMES))
    await quadrant.until_bound(*NAMES)
    await until(lambda: quadrant.states()["bound"] == len(NAMES))
    assert storm.met == 9
    if code != 500:
        limit = writes_of(quadrant).limit
        assert limit.allowed < limit.highest


async def test_a_watch_that_is_cut_in_an_event_goes_on_without_a_new_list(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    lists = quadrant.observed.cluster.streams()["Pod"].lists
    await cluster.create(pod("first"))
    await quadrant.until_bound("first")
    assert proxy.cut_watches("/api/v1/pods") == 1
    cut = proxy.inject(CutStream(events=1), part="/api/v1/pods", times=2)
    for name in NAMES:
        await cluster.create(pod(name))
    await quadrant.until_bound(*NAMES)
    assert cut.met == 2
    assert quadrant.observed.cluster.streams()["Pod"].lists == lists


async def test_changes_before_a_compaction_are_found_by_a_new_list(
    quadrant: Followed, cluster: ApiClient, control_plane: ControlPlane, proxy: FaultyProxy
) -> None:
    await cluster.create(pod("before"), pod("goes"))
    await quadrant.until_bound("before", "goes")
    lists = quadrant.observed.cluster.streams()["Pod"].lists
    away = proxy.inject(Answer(503), part="/api/v1/pods", times=1000, watches=True)
    assert proxy.cut_watches("/api/v1/pods") == 1
    await cluster.delete("/api/v1/namespaces/default/pods/goes", gracePeriodSeconds="0")
    await cluster.create(pod("after"))
    await proxy.until_met(away)
    control_plane.api_server.kill()
    control_plane.compact()
    control_plane.launch()
    await asyncio.to_thread(control_plane.wait)
    proxy.clear()
    await quadrant.until_bound("after")
    await until(lambda: quadrant.states()["bound"] == 2)
    assert quadrant.observed.cluster.streams()["Pod"].lists == lists + 1
    assert set(await quadrant.nodes_of()) == {"before", "after"}


async def test_pods_that_wait_while_the_server_is_away_are_bound_when_it_is_back(
    quadrant: Followed,
    cluster: ApiClient,
    control_plane: ControlPlane,
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A binding is under way when the server dies, and the Lease runs out before it is back."""
    monkeypatch.setattr(cluster_lease, "DURATION_SECONDS", 2.0)
    monkeypatch.setattr(cluster_lease, "RENEW_SECONDS", 0.5)
    leases = writes_of(quadrant).leases
    await cluster.create(pod("before"))
    await quadrant.until_bound("before")
    lost = proxy.inject(LoseRequest(), method="POST", part=BINDING, times=1000)
    await cluster.create(pod("under-way"))
    await proxy.until_met(lost)
    control_plane.api_server.kill()
    proxy.clear()
    await until(lambda: not leases.held)
    control_plane.launch()
    await asyncio.to_thread(control_plane.wait)
    await cluster.create(pod("after"))
    await quadrant.until_bound("before", "under-way", "after")
    await until(lambda: leases.held and quadrant.states()["bound"] == 3)


@pytest.mark.parametrize(
    "effect",
    [
        LoseAnswer(),
        *(
            pytest.param(e, marks=pytest.mark.all)
            for e in (Answer(429), Answer(500), LoseRequest())
        ),
    ],
    ids=repr,
)
async def test_a_lease_whose_renewal_fails_is_renewed_again(
    quadrant: Followed,
    cluster: ApiClient,
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
    effect: Effect,
) -> None:
    monkeypatch.setattr(cluster_lease, "RENEW_SECONDS", 0.2)
    leases = writes_of(quadrant).leases
    await until(lambda: leases.held)
    failing = proxy.inject(effect, method="PATCH", part="/leases/", times=3)
    await proxy.until_met(failing, 3)
    before = leases.remaining()
    await until(lambda: leases.remaining() > before)
    await cluster.create(pod("after"))
    await quadrant.until_bound("after")
