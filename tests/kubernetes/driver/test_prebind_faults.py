"""Volumes and devices where writes go wrong between here and the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from coordinator.service.observed import volumes as observed_volumes
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.identity import Identity
from tests.kubernetes.driver import test_devices as devices
from tests.kubernetes.driver import test_volumes as volumes
from tests.kubernetes.driver.harness import Followed, followed, node, until
from tests.kubernetes.faults.effects import Answer, Effect, HoldRequest, LoseAnswer, LoseRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

EFFECTS: list[Effect] = [Answer(429), Answer(500), LoseAnswer(), LoseRequest()]
NAMES = ("a", "b", "c")


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient,
    proxied: Identity,
    redis_url: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Followed]:
    """It reaches the API server by way of the proxy."""
    monkeypatch.setattr(observed_volumes, "AGAIN_SECONDS", 0.2)
    await cluster.create(node("n1", labels={volumes.HOSTNAME: "n1"}))
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig) as running:
        await until(lambda: running.observed.cluster.mirror.complete)
        yield running


@pytest.mark.parametrize("effect", EFFECTS, ids=repr)
async def test_a_claim_is_served_once_despite_failed_writes(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, effect: Effect
) -> None:
    fault = proxy.inject(effect, method="PATCH", part="/resourceclaims/", times=3)
    await cluster.create(devices.device_class("gpu"), devices.slice_of("n1", len(NAMES)))
    await cluster.create(*(devices.claim(name) for name in NAMES))
    await cluster.create(*(devices.using(name, name) for name in NAMES))
    await quadrant.until_bound(*NAMES)
    result = await devices.statuses(cluster)
    assigned = [device for name in NAMES for device in devices.results(result[name])]
    assert len(assigned) == len(set(assigned)) == len(NAMES)
    assert [user["name"] for name in NAMES for user in result[name]["reservedFor"]] == [*NAMES]
    assert fault.met == 3


@pytest.mark.parametrize("effect", EFFECTS, ids=repr)
async def test_a_volume_is_asked_for_until_it_is_certain(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, effect: Effect
) -> None:
    fault = proxy.inject(effect, method="PATCH", part="/persistentvolumeclaims/", times=2)
    await cluster.create(volumes.storage_class("made", volumes.PROVISIONER))
    await cluster.create(volumes.claim("data", "made"), volumes.using("reader", "data"))
    at = await volumes.selected(cluster, "data")
    assert (at, fault.met >= 1) == ("n1", True)
    await volumes.provision(cluster, "data", at)
    await quadrant.until_bound("reader")


async def test_a_claim_that_changes_meanwhile_is_chosen_for_anew(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    held = HoldRequest()
    fault = proxy.inject(held, method="PATCH", part="/resourceclaims/", times=1)
    await cluster.create(devices.device_class("gpu"), devices.slice_of("n1", 1))
    await cluster.create(devices.claim("a"), devices.using("a", "a"))
    await proxy.until_met(fault)
    await cluster.patch(f"{devices.CLAIMS}/a", {"metadata": {"labels": {"told": "later"}}})
    held.released.set()
    await quadrant.until_bound("a")
    claim = await cluster.get(f"{devices.CLAIMS}/a")
    assert claim["metadata"]["labels"] == {"told": "later"}
    assert len(devices.results(claim["status"])) == 1
