"""A client that knows several coordinators finds the one that leads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from coordinator.cli.client.client import KubeClient, KubeError
from coordinator.cli.client.kubeconfig import find_access
from tests.end_to_end.one_process.harness import free_port


class Coordinator(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        leads = self.server.leads  # type: ignore[attr-defined]
        self.server.asked += 1  # type: ignore[attr-defined]
        body = b'{"who": "%d"}\n' % self.server.server_port  # type: ignore[attr-defined]
        self.send_response(200 if leads else 503)
        if not leads:
            self.send_header("Retry-After", "0.05")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@pytest.fixture
def two() -> Iterator[list[ThreadingHTTPServer]]:
    servers = []
    for _ in range(2):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Coordinator)
        server.leads, server.asked = False, 0  # type: ignore[attr-defined]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def client(*ports: int, patience: float = 60.0) -> KubeClient:
    named = ", ".join(f"127.0.0.1:{port}" for port in ports)
    access = find_access(environ={"QUADRANT_SERVER": named})
    return KubeClient(access, timeout=30.0, patience=patience)


def test_the_one_that_leads_is_asked_wherever_it_stands(two: list[ThreadingHTTPServer]) -> None:
    first, second = two
    several = client(free_port(), first.server_port, second.server_port)
    for leader, other in ((second, first), (first, second), (second, first)):
        leader.leads, other.leads = True, False  # type: ignore[attr-defined]
        who = str(leader.server_port)
        assert several.get("/who")["who"] == who
        assert several.ask("POST", "/who", body=b"{}")[1]["who"] == who
        assert next(several.watch("/who", {}))["who"] == who
    several.close()


class WaitingClock:
    """Time that passes by waiting alone, however long the machine takes for an attempt."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_where_none_leads_it_waits_and_then_says_so(
    two: list[ThreadingHTTPServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.cli.client.client.time", WaitingClock())
    several = client(*(server.server_port for server in two), patience=0.2)
    with pytest.raises(KubeError) as caught:
        several.get("/who")
    assert caught.value.code == 503
    assert all(server.asked > 1 for server in two)  # type: ignore[attr-defined]
    several.close()


def test_where_nobody_listens_it_says_so_at_once() -> None:
    with pytest.raises(KubeError, match="cannot reach"):
        client(free_port(), free_port()).get("/who")
