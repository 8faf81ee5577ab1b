"""``kubectl quadrant`` finds its service through the API server: a kubeconfig is enough."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator.verification.local_kubernetes.authority import Authority
from coordinator.verification.local_kubernetes.client import ApiClient
from coordinator.verification.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.access import account, grant, token_of, user
from tests.kubernetes.driver.harness import followed, node, pod
from tests.kubernetes.reviews.published import NAMESPACE, own_address, publish

pytestmark = pytest.mark.timeout(240)

EXPLAINS = {
    "apiGroups": [""],
    "resources": ["pods/explain"],
    "verbs": ["get"],
}
PROXIES = {
    "apiGroups": [""],
    "resources": ["services/proxy"],
    "resourceNames": ["https:quadrant:https"],
    "verbs": ["get", "create"],
}
MAKES_TOKENS = {
    "apiGroups": [""],
    "resources": ["serviceaccounts/token"],
    "resourceNames": ["quadrant-client"],
    "verbs": ["create"],
}


@dataclass
class Plugin:
    cluster: ApiClient
    plane: ControlPlane
    home: Path

    async def __call__(
        self, *words: str, kubeconfig: Path, **environment: str
    ) -> tuple[int, str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("QUADRANT_")}
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / "kubectl-quadrant",
            *words,
            env=clean | {"KUBECONFIG": str(kubeconfig), "HOME": str(self.home)} | environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def someone(self, name: str, *rules: dict[str, Any]) -> Path:
        """The kubeconfig of a user with a certificate, who may do this."""
        await grant(self.cluster, user(name), list(rules))
        return self.plane.user(name).kubeconfig


@pytest.fixture
async def plugin(
    ledger_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> AsyncIterator[Plugin]:
    address = own_address()
    certificate, key = Authority(short_dir, "ours").issue("quadrant")
    await cluster.create(node("n1"), pod("a"))
    async with followed(
        ledger_url,
        short_dir,
        cluster,
        control_plane.admin.kubeconfig,
        access_reviews=True,
        listen_host=address,
        tls_cert_file=certificate,
        tls_key_file=key,
    ) as quadrant:
        await quadrant.until_bound("a")
        port = int(quadrant.service.url.rpartition(":")[2])
        await publish(cluster, address, port)
        await token_of(cluster, NAMESPACE, "quadrant-client")
        yield Plugin(cluster, control_plane, short_dir)


async def test_a_user_with_a_certificate_is_explained_a_pod(plugin: Plugin) -> None:
    await grant(plugin.cluster, account(NAMESPACE, "quadrant-client"), [EXPLAINS])
    kubeconfig = await plugin.someone("ada", PROXIES, MAKES_TOKENS)
    code, out, err = await plugin("explain", "pod", "a", "-n", "default", kubeconfig=kubeconfig)
    assert code == 0, err
    assert "n1" in out
