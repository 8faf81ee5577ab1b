"""The door as a whole: discovery, documents, and requests that no client would send."""

from __future__ import annotations

import asyncio
import gzip
from itertools import product

import orjson
import pytest

from coordinator.api.listener.listener import LONGEST_LINE
from coordinator.intake.documents.kinds import KINDS
from tests.coordinator.api.client import PODS, Client
from tests.end_to_end.one_process.harness import Running


async def test_discovery_leads_to_every_kind(client: Client) -> None:
    assert (await client.get("/api"))["versions"] == ["v1"]
    groups = {group["name"] for group in (await client.get("/apis"))["groups"]}
    assert groups == {kind.group for kind in KINDS if kind.group} | {"authorization.k8s.io"}
    for group in groups:
        body = await client.get(f"/apis/{group}")
        assert body["kind"] == "APIGroup"
        assert body["preferredVersion"]["groupVersion"].startswith(f"{group}/")
    for kind in KINDS:
        root = "apis" if kind.group else "api"
        listed = (await client.get(f"/{root}/{kind.api_version}"))["resources"]
        (result,) = [entry for entry in listed if entry["name"] == kind.plural]
        assert (result["kind"], result["namespaced"]) == (kind.written, kind.namespaced)
        assert set(result["verbs"]) == set(kind.verbs)
        await client.get(f"/{root}/{kind.api_version}/{kind.plural}")
    assert (await client.get("/version"))["minor"] == "32"


async def test_every_document_is_where_the_index_says(client: Client) -> None:
    index = await client.get("/openapi/v3")
    assert set(index["paths"]) == {
        f"{'apis' if kind.group else 'api'}/{kind.api_version}" for kind in KINDS
    }
    for entry in index["paths"].values():
        document = await client.get(entry["serverRelativeURL"])
        assert document["openapi"].startswith("3.0")


async def test_version_2_describes_nothing(client: Client) -> None:
    assert (await client.get("/openapi/v2"))["paths"] == {}
    packed = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with client.session.get("/openapi/v2", headers={"Accept": packed}) as answer:
        assert answer.status == 200
        assert answer.content_type == packed.replace("@", ".")  # an "@" is no part of a type
        assert (await answer.read()).startswith(b"\x0a\x032.0")


async def test_every_operation_is_there(client: Client) -> None:
    """Every documented operation is answered: with 404 for a name that is nobody's, never with
    405."""
    for entry in (await client.get("/openapi/v3"))["paths"].values():
        document = await client.get(entry["serverRelativeURL"])
        for path, operations in document["paths"].items():
            url = path.replace("{namespace}", "ns").replace("{name}", "nobody")
            for method in operations.keys() - {"parameters"}:
                async with client.session.request(method, url) as answer:
                    body = await answer.json()
                    assert answer.status != 405, (method, path)
                    assert answer.status < 500, (method, path, body)


MALFORMED = (
    b"GET /" + b"a" * 2 * LONGEST_LINE + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 2 * LONGEST_LINE + b"\r\n\r\n",
    b"GET /api\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"WHAT\r\n\r\n",
    b"GET /api/v1/pods?limit=%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /api/v1/namespaces/%2e%2e%2f/pods/%0a HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: close\r\n\r\n",
)


async def test_malformed_http_is_answered_with_a_client_error(
    service: Running, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    port = int(service.url.rpartition(":")[2])
    for request in MALFORMED:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        async with asyncio.timeout(60.0):
            line = await reader.readline()
            await reader.read()
        assert line.split()[1][:1] == b"4", (request[:50], line)
        writer.close()
        assert "Traceback" not in caplog.text + capsys.readouterr().out, request[:50]


async def test_head_costs_no_watch(client: Client) -> None:
    async with client.session.head("/api/v1/pods?watch=1") as answer:
        assert answer.status == 405
    async with client.session.head("/api/v1/nodes/n1") as answer:
        assert answer.status == 200


async def test_methods_and_paths_that_are_not_there(client: Client) -> None:
    async with client.session.post("/api/v1/namespaces/ns/events", data=b"{}") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert orjson.loads(await answer.read())["kind"] == "Status"
    async with client.session.post("/health") as answer:
        assert (answer.status, answer.content_type) == (405, "application/problem+json")
        assert "GET" in answer.headers["Allow"]


async def test_packed_bodies_stay_packed(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    bodies = (gzip.compress(b" " * (32 << 20)), b"not packed")
    for path, body in product((PODS, "/apis/quadrant.dev/v1alpha1/lists"), bodies):
        async with client.session.post(path, data=body, headers=headers) as answer:
            output = orjson.loads(await answer.read())
            assert (answer.status, output["reason"]) == (415, "UnsupportedMediaType"), output
    assert "Traceback" not in caplog.text
