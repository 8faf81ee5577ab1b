"""Requests with a token of the cluster: its API server says whose it is, and what they may."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.api.auth import rechecks, reviews
from coordinator.api.auth.tokens import new_token
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.service.metrics.scrape import read, total
from tests.end_to_end.one_process.harness import PATIENCE
from tests.kubernetes.access import account, grant, token_of, user, username
from tests.kubernetes.audit import requests_of
from tests.kubernetes.driver.harness import Followed, followed, node, pod, until

pytestmark = pytest.mark.timeout(180)

EXPLAIN = "/api/v1/namespaces/default/pods/a/explain"
OURS = "quadrant.dev"
PLANS = f"/apis/{OURS}/v1alpha1/plans"
STATUS = f"/apis/{OURS}/v1alpha1/status"
DUMP = f"/apis/{OURS}/v1alpha1/debug/coordinator/dump"
EVERYTHING = {
    "apiGroups": [
        "",
        "coordination.k8s.io",
        "policy",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "scheduling.volcano.sh",
        "storage.k8s.io",
        "topology.volcano.sh",
    ],
    "resources": ["*"],
    "verbs": ["*"],
}
"""The rights that scheduling takes, and no review."""
REVIEWS = {
    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
    "resources": ["tokenreviews", "subjectaccessreviews"],
    "verbs": ["create"],
}
EXPLAINS = {"apiGroups": [""], "resources": ["pods/explain"], "verbs": ["get"]}


@dataclass
class ReviewedClient:
    quadrant: Followed
    cluster: ApiClient
    session: aiohttp.ClientSession

    async def __call__(
        self, path: str, token: str | None, method: str = "GET", **options: Any
    ) -> tuple[int, dict[str, Any]]:
        """Code and JSON; of another form it is text."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        headers = sent | options.pop("headers", {})
        url = self.quadrant.service.url + path
        async with self.session.request(method, url, headers=headers, **options) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text[:1] == "{" else {"text": text}


@contextlib.asynccontextmanager
async def asking(
    ledger_url: str, path: Path, cluster: ApiClient, kubeconfig: Path, **settings: Any
) -> AsyncIterator[ReviewedClient]:
    settings = {"access_reviews": True} | settings
    async with (
        followed(ledger_url, path, cluster, kubeconfig, **settings) as quadrant,
        aiohttp.ClientSession() as session,
    ):
        yield ReviewedClient(quadrant, cluster, session)


