"""Bindings that a deposed leader sent, and that the network delivers a minute later: a successor
gives no room away to which one of them may still bind."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.service.observed import statuses
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from tests.builders.objects import priority_class
from tests.kubernetes.driver.harness import followed, node, pod, until
from tests.kubernetes.faults.effects import Answer, HoldRequest
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

LEASE_SECONDS = 2.0
"""Lease of the leadership; the binding comes later than that."""
DENIED = Answer(403, message='admission webhook "x" denied the request')


@contextlib.asynccontextmanager
async def deposed(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, ledger_url: str, path: Path
) -> AsyncIterator[HoldRequest]:
    """A leader that has ended, whose bindings of the pod ``late`` are in the network still. There
    is one node, for one pod."""
    await cluster.create(node("n1", cpu=1), priority_class("low", 10), priority_class("high", 1000))
    effect = HoldRequest()
    held = proxy.inject(effect, method="POST", part="/binding", times=100)
    seconds = LEASE_SECONDS
    async with followed(
        ledger_url, path, cluster, proxied.kubeconfig, coordinator_lease_seconds=seconds
    ):
        await cluster.create(pod("late") | {"spec": _spec("low")})
        await proxy.until_met(held)
    proxy.clear()
    yield effect


def _spec(rank: str) -> dict[str, object]:
    spec: dict[str, object] = pod("any")["spec"]
    return spec | {"priorityClassName": rank}


async def _deliver(effect: HoldRequest) -> None:
    effect.released.set()
    await asyncio.sleep(1.0)  # the server answers within milliseconds


async def test_a_binding_of_before_lands_on_no_room_that_was_given_to_another(  # noqa: PLR0917
    cluster: ApiClient,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The successor's own binding is refused, so that the pod's place is given to another pod; then
    the first one arrives."""
    # What the pod is told of its waiting would move its version too, some time.
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 0)
    async with deposed(cluster, proxied, proxy, redis_url, short_dir / "a") as effect:
        refusal = proxy.inject(DENIED, method="POST", part="/late/binding", times=100)
        async with followed(redis_url, short_dir / "b", cluster, proxied.kubeconfig) as second:
            await proxy.until_met(refusal)
            await cluster.create(pod("other") | {"spec": _spec("high")})
            assert await second.until_bound("other") == {"other": "n1"}
            await asyncio.sleep(LEASE_SECONDS)
            await _deliver(effect)
            on = Counter((await second.nodes_of()).values())
            assert on == {"n1": 1}, "the room was given twice"


async def test_a_binding_of_before_changes_nothing_once_the_successor_bound_the_pod(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    short_dir: Path,
) -> None:
    async with deposed(cluster, proxied, proxy, redis_url, short_dir / "a") as effect:
        kubeconfig = control_plane.admin.kubeconfig
        async with followed(redis_url, short_dir / "b", cluster, kubeconfig) as second:
            assert await second.until_bound("late") == {"late": "n1"}
            await asyncio.sleep(LEASE_SECONDS)
            await _deliver(effect)
            assert (await second.pods())["late"]["metadata"]["annotations"][STATEMENT].startswith(
                second.observed.cluster.mirror.statement
            )
            assert second.service.service.core.tally.late_binds == 0


async def test_a_binding_of_before_that_lands_first_is_adopted_and_counted(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, redis_url: str, short_dir: Path
) -> None:
    async with deposed(cluster, proxied, proxy, redis_url, short_dir / "a") as effect:
        storm = proxy.inject(Answer(429), method="POST", part="/binding", times=10_000)
        async with followed(redis_url, short_dir / "b", cluster, proxied.kubeconfig) as second:
            await proxy.until_met(storm)
            await _deliver(effect)
            assert await second.until_bound("late") == {"late": "n1"}
            tally = second.service.service.core.tally
            await until(lambda: tally.late_binds == 1)
            await until(lambda: second.states()["bound"] == 1)


async def test_a_binding_by_a_ledger_that_was_lost_lands_nowhere(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    second_ledger: str,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ledger that follows knows nothing of it, and gives the room to another pod."""
    monkeypatch.setattr(statuses, "WRITES_A_TICK", 0)
    kubeconfig = control_plane.admin.kubeconfig
    async with deposed(cluster, proxied, proxy, redis_url, short_dir / "a") as effect:
        await cluster.create(pod("other") | {"spec": _spec("high")})
        async with followed(second_ledger, short_dir / "b", cluster, kubeconfig) as second:
            assert await second.until_bound("other") == {"other": "n1"}
            await _deliver(effect)
            on = Counter((await second.nodes_of()).values())
            assert on == {"n1": 1}, "the room was given twice"
