"""Between faults: answers to writes of BindRequests that are lost, refused, or late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.api import reflector
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.definitions import remove
from laboratory.local_kubernetes.identity import Identity
from tests.kubernetes.definitions import definition, install_kai
from tests.kubernetes.driver.harness import Followed, node, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import beside_binder, binder_of, kai_pod, requests
from tests.kubernetes.faults.effects import Answer, LoseAnswer, LoseRequest
from tests.kubernetes.faults.proxy import FaultyProxy
from tests.kubernetes.servers.build import KAI

pytestmark = pytest.mark.timeout(180)

PART = "/bindrequests"
NAMES = ("a", "b", "c", "d")


@pytest_asyncio.fixture
async def quadrant(
    binder: KaiBinder, cluster: ApiClient, proxied: Identity, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """It reaches the API server by way of the proxy, as the binder does."""
    await cluster.create(node("n1", cpu=8), node("n2", cpu=8))
    async with beside_binder(redis_url, short_dir, cluster, proxied.kubeconfig) as running:
        await until(lambda: running.observed.cluster.mirror.complete)
        yield running


async def test_a_request_without_an_answer_is_looked_up_and_not_written_twice(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, binder: KaiBinder
) -> None:
    lost = proxy.inject(LoseAnswer(), method="POST", part=PART, times=2)
    unheard = proxy.inject(LoseRequest(), method="POST", part=PART, times=2)
    await cluster.create(*(kai_pod(name) for name in NAMES))
    await quadrant.until_bound(*NAMES)
    await until(lambda: quadrant.states()["bound"] == len(NAMES))
    assert (lost.met, unheard.met) == (2, 2)
    bound = await binder.until_bound(len(NAMES))
    assert sorted(pod for pod, _ in bound) == list(NAMES), "each was asked for once"


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_storm_of_refusals_delays_requests_and_loses_none(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy, code: int
) -> None:
    storm = proxy.inject(Answer(code), method="POST", part=PART, times=9)
    await cluster.create(*(kai_pod(name) for name in NAMES))
    await quadrant.until_bound(*NAMES)
    await until(lambda: quadrant.states()["bound"] == len(NAMES))
    assert storm.met == 9


async def test_a_failed_request_whose_deletion_had_no_answer_is_placed_again(
    quadrant: Followed, cluster: ApiClient, proxy: FaultyProxy
) -> None:
    proxy.inject(Answer(500), method="POST", part="/pods/a/binding", times=99)
    lost = proxy.inject(LoseAnswer(), method="DELETE", part=PART, times=1)
    await cluster.create(kai_pod("a"))
    await proxy.until_met(lost)
    proxy.clear()
    await quadrant.until_bound("a")
    await until(lambda: quadrant.states()["bound"] == 1)
    assert set(await requests(cluster)) == {"a"}


async def test_missing_kai_definitions_are_reported_and_waited_for(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "MISSING_SECONDS", 0.5)
    binder.pause()
    await remove(cluster, definition(KAI, "BindRequest"))
    await until(lambda: "install KAI's definitions" in binder_of(quadrant).problem)
    await cluster.create(kai_pod("a"))
    await install_kai(cluster)
    binder.resume()
    await quadrant.until_bound("a")
    assert binder_of(quadrant).problem == ""
