"""Tokens at the doors of a real service: roles, queues, and what health says of the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession

from coordinator.api.auth import token_file
from coordinator.api.auth.tokens import new_token
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import a_list, node, queue
from tests.conftest import flush
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.api.auth.objects import group, job, pod
from tests.end_to_end.one_process.harness import Running, running

ADMIN, OPS, ALL, VIEW = (new_token() for _ in range(4))
LISTS = "/apis/quadrant.dev/v1alpha1/lists"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"

Json = dict[str, Any]


class TokenClient:
    def __init__(self, running: Running, session: ClientSession) -> None:
        self.running = running
        self.session = session

    async def __call__(
        self, token: str, method: str, path: str, body: Json | None = None, *, form: str = "json"
    ) -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {token}"}
        if body is not None:
            headers["Content-Type"] = f"application/{form}"
        url = self.running.url + path
        async with self.session.request(method, url, json=body, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else {"text": text}


@asynccontextmanager
async def asking(server: EmbeddedServer, path: Path) -> AsyncIterator[TokenClient]:
    """A service with two queues, ``research`` and ``ops``, and four tokens."""
    flush(server)
    tokens = write_tokens(
        path / "tokens",
        entry("root", "admin", ADMIN),
        entry("ops", "submit", OPS, queues=["ops"]),
        entry("all", "submit", ALL),
        entry("look", "view", VIEW),
    )
    async with running(server.url, path, tokens_file=tokens) as service, ClientSession() as session:
        ask = TokenClient(service, session)
        for name in ("research", "ops"):
            status, body = await ask(ADMIN, "POST", QUEUES, queue(name))
            assert status == 201, body
        yield ask


async def test_single_objects_go_where_their_author_may_submit(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    async with asking(embedded_server, short_dir) as ask:
        for path, good, bad in (
            (GROUPS, group("g1", "ops"), group("g2", "research")),
            (JOBS, job("j1", "ops"), job("j2", "research")),
            (PODS, pod("p1", queue="ops"), pod("p2", queue="research")),
            (PODS, pod("p3", group="g1"), pod("p4")),  # without a queue: into the default one
        ):
            status, body = await ask(OPS, "POST", path, good)
            assert status == 201, body
            status, body = await ask(OPS, "POST", path, bad)
            assert (status, body["reason"]) == (403, "Forbidden"), body
            assert "the token ops may submit to ops only" in body["message"]
            status, body = await ask(ALL, "POST", path, bad)
            assert status == 201, body
        # what others have in their queue can neither be taken over nor deleted
        move = {"spec": {"queue": "ops"}}
        status, body = await ask(OPS, "PATCH", f"{GROUPS}/g2", move, form="merge-patch+json")
        assert status == 403, body
        assert (await ask(OPS, "DELETE", f"{JOBS}/j2"))[0] == 403
        assert (await ask(OPS, "GET", f"{JOBS}/j2"))[0] == 200
        # and own ones not moved out
        move = {"spec": {"queue": "research"}}
        status, body = await ask(OPS, "PATCH", f"{GROUPS}/g1", move, form="merge-patch+json")
        assert status == 403, body
        assert (await ask(OPS, "DELETE", f"{JOBS}/j1"))[0] == 200
        # the cluster is not theirs
        for token in (OPS, ALL):
            assert (await ask(token, "POST", "/api/v1/nodes", node("n1")))[0] == 403
        assert (await ask(ADMIN, "POST", "/api/v1/nodes", node("n1")))[0] == 201


async def test_objects_of_a_list_are_judged_alone(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    async with asking(embedded_server, short_dir) as ask:
        items = [pod("p1", group="g"), group("g", "ops"), job("j1", "research"), node("n1")]
        status, body = await ask(OPS, "POST", LISTS, a_list(*items))
        assert (status, body["accepted"]) == (200, 2), body
        assert [(r["kind"], r["name"]) for r in body["refused"]] == [
            ("Job", "default/j1"),
            ("Node", "n1"),
        ]
        assert "needs role admin" in body["refused"][1]["message"]
        # all or nothing, and nothing at all
        for query, sent in (("?atomic=true", [job("j3", "ops"), node("n1")]), ("", [node("n1")])):
            status, body = await ask(OPS, "POST", LISTS + query, a_list(*sent))
            assert (status, body["reason"]) == (403, "Forbidden"), body
        assert (await ask(VIEW, "GET", f"{JOBS}/j3"))[0] == 404
        # a member that comes later goes to the queue of its group, whatever it says itself
        status, _ = await ask(ALL, "POST", LISTS, a_list(group("h", "research")))
        assert status == 200
        status, body = await ask(OPS, "POST", LISTS, a_list(pod("p2", group="h", queue="ops")))
        assert status == 403, body
        # also where the same list says that the group is in another one, which is refused
        moved = group("h", "ops")
        status, body = await ask(OPS, "POST", LISTS, a_list(moved, pod("p2", group="h")))
        assert status == 403, body


async def test_nobody_plants_members_in_the_queue_of_others(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """A PodGroup that is created later takes its waiting pods with it, whatever queue it is in."""
    async with asking(embedded_server, short_dir) as ask:
        planted = pod("q", group="later", queue="ops")
        status, body = await ask(OPS, "POST", PODS, planted)
        assert (status, body["reason"]) == (403, "Forbidden"), body
        assert "create it first, or in the same list" in body["message"]
        status, body = await ask(OPS, "POST", LISTS, a_list(planted, pod("alone", queue="ops")))
        assert (status, body["accepted"]) == (200, 1), body
        (refused,) = body["refused"]
        assert refused["name"] == "default/q"
        assert "PodGroup default/later does not exist" in refused["reason"]
        # nor beside a PodGroup that is refused itself
        bad = group("later", "ops")
        bad["spec"]["minMember"] = -1
        elsewhere = pod("q", group="later", queue="research")
        status, body = await ask(OPS, "POST", LISTS, a_list(bad, elsewhere))
        assert [(r["kind"], r["name"]) for r in body["refused"]] == [
            ("PodGroup", "later"),
            ("Pod", "default/q"),
        ], body
        assert (await ask(VIEW, "GET", f"{PODS}/q"))[0] == 404
        # with its PodGroup, or after it
        status, body = await ask(OPS, "POST", LISTS, a_list(planted, group("later", "ops")))
        assert (status, body["accepted"]) == (200, 2), body
        status, body = await ask(OPS, "POST", PODS, pod("r", group="later"))
        assert status == 201, body


async def test_pods_that_wait_keep_nobody_from_creating_their_pod_group(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    async with asking(embedded_server, short_dir) as ask:
        for name in ("one", "two"):
            waiting = pod(f"w-{name}", group=name, queue="research")
            status, body = await ask(ALL, "POST", PODS, waiting)
            assert status == 201, body
            status, body = await ask(OPS, "POST", PODS, pod(f"x-{name}", group=name, queue="ops"))
            assert status == 403, body
        status, body = await ask(OPS, "POST", GROUPS, group("one", "research"))
        assert status == 403, body
        status, body = await ask(OPS, "POST", GROUPS, group("one", "ops"))
        assert status == 201, body
        both = a_list(group("two", "ops"), pod("x-two", group="two"))
        status, body = await ask(OPS, "POST", LISTS, both)
        assert (status, body["accepted"]) == (200, 2), body
        # what they wait for is in ops now
        assert (await ask(OPS, "DELETE", f"{GROUPS}/one"))[0] == 200


async def test_a_view_token_reads_and_plans_and_cannot_write(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    async with asking(embedded_server, short_dir) as ask:
        assert (await ask(VIEW, "GET", QUEUES))[0] == 200
        assert (await ask(VIEW, "POST", PODS, pod("p1")))[0] == 403
        assert (await ask(VIEW, "POST", LISTS, a_list(pod("p1"))))[0] == 403
        plans = "/apis/quadrant.dev/v1alpha1/plans"
        status, body = await ask(VIEW, "POST", plans, a_list(job("j", "ops")))
        assert status == 200, body
        assert (await ask("", "GET", "/metrics"))[0] == 401


async def test_health_tells_of_a_bad_file_and_the_old_tokens_count(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_file, "LOOK_SECONDS", 0.01)

    async def until(ask: TokenClient, healthy: bool) -> Json:
        async with asyncio.timeout(60.0):
            while True:
                _, body = await ask(ADMIN, "GET", "/health")
                (check,) = [c for c in body["checks"] if c["name"] == "tokens"]
                if check["healthy"] is healthy:
                    return dict(check)
                await asyncio.sleep(0.01)

    async with asking(embedded_server, short_dir) as ask:
        path = short_dir / "tokens"
        path.write_text("- name: broken")
        check = await until(ask, False)
        assert "older tokens count" in check["message"]
        assert (await ask(VIEW, "GET", QUEUES))[0] == 200
        assert (await ask("", "GET", "/readyz?verbose"))[0] == 200
        newest = new_token()
        write_tokens(path, entry("new", "view", newest))
        await until(ask, True)
        assert (await ask(newest, "GET", QUEUES))[0] == 200
        assert (await ask(VIEW, "GET", QUEUES))[0] == 401


async def test_one_token_does_not_take_every_stream(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(embedded_server, short_dir) as ask, AsyncExitStack() as stack:
        serving = ask.running.service._serving
        assert serving is not None and serving.streams is not None
        monkeypatch.setattr(serving.streams, "_most", 4)

        async def watch(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            url = f"{ask.running.url}{PODS}?watch=true"
            answer = await stack.enter_async_context(ask.session.get(url, headers=headers))
            return answer.status

        assert [await watch(OPS) for _ in range(3)] == [200, 200, 429]
        assert [await watch(ALL) for _ in range(2)] == [200, 429]
        assert await watch(VIEW) == 200
        assert await watch(ADMIN) == 200, "the first one is always given"


@pytest.mark.parametrize("address", [f"{PODS}?watch=true", "/stream?kind=Pod"])
async def test_streams_of_a_token_that_is_taken_away_end(
    address: str, embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_file, "LOOK_SECONDS", 0.01)
    async with asking(embedded_server, short_dir) as ask, AsyncExitStack() as stack:

        async def stream(token: str) -> ClientResponse:
            headers = {"Authorization": f"Bearer {token}"}
            return await stack.enter_async_context(
                ask.session.get(f"{ask.running.url}{address}", headers=headers)
            )

        gone, changed, stays = [await stream(token) for token in (VIEW, OPS, ADMIN)]
        assert [answer.status for answer in (gone, changed, stays)] == [200, 200, 200]
        write_tokens(short_dir / "tokens", entry("ops", "view", OPS), entry("root", "admin", ADMIN))
        async with asyncio.timeout(60.0):
            await gone.read()
            await changed.read()
        assert not stays.content.at_eof()
        assert (await ask(VIEW, "GET", QUEUES))[0] == 401
