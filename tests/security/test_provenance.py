"""Pages of other sites: neither do they write by a browser, nor read by a name of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.api.listener.listener import ListenerOptions
from coordinator.api.listener.provenance import AllowedHosts
from coordinator.api.server import StandbyServer
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.settings import SettingsError, load_settings
from tests.builders.objects import node
from tests.end_to_end.one_process.harness import Running, free_port, running
from tests.security.raw import ask, empty

NODES = "/api/v1/nodes"
JSON = "Content-Type: application/json"


@pytest.fixture
async def service(embedded_server: EmbeddedServer, short_dir: Path) -> AsyncIterator[Running]:
    names = "quadrant.example.com, .cluster.example"
    async with running(empty(embedded_server), short_dir, allowed_hosts=names) as one:
        yield one


def _host(service: Running) -> str:
    return "Host: " + service.url.removeprefix("http://")


async def _post(service: Running, name: str, *lines: str) -> tuple[int, str]:
    body = json.dumps(node(name)).encode()
    return await ask(service.url, f"POST {NODES} HTTP/1.1", _host(service), *lines, body=body)


async def _is_there(service: Running, name: str) -> bool:
    status, _ = await ask(service.url, f"GET {NODES}/{name} HTTP/1.1", _host(service))
    return status == 200


async def test_requests_of_other_sites_pages_write_nothing(service: Running) -> None:
    for lines, status, message in (
        (["Sec-Fetch-Site: cross-site"], 403, "Sec-Fetch-Site"),
        (["Sec-Fetch-Site: cross-site", JSON], 403, "Sec-Fetch-Site"),
        (["Sec-Fetch-Site: same-site", JSON], 403, "Sec-Fetch-Site"),
        (["Origin: http://evil.example", JSON], 403, "Origin"),
        (["Origin: null", JSON], 403, "Origin"),
        ([], 415, "Content-Type is missing"),
        (["Content-Type: text/plain"], 415, "send application/json"),
        (["Content-Type: application/octet-stream"], 415, "send application/json"),
    ):
        code, body = await _post(service, "planted", *lines)
        report = json.loads(body)
        assert (code, report["kind"], report["code"]) == (status, "Status", status), lines
        assert message in report["message"], lines
        assert not await _is_there(service, "planted"), lines


async def test_programs_and_our_own_pages_write(service: Running) -> None:
    own = service.url
    for name, lines in (
        ("program", []),
        ("page", ["Sec-Fetch-Site: same-origin", f"Origin: {own}"]),
        ("old-browser", [f"Origin: {own}"]),
        ("typed", ["Sec-Fetch-Site: none"]),
    ):
        code, body = await _post(service, name, JSON, *lines)
        assert code == 201, body
        assert await _is_there(service, name)
    # what has no body needs no type
    code, body = await ask(service.url, f"DELETE {NODES}/typed HTTP/1.1", _host(service))
    assert code == 200, body


async def test_a_name_that_is_not_ours_gets_no_answer_but_no(service: Running) -> None:
    for path in (NODES, "/metrics", "/livez", "/stream", "/nothing"):
        code, body = await ask(service.url, f"GET {path} HTTP/1.1", "Host: evil.example:8080")
        assert code == 403, (path, body)
        assert "evil.example" in body and "QUADRANT_ALLOWED_HOSTS" in body, path


async def test_the_name_in_the_request_line_counts_too(service: Running) -> None:
    line = f"GET http://evil.example{NODES} HTTP/1.1"
    assert (await ask(service.url, line, _host(service)))[0] == 403


async def test_addresses_and_our_names_are_served(service: Running) -> None:
    for host in (
        "127.0.0.1",
        "[::1]:80",
        "10.1.2.3:9",
        "LOCALHOST:1",
        "localhost.",
        "a.localhost",
        "quadrant.example.com:80",
        "cluster.example",
        "q.ns.cluster.example:1",
    ):
        assert (await ask(service.url, f"GET {NODES} HTTP/1.1", f"Host: {host}"))[0] == 200, host


async def test_exactly_one_host_is_named(service: Running) -> None:
    for lines, status in ((["Host: localhost"] * 2, 400), (["Host: "], 403), ([], 400)):
        assert (await ask(service.url, f"GET {NODES} HTTP/1.1", *lines))[0] == status, lines


async def test_a_probe_of_http_1_0_names_none(service: Running) -> None:
    assert (await ask(service.url, "GET /livez HTTP/1.0"))[0] == 200


@pytest.mark.parametrize(
    "authority", ["127.1", "0x7f000001", "evil-localhost", "localhost.evil", "[::1", "a b", "", "é"]
)
def test_a_similar_host_name_is_not_allowed(authority: str) -> None:
    assert not AllowedHosts(("quadrant.example.com",)).include(authority)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("allowed_hosts", "http://quadrant:80", "write names without scheme and port"),
        ("allowed_hosts", "*", "no host name"),
        ("proxies", "10.0.0.0/8,proxy.example", "'proxy.example' is neither"),
    ],
)
def test_settings_that_are_no_names_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"QUADRANT_{name.upper()}") as caught:
        load_settings(**{name: value})
    assert message in str(caught.value)


async def test_a_standby_answers_under_the_same_names_alone() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    door = StandbyServer(
        lambda: "another", ListenerOptions(AllowedHosts(("quadrant.example.com",)))
    )
    async with asyncio.TaskGroup() as group, door.open("127.0.0.1", port, group):
        for host, status in (("evil.example", 403), ("quadrant.example.com", 200)):
            assert (await ask(url, "GET /livez HTTP/1.1", f"Host: {host}"))[0] == status
        code, body = await ask(url, f"GET {NODES} HTTP/1.1", "Host: evil.example")
        assert (code, json.loads(body)["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(("authenticated", "status"), [(True, 503), (False, 403)])
async def test_a_proxy_names_itself_where_a_token_is_asked_for(
    authenticated: bool, status: int
) -> None:
    """The API server's proxy leaves in Host what its client wrote. Without tokens to ask for, the
    header is one that every page may send after it had its own name point here."""
    port = free_port()
    options = ListenerOptions(AllowedHosts(()), authenticated=authenticated)
    door = StandbyServer(lambda: "another", options)
    token = "X-Quadrant-Authorization: Bearer x"
    async with asyncio.TaskGroup() as group, door.open("127.0.0.1", port, group):
        request = f"GET {NODES} HTTP/1.1", "Host: api.example.com:6443"
        assert (await ask(f"http://127.0.0.1:{port}", *request, token))[0] == status
        assert (await ask(f"http://127.0.0.1:{port}", *request))[0] == 403
