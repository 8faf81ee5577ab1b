"""Requests at the gate: who gets in, who is told what is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from coordinator.api.auth.gate import Gate
from coordinator.api.auth.middleware import KEY, middleware
from coordinator.api.auth.token_file import TokenFile
from coordinator.api.auth.tokens import new_token
from coordinator.api.http.failures import failures
from coordinator.intake import body_budget
from coordinator.intake.principal import ANYONE, CALLER
from tests.coordinator.api.auth.files import entry, write_tokens

ROUTES = (
    "/api",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/nodes/{name}",
    "/api/v1/namespaces/{namespace}/pods",
    "/api/v1/namespaces/{namespace}/pods/{name}",
    "/api/v1/namespaces/{namespace}/pods/{name}/explain",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.volcano.sh/v1beta1/queues/{name}",
    "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/{name}/explain",
    "/apis/scheduling.run.ai/v2/queues",
    "/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups",
    "/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups/{name}",
    "/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups/{name}/explain",
    "/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs",
    "/apis/topology.volcano.sh/v1alpha1/hypernodes",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/quadrant.dev/v1alpha1/lists",
    "/apis/quadrant.dev/v1alpha1/plans",
    "/apis/quadrant.dev/v1alpha1/shards",
    "/apis/quadrant.dev/v1alpha1/status",
    "/metrics",
    "/livez",
    "/readyz",
    "/readyz/{check}",
    "/health",
)

TOKENS = {role: new_token() for role in ("view", "submit", "admin")}


@dataclass(frozen=True)
class TokenServer:
    url: str
    session: ClientSession

    async def ask(
        self, method: str, path: str, token: str | None = None, *, header: str | None = None
    ) -> tuple[int, dict[str, str], Any]:
        headers = {} if header is None else {"Authorization": header}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with self.session.request(method, self.url + path, headers=headers) as answer:
            return answer.status, dict(answer.headers), await answer.json(content_type=None)


async def _who(request: web.Request) -> web.Response:
    assert CALLER.get() is request[KEY]
    return web.json_response({"name": request[KEY].name})


def app_with(tokens: TokenFile | None) -> web.Application:
    app = web.Application(middlewares=[failures, middleware(Gate(tokens))])
    for path in ROUTES:
        app.router.add_route("*", path, _who)
    return app


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[TokenServer]:
    path = write_tokens(tmp_path / "tokens", *(entry(r, r, t) for r, t in TOKENS.items()))
    server = TestServer(app_with(TokenFile(path)))
    await server.start_server()
    async with ClientSession() as session:
        yield TokenServer(str(server.make_url("")).rstrip("/"), session)
    await server.close()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz/ledger", "/health"])
async def test_probes_need_no_token(door: TokenServer, path: str) -> None:
    assert (await door.ask("GET", path))[0] == 200


@pytest.mark.parametrize(
    "path", ["/metrics", "/api", "/api/v1/pods", "/apis/quadrant.dev/v1alpha1/status", "/nothing"]
)
async def test_everything_else_needs_one(door: TokenServer, path: str) -> None:
    status, headers, body = await door.ask("GET", path)
    assert status == 401
    assert headers["WWW-Authenticate"] == 'Bearer realm="quadrant"'
    assert "Authorization: Bearer TOKEN" in (body.get("message") or body["detail"])
    assert (await door.ask("GET", path, TOKENS["view"]))[0] == (404 if path == "/nothing" else 200)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "bearer wrong",
        f"Bearer {TOKENS['view'][:-1]}",
        f"Bearer {TOKENS['view']} {TOKENS['admin']}",
        "Bearer " + "x" * 4000,
        TOKENS["admin"],
    ],
    # Tokens differ in each process of a run side by side, and names of tests may not.
    ids=["none", "empty", "basic", "wrong", "cut short", "two", "long", "no scheme"],
)
async def test_an_unknown_token_is_answered_401(door: TokenServer, header: str) -> None:
    status, headers, body = await door.ask("GET", "/api/v1/pods", header=header)
    assert (status, body["reason"]) == (401, "Unauthorized")
    assert headers["WWW-Authenticate"].startswith("Bearer ")
    assert "qdt_" not in body["message"]


async def test_the_word_bearer_may_be_written_in_any_case(door: TokenServer) -> None:
    status, _, body = await door.ask("GET", "/api/v1/pods", header=f"BEARER {TOKENS['view']}")
    assert (status, body["name"]) == (200, "view")


PODS = "/api/v1/namespaces/a/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups"
KAI_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUADRANT = "/apis/quadrant.dev/v1alpha1"


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", PODS, "view"),
        ("HEAD", PODS, "view"),
        ("GET", "/api/v1/nodes", "view"),
        ("POST", f"{PODS}/x/explain", "view"),
        ("POST", f"{GROUPS}/x/explain", "view"),
        ("POST", f"{QUADRANT}/plans", "view"),
        ("POST", PODS, "submit"),
        ("DELETE", f"{PODS}/x", "submit"),
        ("PATCH", f"{PODS}/explain", "submit"),
        ("POST", JOBS, "submit"),
        ("POST", GROUPS, "submit"),
        ("POST", KAI_GROUPS, "submit"),
        ("PUT", f"{KAI_GROUPS}/x", "submit"),
        ("PATCH", f"{KAI_GROUPS}/x", "submit"),
        ("POST", f"{KAI_GROUPS}/x/explain", "view"),
        ("POST", "/apis/scheduling.run.ai/v2/queues", "admin"),
        ("POST", f"{QUADRANT}/lists", "submit"),
        ("POST", "/api/v1/nodes", "admin"),
        ("DELETE", "/api/v1/nodes/x%2Fexplain", "admin"),
        ("POST", "/api/v1/nodes/explain", "admin"),
        ("PATCH", f"{QUEUES}/q", "admin"),
        ("POST", "/apis/topology.volcano.sh/v1alpha1/hypernodes", "admin"),
        ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", "admin"),
        ("POST", f"{QUADRANT}/shards", "admin"),
        ("POST", "/metrics", "admin"),
        ("POST", "/livez", "admin"),
    ],
)
async def test_each_request_needs_its_role_and_no_more(
    door: TokenServer, method: str, path: str, role: str
) -> None:
    ranks = list(TOKENS)
    for mine, token in TOKENS.items():
        status, _, body = await door.ask(method, path, token)
        if ranks.index(mine) >= ranks.index(role):
            assert status == 200, mine
        elif method != "HEAD":
            assert (status, body.get("reason", "Forbidden")) == (403, "Forbidden"), mine
            output = body.get("message") or body["detail"]
            assert f"needs role {role}" in output
            assert f"the token {mine} has role {mine}" in output


async def test_requests_on_one_connection_are_authenticated_one_by_one(door: TokenServer) -> None:
    """Requests over one connection run in one task: who asks is set anew each time."""
    for role in ("admin", "view", "submit"):
        assert (await door.ask("GET", PODS, TOKENS[role]))[2] == {"name": role}
    assert (await door.ask("GET", PODS))[0] == 401
    assert (await door.ask("GET", "/livez"))[2] == {"name": "nobody"}


async def test_without_tokens_anyone_may_do_everything() -> None:
    server = TestServer(app_with(None))
    await server.start_server()
    async with ClientSession() as session:
        door = TokenServer(str(server.make_url("")).rstrip("/"), session)
        for method, path in (("GET", PODS), ("DELETE", "/api/v1/nodes/x")):
            assert (await door.ask(method, path))[2] == {"name": ANYONE.name}
    await server.close()


# --- memory for bodies ------------------------------------------------------------------------


async def test_bodies_of_one_leave_room_for_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies that arrive slowly hold memory: it is shared among those who send."""
    monkeypatch.setattr(body_budget.BodyRoom.__init__, "__defaults__", (1000,))
    path = write_tokens(tmp_path / "tokens", *(entry(r, r, t) for r, t in TOKENS.items()))
    go_on, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(_: web.Request) -> web.Response:
        arrived.release()
        await go_on.wait()
        return web.json_response({})

    app = web.Application(middlewares=[failures, middleware(Gate(TokenFile(path)))])
    app.router.add_post(f"{QUADRANT}/lists", slow)
    server = TestServer(app)
    await server.start_server()
    async with ClientSession() as session:

        async def send(token: str, size: int) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            url = server.make_url(f"{QUADRANT}/lists")
            async with session.post(url, data=b"x" * size, headers=headers) as answer:
                if answer.status == 429:
                    assert int(answer.headers["Retry-After"]) >= 1
                return answer.status

        async with asyncio.TaskGroup() as group:
            held = [group.create_task(send(TOKENS["submit"], 250)) for _ in range(2)]
            for _ in held:
                await arrived.acquire()
            assert await send(TOKENS["submit"], 250) == 429
            other = group.create_task(send(TOKENS["admin"], 900))
            await asyncio.sleep(0.2)
            assert not other.done()
            go_on.set()
        assert [task.result() for task in (*held, other)] == [200, 200, 200]
        assert await send(TOKENS["submit"], 250) == 200, "what was held is given back"
    await server.close()
