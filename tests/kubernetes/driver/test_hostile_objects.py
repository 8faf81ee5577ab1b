"""Odd values in an object of a real API server end no role and hold nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from coordinator.bind import devices_of_pod
from coordinator.cli.admin import doctor_checks
from coordinator.cli.admin.doctor import DoctorPlace, DoctorWarning
from coordinator.cluster.kubernetes.api.objects import PodObject
from coordinator.cluster.kubernetes.state import mirror
from coordinator.intake import intake
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.settings.settings import load_settings
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until
from tests.kubernetes.driver.hostile_pods import naming_a_claim_template, on_a_node_with_shares
from tests.kubernetes.driver.test_statuses import events_of

pytestmark = pytest.mark.timeout(120)


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """One node of sixteen cores."""
    await install_volcano(cluster)
    await cluster.create(node("n1", cpu=16))
    async with followed(redis_url, short_dir, cluster, control_plane.admin.kubeconfig) as running:
        yield running


async def test_a_pod_that_names_a_field_of_claims_is_placed_or_waits_like_any_other(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(*naming_a_claim_template(pod("odd")), pod("good"))
    await quadrant.until_bound("odd-arg", "odd-label", "good")
    assert await quadrant.nodes_of("odd-sel") == {}, "no node has the label that it selects"


async def test_numbers_beyond_all_bounds_on_a_bound_pod_count_as_no_share(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(*on_a_node_with_shares(pod("odd", cpu=4), "n1"), pod("good"))
    await quadrant.until_bound("good")
    await until(lambda: quadrant.states()["bound"] == 4)
    await cluster.create(pod("beyond", cpu=4), pod("last"))
    await quadrant.until_bound("last")
    assert await quadrant.nodes_of("beyond") == {}, "the cores of the hostile pods are taken"


MARKS = ("volcano.sh/gpu-index", "note")
READERS = {
    "the mirror": (mirror, "update"),
    "what intake is given": (mirror, "as_item"),
    "intake": (intake, "parse"),
    "devices": (devices_of_pod, "devices_of_pod"),
}


@pytest.mark.parametrize("reader", READERS)
async def test_a_reader_that_fails_on_one_pod_quarantines_it_alone(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """An object on which a reader fails is reported, and its use of the node counts."""
    module, name = READERS[reader]
    read = getattr(module, name)

    def failing(*parts: Any) -> Any:
        if any("to-fail-on" in str(_plain(part)) for part in parts):
            raise KeyError("as of a bug")
        return read(*parts)

    monkeypatch.setattr(module, name, failing)
    odd = pod("odd", cpu=12, annotations=dict.fromkeys(MARKS, "to-fail-on"))
    odd["spec"]["nodeName"] = "n1"
    await cluster.create(odd, pod("good"))
    await quadrant.until_bound("good")
    [event] = await until(partial(_misread, cluster))
    assert "KeyError" in event["message"]
    service = quadrant.service.service
    assert service.probes.not_understood["Pod"] == 1 and len(service.probes.quarantine) == 1
    assert "Pod default/odd (KeyError)" in await _doctor(quadrant)
    assert "cluster_objects_quarantined 1" in await _page(quadrant, "/metrics")
    await cluster.create(pod("beyond", cpu=4), pod("last"))
    await quadrant.until_bound("last")
    assert await quadrant.nodes_of("beyond") == {}, "the room of the pod counts"
    await cluster.delete("/api/v1/namespaces/default/pods/odd", gracePeriodSeconds="0")
    await quadrant.until_bound("beyond")
    await until(lambda: not service.probes.quarantine)


def _plain(part: Any) -> Any:
    return bytes(part.spec) + str(part.metadata).encode() if isinstance(part, PodObject) else part


async def _misread(cluster: ApiClient) -> list[Any] | None:
    events = await events_of(cluster, "Pod", "odd")
    return [event for event in events if event["reason"] == "Misconfigured"] or None


async def _doctor(quadrant: Followed) -> str:
    """Return the warning of ``quadrant doctor`` about the service that runs here."""
    settings = load_settings(listen_port=int(quadrant.service.url.rpartition(":")[2]))
    with pytest.raises(DoctorWarning) as warning:
        await asyncio.to_thread(doctor_checks.service, DoctorPlace(settings))
    return warning.value.found


async def _page(quadrant: Followed, path: str) -> str:
    url = quadrant.service.url + path
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()
