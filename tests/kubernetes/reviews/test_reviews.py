"""Requests with a token of the cluster: its API server says whose it is, and what they may."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.verification.local_kubernetes.client import ApiClient
from coordinator.verification.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.access import account, grant, token_of, username
from tests.kubernetes.driver.harness import Followed, followed, node, pod

pytestmark = pytest.mark.timeout(180)

EXPLAIN = "/api/v1/namespaces/default/pods/a/explain"
EXPLAINS = {"apiGroups": [""], "resources": ["pods/explain"], "verbs": ["get"]}


@dataclass
class Asking:
    quadrant: Followed
    cluster: ApiClient
    session: aiohttp.ClientSession

    async def __call__(
        self, path: str, token: str | None, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        url = self.quadrant.service.url + path
        async with self.session.request(method, url, headers=sent | headers) as answer:
            return answer.status, await answer.json(content_type=None)


@contextlib.asynccontextmanager
async def asking(
    ledger_url: str, path: Path, cluster: ApiClient, kubeconfig: Path, **settings: Any
) -> AsyncIterator[Asking]:
    settings = {"access_reviews": True} | settings
    async with (
        followed(ledger_url, path, cluster, kubeconfig, **settings) as quadrant,
        aiohttp.ClientSession() as session,
    ):
        yield Asking(quadrant, cluster, session)


@pytest.fixture
async def ask(
    ledger_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> AsyncIterator[Asking]:
    await cluster.create(node("n1"), pod("a"))
    kubeconfig = control_plane.admin.kubeconfig
    async with asking(ledger_url, short_dir, cluster, kubeconfig) as made:
        await made.quadrant.until_bound("a")
        yield made


async def test_a_cluster_role_allows_an_explanation(ask: Asking) -> None:
    reader = await token_of(ask.cluster, "default", "reader", audience="quadrant")
    code, body = await ask(EXPLAIN, reader)
    assert code == 403
    who = username("default", "reader")
    assert f'"{who}" cannot get resource "pods/explain"' in body["message"], body["message"]
    assert 'in the namespace "default"' in body["message"]

    other = await token_of(ask.cluster, "default", "other", audience="quadrant")
    await grant(ask.cluster, account("default", "other"), [EXPLAINS])
    code, body = await ask(EXPLAIN, other)
    assert code == 200, body
    assert body["kind"] == "Explanation"
