"""Connections that ask for nothing: they end, and keep nobody out who does ask."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from coordinator.api.listener import connections, listener
from coordinator.api.listener.connections import Connections, TooManyConnections, WaitingFor
from coordinator.api.listener.listener import Listener, ListenerOptions, Proxies, most_connections
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.addresses import parse_networks
from tests.end_to_end.one_process.harness import free_port, running
from tests.security.raw import Wire, ask, empty, wire

LISTS = "/apis/quadrant.dev/v1alpha1/lists"
ALIVE = ("GET /livez HTTP/1.1", "Host: localhost")


# --- a running service ------------------------------------------------------------------------


async def test_half_sent_requests_end_and_say_why(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_halves(seconds: float) -> None:
        for state in connections.DEADLINES:
            monkeypatch.setitem(connections.DEADLINES, state, seconds)

    wait_for_halves(600.0)  # until everybody has sent what he sends
    monkeypatch.setattr(listener, "SWEEP_SECONDS", 0.05)
    async with running(empty(embedded_server), short_dir) as service, AsyncExitStack() as stack:
        silent, head, second, body = [
            await stack.enter_async_context(wire(service.url)) for _ in range(4)
        ]
        head.writer.write(b"GET /livez HTTP/1.1\r\nHost: loc")
        await second.send(*ALIVE)
        assert (await second.answer())[0] == 200
        second.writer.write(b"GET")  # of the second request over the same connection
        explain = "/api/v1/namespaces/a/pods/x/explain"
        lines = ("Host: localhost", "Content-Type: application/json", "Content-Length: 9")
        await body.send(f"POST {LISTS} HTTP/1.1", *lines, body=b"{")
        assert (await ask(service.url, *ALIVE))[0] == 200  # so that what they sent was read
        wait_for_halves(0.2)
        assert await silent.ended() == b""
        for one in (head, second):
            status, output = await one.answer()
            assert (status, json.loads(output)["reason"]) == (408, "Timeout")
            assert await one.ended() == b""
        assert await body.ended() == b""
        wait_for_halves(600.0)
        # the head of one request is not the body of another: what is answered is left alone
        async with wire(service.url) as one:
            await one.send(f"POST {explain} HTTP/1.1", "Host: localhost")
            assert (await one.answer())[0] == 404


@pytest.mark.parametrize("owed", list(WaitingFor), ids=lambda state: state.name)
async def test_connections_beyond_the_bound_keep_nobody_out(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    owed: WaitingFor,
) -> None:
    monkeypatch.setattr(listener, "most_connections", lambda _: 20)
    async with running(empty(embedded_server), short_dir) as service, AsyncExitStack() as stack:
        wires = []
        for _ in range(60):
            one = await stack.enter_async_context(wire(service.url))
            await _owe(one, owed)
            wires.append(one)
        assert (await ask(service.url, *ALIVE))[0] == 200
        await asyncio.gather(*(one.ended() for one in wires[:40]))
        # the newest are still there
        assert not wires[-1].reader.at_eof()


async def _owe(one: Wire, owed: WaitingFor) -> None:
    match owed:
        case WaitingFor.BYTE:
            pass
        case WaitingFor.HEAD:
            one.writer.write(b"GET /livez HTTP/1.1\r\n")
        case WaitingFor.BODY:
            lines = ("Host: localhost", "Content-Type: application/json", "Content-Length: 9")
            await one.send(f"POST {LISTS} HTTP/1.1", *lines, body=b"{")
        case WaitingFor.REQUEST:
            await one.send(*ALIVE)
            assert (await one.answer())[0] == 200
    await one.writer.drain()


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_failure(
    embedded_server: EmbeddedServer, short_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(empty(embedded_server), short_dir) as service:
        for _ in range(3):
            async with wire(service.url) as one:
                await _owe(one, WaitingFor.BODY)
                assert (await ask(service.url, *ALIVE))[0] == 200  # so that the head was read
        assert (await ask(service.url, *ALIVE))[0] == 200
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert "A request failed" not in out + err


# --- a listener alone -------------------------------------------------------------------------


@asynccontextmanager
async def listening(app: web.Application, proxies: Proxies | None = None) -> AsyncIterator[str]:
    port = free_port()
    options = ListenerOptions(proxies=proxies or Proxies())
    listener = Listener(app, options, shutdown_seconds=0.1)
    async with asyncio.TaskGroup() as group, listener.open("127.0.0.1", port, group):
        yield f"http://127.0.0.1:{port}"


def _app() -> web.Application:
    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(64 << 20))

    app = web.Application()
    app.router.add_get("/livez", alive)
    app.router.add_get("/large", large)
    return app


async def test_one_address_does_not_take_the_places_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "most_connections", lambda _: 400)
    # the quiet client is silent while all others connect
    monkeypatch.setitem(connections.DEADLINES, connections.WaitingFor.BYTE, 120.0)
    proxies = Proxies()
    # every address of 127/8 is ours, so that a test can be several clients
    monkeypatch.setattr(proxies, "include", lambda address: address == "127.0.0.1")
    async with listening(_app(), proxies) as url, AsyncExitStack() as stack:
        quiet = await stack.enter_async_context(wire(url, source="127.0.0.3"))
        hostile = [
            await stack.enter_async_context(wire(url, source="127.0.0.2"))
            for _ in range(connections.MOST_OF_ADDRESS + 20)
        ]
        await asyncio.gather(*(one.ended() for one in hostile[:20]))
        await quiet.send(*ALIVE)
        assert (await quiet.answer())[0] == 200
        # and it is not locked out itself
        await hostile[-1].send(*ALIVE)
        assert (await hostile[-1].answer())[0] == 200


async def test_a_client_that_takes_nothing_of_its_answer_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "STALLED_SECONDS", 0.1)
    async with listening(_app()) as url, wire(url) as one:
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await one.send("GET /large HTTP/1.1", "Host: localhost")
        # it is cut while it reads nothing: what the kernel took is all that comes
        async with asyncio.timeout(60.0):
            while _connected(url):  # noqa: ASYNC110  (another process' table: nobody tells)
                await asyncio.sleep(0.02)
        one.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await one.ended()) < 64 << 20


def _connected(url: str) -> bool:
    """Whether the server has an open connection: in /proc/net/tcp, state 1, by its port."""
    port = f"{int(url.rpartition(':')[2]):04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(re.match(rf"\s*\d+: \w+:{port} \w+:\w+ 01 ", line) for line in lines)


_SCRIPT = """
import asyncio, resource, sys
from coordinator.api.listener import listener
from tests.security.test_connections import _app

