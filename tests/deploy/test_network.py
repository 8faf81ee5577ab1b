"""The network policies: what is needed gets through, all else does not."""

from __future__ import annotations

import pytest

from tests.deploy.network import Peer, allowed, selects
from tests.deploy.rendered import (
    OBSERVED,
    OVERLAYS,
    SCHEDULING,
    namespace_of,
    of_kind,
    pods_of,
    render,
)

PARTS = ("coordinator", "ray-head", "ray-worker", "ledger")
API, STORE, GCS = 8080, 6379, 6379
RAY = (6380, 6381, 10002, 10999)

CLIENT = {"quadrant.dev/client": "true"}

NEEDED = {
    ("client", "coordinator", API),
    ("coordinator", "ledger", STORE),
    ("ray-worker", "ledger", STORE),
    ("coordinator", "ray-head", GCS),
    ("ray-worker", "ray-head", GCS),
    *(
        (source, target, port)
        for source in ("coordinator", "ray-head", "ray-worker")
        for target in ("coordinator", "ray-head", "ray-worker")
        for port in RAY
    ),
}
PORTS = (22, 80, 443, 6378, 6379, 6382, 8080, 8265, 10001, 11000, *RAY)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_exactly_the_needed_flows_get_through(overlay: str) -> None:
    """Between all parts, a client and a stranger in the same namespace."""
    policies = of_kind(render(overlay), "NetworkPolicy")
    here = namespace_of(render(overlay))
    peers = {p.component: Peer(p.labels, here) for p in pods_of(render(overlay))}
    assert peers.keys() == set(PARTS)
    peers["client"] = Peer(CLIENT, here)
    peers["stranger"] = Peer({}, here)
    open_ones = {
        (source, target, port)
        for source in peers
        for target in PARTS
        for port in PORTS
        if allowed(policies, peers[source], peers[target], port)
    }
    # The API server is nobody's pod: where one is followed, its ports are open to the coordinator.
    # No part of ours listens on them, and none lets it in.
    assert open_ones == NEEDED


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_is_reached_from_where_it_is_followed(overlay: str) -> None:
    policies = of_kind(render(overlay), "NetworkPolicy")
    here = namespace_of(render(overlay))
    outside = Peer({}, namespace="")
    for pods in pods_of(render(overlay)):
        for port in (443, 6443):
            actual = allowed(policies, Peer(pods.labels, here), outside, port)
            assert actual == (overlay in OBSERVED and pods.component == "coordinator")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_servers_proxy_comes_in_where_tokens_are_reviewed(overlay: str) -> None:
    policies = of_kind(render(overlay), "NetworkPolicy")
    here = namespace_of(render(overlay))
    outside = Peer({}, namespace="")
    for pods in pods_of(render(overlay)):
        for port in PORTS:
            actual = allowed(policies, outside, Peer(pods.labels, here), port)
            where = (overlay, pods.component, port)
            expected = overlay in SCHEDULING and (pods.component, port) == ("coordinator", API)
            assert actual == expected, where


def test_prometheus_may_scrape_the_coordinator_and_nothing_else() -> None:
    policies = of_kind(render("shadow"), "NetworkPolicy")
    here = namespace_of(render("shadow"))
    prometheus = Peer({"app": "prometheus"}, namespace="monitoring")
    for pods in pods_of(render("shadow")):
        for port in PORTS:
            actual = allowed(policies, prometheus, Peer(pods.labels, here), port)
            assert actual == (pods.component == "coordinator" and port == API)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_of_ours_hits_a_pod(overlay: str) -> None:
    labels = [*(p.labels for p in pods_of(render(overlay))), CLIENT]
    for policy in of_kind(render(overlay), "NetworkPolicy"):
        selector = policy["spec"]["podSelector"]
        assert any(selects(selector, result) for result in labels), policy["metadata"]["name"]
