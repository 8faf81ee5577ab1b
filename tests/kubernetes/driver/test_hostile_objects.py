"""What somebody writes into an object of a real API server ends no role and holds nobody up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until
from tests.kubernetes.driver.hostile_pods import naming_a_claim_template, on_a_node_with_shares

pytestmark = pytest.mark.timeout(120)


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """One node of sixteen cores."""
    await install(cluster, *VOLCANO)
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