listener.FILES_OF_THE_SERVICE = 0  # so that descriptors end before the bound is reached
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
async def main():
    made = listener.Listener(_app(), listener.ListenerOptions(), shutdown_seconds=0.1)
    async with asyncio.TaskGroup() as group, made.open("127.0.0.1", int(sys.argv[1]), group):
        print("ready", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_without_descriptors_it_goes_on_accepting() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SCRIPT, str(port), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert b"ready" in await process.stdout.readline()
        async with AsyncExitStack() as stack:
            for _ in range(150):
                await stack.enter_async_context(wire(url))
            assert (await ask(url, *ALIVE))[0] == 200
    finally:
        process.terminate()
        await process.wait()


# --- the bookkeeping --------------------------------------------------------------------------


def _four_states(now: float) -> Connections[str]:
    book = Connections[str](most=4)
    for name in ("asked", "body", "head", "silent"):
        book.opened(name, "192.0.2.1", now)
    for name in ("asked", "body", "head"):
        book.received(name, now)
    book.request_received("asked")
    book.answered("asked", now)
    book.head_received("body", now)
    return book


def test_silent_connections_are_closed_before_those_with_a_request() -> None:
    book = _four_states(0.0)
    gone = []
    while (name := book.longest_waiting(5.0)) is not None:
        assert book.make_room("192.0.2.9", 5.0) == name
        book.closed(name)
        book.opened("new" + name, "192.0.2.9", 5.0)
        book.request_received("new" + name)
        gone.append(name)
    assert gone == ["silent", "head", "body", "asked"]
    with pytest.raises(TooManyConnections):
        book.make_room("192.0.2.9", 5.0)


@pytest.mark.parametrize("most_of_address", [4, 100])
def test_a_new_connection_has_time_to_ask(most_of_address: int) -> None:
    """Where others hold all places with half a body, the newest is not the one to go."""
    book = Connections[int](most=4, most_of_address=most_of_address)
    for i in range(4):
        book.opened(i, "192.0.2.1", 0.0)
        book.head_received(i, 0.1 * i)
    for i in range(4, 8):
        assert book.make_room("192.0.2.1", 0.5) == i - 4
        book.closed(i - 4)
        book.opened(i, "192.0.2.1", 0.5)


def test_a_body_that_comes_after_the_answer_changes_nothing() -> None:
    book = Connections[str](most=1)
    book.opened("one", "192.0.2.1", 0.0)
    book.head_received("one", 0.0)
    book.answered("one", 1.0)
    book.body_received("one")
    assert book.longest_waiting(2.0) == "one"
    book.closed("one")
    book.answered("one", 2.0)  # the handler ended after the connection
    assert (len(book), book.longest_waiting(2.0)) == (0, None)


@pytest.mark.parametrize(
    ("mine", "same"),
    [
        (("192.0.2.1", "192.0.2.1"), True),
        (("192.0.2.1", "192.0.2.2"), False),
        (("192.0.2.1", "::ffff:192.0.2.1"), True),
        (("2001:db8::1", "2001:db8::ffff:2"), True),
        (("2001:db8::1", "2001:db8:0:1::1"), False),
        (("fe80::1%eth0", "fe80::2%eth0"), True),
        (("127.0.0.1", "127.0.0.1"), False),
        (("::1", "::1"), False),
        (("::ffff:127.0.0.1", "127.0.0.1"), False),
        (("10.1.2.3", "10.1.2.3"), False),
        (("", ""), False),
    ],
)
def test_which_addresses_are_one_client(mine: tuple[str, str], same: bool) -> None:
    proxies = Proxies(parse_networks("10.1.0.0/16"))
    book = Connections[int](most=9, most_of_address=1, uncounted=proxies.include)
    book.opened(1, mine[0], 0.0)
    assert book.make_room(mine[1], 0.0) == (1 if same else None)


@pytest.mark.parametrize(
    ("limit", "most"), [(64, 32), (256, 48), (1024, 816), (1 << 20, 4096), (-1, 4096)]
)
def test_the_bound_leaves_descriptors_to_the_service(
    limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert most_connections(8) == most
