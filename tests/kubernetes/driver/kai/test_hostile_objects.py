"""Odd values in an object of a real API server end no role under KAI's policy."""

from __future__ import annotations

import pytest

from laboratory.local_kubernetes.client import ApiClient
from tests.kubernetes.driver.harness import Followed
from tests.kubernetes.driver.hostile_pods import naming_a_claim_template, on_a_node_with_shares
from tests.kubernetes.driver.kai.objects import gpu_node, kai_pod

pytestmark = pytest.mark.timeout(120)


async def test_a_pod_that_names_a_field_of_claims_is_placed_or_waits_like_any_other(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(gpu_node("n1", 2, cpu=16))
    await cluster.create(*naming_a_claim_template(kai_pod("odd")), kai_pod("good"))
    await quadrant.until_bound("odd-arg", "odd-label", "good")
    assert await quadrant.nodes_of("odd-sel") == {}, "no node has the label that it selects"


async def test_numbers_beyond_all_bounds_on_a_bound_pod_count_as_no_share(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(gpu_node("n1", 2, cpu=16))
    await cluster.create(*on_a_node_with_shares(kai_pod("odd", cpu=4), "n1"), kai_pod("good"))
    await quadrant.until_bound("good")
    await cluster.create(kai_pod("beyond", cpu=4), kai_pod("last"))
    await quadrant.until_bound("last")
    assert await quadrant.nodes_of("beyond") == {}, "the cores of the hostile pods are taken"