@pytest.fixture
async def ask(
    redis_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> AsyncIterator[ReviewedClient]:
    await cluster.create(node("n1"), pod("a"))
    kubeconfig = control_plane.admin.kubeconfig
    async with asking(redis_url, short_dir, cluster, kubeconfig) as review_client:
        await review_client.quadrant.until_bound("a")
        yield review_client


async def test_a_cluster_role_allows_an_explanation(ask: ReviewedClient) -> None:
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

    scraper = await token_of(ask.cluster, "default", "scraper", audience="quadrant")
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await grant(ask.cluster, account("default", "scraper"), [rule])
    series = read((await ask("/metrics", scraper))[1]["text"])
    resources = {
        (question, answer): total(series, "access_reviews_total", kind=question, result=answer)
        for question in ("token", "access")
        for answer in ("yes", "no", "none")
    }
    assert resources == {
        ("token", "yes"): 3,
        ("token", "no"): 0,
        ("token", "none"): 0,
        ("access", "yes"): 2,
        ("access", "no"): 1,
        ("access", "none"): 0,
    }


async def test_a_role_allows_in_its_namespace_alone(ask: ReviewedClient) -> None:
    token = await token_of(ask.cluster, "default", "tenant", audience="quadrant")
    rules = [EXPLAINS, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    await grant(ask.cluster, account("default", "tenant"), rules, namespace="default")
    assert (await ask(EXPLAIN, token))[0] == 200
    assert (await ask("/api/v1/namespaces/default/pods", token))[0] == 200
    for path in (
        "/api/v1/namespaces/other/pods/a/explain",
        "/api/v1/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/pods?watch=1",
        "/stream",
        "/metrics",
    ):
        assert (await ask(path, token))[0] == 403, path


@pytest.mark.parametrize(
    ("method", "path", "rule"),
    [
        ("GET", "/metrics", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        ("GET", "/api/v1/nodes", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}),
        ("POST", PLANS, {"apiGroups": [OURS], "resources": ["plans"], "verbs": ["create"]}),
        ("GET", STATUS, {"apiGroups": [OURS], "resources": ["status"], "verbs": ["list"]}),
        (
            "GET",
            DUMP,
            {
                "apiGroups": [OURS],
                "resources": ["debug/dump"],
                "resourceNames": ["coordinator"],
                "verbs": ["get"],
            },
        ),
    ],
    ids=["metrics", "nodes", "plans", "status", "debug"],
)
async def test_each_rule_allows_what_it_names(
    ask: ReviewedClient, method: str, path: str, rule: dict[str, Any]
) -> None:
    body = {"json": {"apiVersion": "v1", "kind": "List", "items": []}} if method == "POST" else {}
    nobody = await token_of(ask.cluster, "default", "nobody", audience="quadrant")
    assert (await ask(path, nobody, method, **body))[0] == 403
    somebody = await token_of(ask.cluster, "default", "somebody", audience="quadrant")
    await grant(ask.cluster, account("default", "somebody"), [rule])
    code, answer = await ask(path, somebody, method, **body)
    assert code == 200, answer
    others = {"/metrics", "/api/v1/nodes", STATUS, DUMP} - {path}
    assert {(await ask(other, somebody))[0] for other in others} == {403}


async def test_object_writes_are_refused_to_every_role(ask: ReviewedClient) -> None:
    token = await token_of(ask.cluster, "default", "root", audience="quadrant")
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await grant(ask.cluster, account("default", "root"), [everything])
    jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    for path in ("/api/v1/namespaces/default/pods", jobs, f"/apis/{OURS}/v1alpha1/lists"):
        code, body = await ask(path, token, "POST", json={})
        assert code == 405, body
        assert "with kubectl" in body["message"]


async def test_without_a_token_or_with_one_for_somebody_else_nobody_is_known(
    ask: ReviewedClient,
) -> None:
    for_the_server = await token_of(ask.cluster, "default", "reader")
    await grant(ask.cluster, account("default", "reader"), [EXPLAINS])
    for token in (None, "nonsense", "qdt_nonsense", "nönsense", for_the_server):
        code, body = await ask(EXPLAIN, token)
        assert (code, body["reason"]) == (401, "Unauthorized"), token
    assert (await ask("/livez", None))[0] == 200
    for_us = await token_of(ask.cluster, "default", "reader", audience="quadrant")
    assert (await ask(EXPLAIN, for_us))[0] == 200
    ours = {"X-Quadrant-Authorization": f"Bearer {for_us}"}
    assert (await ask(EXPLAIN, "nonsense", headers=ours))[0] == 200, "ours counts first"


async def test_a_token_that_has_expired_is_refused(
    ask: ReviewedClient, control_plane: ControlPlane
) -> None:
    token = await token_of(ask.cluster, "default", "reader", audience="quadrant")
    await grant(ask.cluster, account("default", "reader"), [EXPLAINS])
    key = control_plane.folder / "accounts.key"
    now = int(time.time())
    assert (await ask(EXPLAIN, signed_anew(token, key, exp=now + 600)))[0] == 200
    expired = signed_anew(token, key, iat=now - 900, nbf=now - 900, exp=now - 300)
    assert (await ask(EXPLAIN, expired))[0] == 401


async def test_tokens_of_the_file_go_on_and_are_told_to_nobody(
    redis_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> None:
    ours = new_token()
    path = write_tokens(short_dir / "tokens", entry("ops", "view", ours))
    await grant(cluster, user("both"), [EVERYTHING, REVIEWS])
    identity = control_plane.user("both")
    kubeconfig = identity.kubeconfig
    async with asking(redis_url, short_dir, cluster, kubeconfig, tokens_file=path) as ask:
        assert (await ask("/api/v1/nodes", ours))[0] == 200
        assert (await ask(DUMP, ours))[0] == 403
        assert (await ask("/api/v1/nodes", new_token()))[0] == 401
        assert _asked_reviews(control_plane, "both") == []
        theirs = await token_of(cluster, "default", "theirs", audience="quadrant")
        assert (await ask("/api/v1/nodes", theirs))[0] == 403
        await until(lambda: REVIEWS["resources"] == _asked_reviews(control_plane, "both"))


def _asked_reviews(control_plane: ControlPlane, name: str) -> list[str]:
    """Kinds of reviews that a user asked for, in the order of the rights to them."""
    asked = {r.resource for r in requests_of(control_plane.audit_log, name)}
    return [kind for kind in REVIEWS["resources"] if kind in asked]


async def test_without_its_own_right_it_refuses_and_says_which(
    redis_url: str, short_dir: Path, cluster: ApiClient, control_plane: ControlPlane
) -> None:
    await grant(cluster, user("poor"), [EVERYTHING])
    identity = control_plane.user("poor")
    async with asking(redis_url, short_dir, cluster, identity.kubeconfig) as ask:
        token = await token_of(cluster, "default", "reader", audience="quadrant")
        code, body = await ask(EXPLAIN, token)
        assert code == 503
        assert "create on tokenreviews" in body["message"]
        assert "k8s/components/reviews" in body["message"]
        async with ask.session.get(ask.quadrant.service.url + "/health") as answer:
            assert "tokenreviews" in await answer.text()


# --- what ends --------------------------------------------------------------------------------


@pytest.fixture
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "CACHE_SECONDS", 0.5)
    monkeypatch.setattr(rechecks, "LOOK_SECONDS", 0.1)


@pytest.fixture
async def quick(_quickly: None, ask: ReviewedClient) -> ReviewedClient:
    return ask


async def test_a_revoked_token_ends_requests_and_open_watches(quick: ReviewedClient) -> None:
    ask = quick
    token = await token_of(ask.cluster, "default", "leaver", audience="quadrant")
    rules = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    await grant(ask.cluster, account("default", "leaver"), [rules])
    pods = "/api/v1/namespaces/default/pods"
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{ask.quadrant.service.url}{pods}?watch=1"
    async with ask.session.get(url, headers=headers) as watch:
        assert watch.status == 200
        await asyncio.sleep(1.5)  # three times as long as an answer counts
        assert (await ask(pods, token))[0] == 200
        await ask.cluster.delete("/api/v1/namespaces/default/serviceaccounts/leaver")
        async with asyncio.timeout(PATIENCE):
            await watch.read()  # to its end
    assert (await ask(pods, token))[0] == 401


async def test_while_the_api_server_is_away_everything_is_refused(
    quick: ReviewedClient, control_plane: ControlPlane
) -> None:
    ask = quick
    token = await token_of(ask.cluster, "default", "reader", audience="quadrant")
    await grant(ask.cluster, account("default", "reader"), [EXPLAINS])
    assert (await ask(EXPLAIN, token))[0] == 200
    control_plane.api_server.kill()
    try:
        await until(lambda: refused(ask, token))
        code, body = await ask(EXPLAIN, token)
        assert code == 503
        assert f"the API server at {control_plane.url} did not answer" in body["message"]
        assert body["details"]["retryAfterSeconds"] == 1
        assert (await ask("/livez", None))[0] == 200
    finally:
        control_plane.launch()
        await asyncio.to_thread(control_plane.wait)
    await until(lambda: answered(ask, token))


async def refused(ask: ReviewedClient, token: str) -> bool:
    return (await ask(EXPLAIN, token))[0] != 200


async def answered(ask: ReviewedClient, token: str) -> bool:
    return (await ask(EXPLAIN, token))[0] == 200


_SIZE = 32
"""Bytes of each of the two numbers of a signature on P-256."""


def signed_anew(token: str, key: Path, **claims: int) -> str:
    """The same token with these claims (``exp``, ``iat``, ``nbf`` in seconds since 1970)."""
    head, body, _ = token.split(".")
    payload = json.loads(_decoded(body)) | claims
    signed = f"{head}.{_encoded(json.dumps(payload).encode())}"
    der = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", key],
        input=signed.encode(),
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    return f"{signed}.{_encoded(_raw(der))}"


def _raw(der: bytes) -> bytes:
    """JOSE's form of a signature: both numbers, one after the other."""
    numbers, rest = [], der[2:]
    for _ in range(2):
        length = rest[1]
        numbers.append(int.from_bytes(rest[2 : 2 + length], "big"))
        rest = rest[2 + length :]
    return b"".join(number.to_bytes(_SIZE, "big") for number in numbers)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
