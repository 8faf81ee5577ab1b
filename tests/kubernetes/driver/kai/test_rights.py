"""The rights of ``k8s/overlays/kai``: those to BindRequests are all used, and none to bind."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cluster.kubernetes.bind_requests import writes
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.deploy.rendered import render, rights_of_ours
from tests.kubernetes.access import grant, user
from tests.kubernetes.audit import requests_of
from tests.kubernetes.driver.harness import node, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import (
    beside_binder,
    binder_of,
    kai_pod,
    refuse_bindings_to,
)
from tests.kubernetes.driver.test_rights import rights_of

pytestmark = pytest.mark.timeout(180)

NAME = "beside-kais-binder"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(writes, "WAIT_SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_a_run_asks_for_each_right_to_bind_requests_and_for_none_to_bind(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> None:
    """All other rights are compared by :mod:`tests.kubernetes.driver.test_rights`."""
    rules = rights_of_ours(render("kai"))
    await grant(cluster, user(NAME), rules)
    await cluster.create(node("bad", cpu=4), node("good", cpu=5))
    await refuse_bindings_to(cluster, "bad")
    binder.pause()
    kubeconfig = control_plane.user(NAME).kubeconfig
    async with beside_binder(redis_url, short_dir, cluster, kubeconfig) as quadrant:
        await cluster.create(kai_pod("a"))
        await until(lambda: binder_of(quadrant).server.looks > 0)
        binder.resume()
        await cluster.create(*(kai_pod(f"p{number}") for number in range(4)))
        await quadrant.until_bound("a", *(f"p{number}" for number in range(4)))
        assert binder_of(quadrant).counts.failed > 0
    requests = list(requests_of(control_plane.audit_log, NAME))
    assert [request for request in requests if request.code == 403] == []
    used = {(r.verb, r.group, r.resource) for r in requests if "bind" in r.resource}
    assert used == {right for right in rights_of(rules) if right[2] == "bindrequests"}
