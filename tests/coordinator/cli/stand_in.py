"""A server of canned answers, in the shapes that Kubernetes' API has: for formats and failures that
a real service does not show on demand. What the service itself answers is tested in test_service.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, Any]
ALL = ["create", "delete", "get", "list", "patch", "watch"]


def resources(group_version: str, *entries: tuple[str, str, bool, list[str]]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": [
            {
                "name": plural,
                "singularName": kind.lower(),
                "kind": kind,
                "namespaced": namespaced,
                "shortNames": short,
                "verbs": ALL,
            }
            for plural, kind, namespaced, short in entries
        ],
    }


def group(name: str, version: str) -> dict[str, Any]:
    printed = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [printed], "preferredVersion": printed}


QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
DISCOVERY: dict[tuple[str, str], Answer] = {
    ("GET", "/apis"): (
        200,
        {
            "kind": "APIGroupList",
            "groups": [
                group("scheduling.volcano.sh", "v1beta1"),
                group("quadrant.dev", "v1alpha1"),
            ],
        },
    ),
    ("GET", "/api/v1"): (
        200,
        resources(
            "v1",
            ("pods", "Pod", True, ["po"]),
            ("nodes", "Node", False, ["no"]),
            ("events", "Event", True, ["ev"]),
            ("namespaces", "Namespace", False, ["ns"]),
        ),
    ),
    ("GET", "/apis/scheduling.volcano.sh/v1beta1"): (
        200,
        resources(
            "scheduling.volcano.sh/v1beta1",
            ("podgroups", "PodGroup", True, ["pg"]),
            ("queues", "Queue", False, ["q"]),
        ),
    ),
    ("GET", "/apis/quadrant.dev/v1alpha1"): (
        200,
        resources("quadrant.dev/v1alpha1", ("shards", "Shard", False, [])),
    ),
}


def status(code: int, reason: str, message: str, *causes: tuple[str, str]) -> Answer:
    """A Kubernetes Status."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    if causes:
        printed = [{"field": f, "message": m, "reason": "FieldValueInvalid"} for f, m in causes]
        body["details"] = {"causes": printed}
    return code, body


def pod(name: str, phase: str = "Running", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "7"}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase},
        **more,
    }


COLUMNS = [
    {"name": "Name", "type": "string", "priority": 0},
    {"name": "Status", "type": "string", "priority": 0},
    {"name": "Node", "type": "string", "priority": 1},
]


def table(*pods: dict[str, Any], columns: bool = True) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "columnDefinitions": COLUMNS if columns else [],
        "rows": [
            {
                "cells": [p["metadata"]["name"], p["status"]["phase"], p["spec"]["nodeName"]],
                "object": {"kind": "PartialObjectMetadata", "metadata": p["metadata"]},
            }
            for p in pods
        ],
    }


def listed(kind: str, *items: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    return {
        "kind": f"{kind}List",
        "apiVersion": version,
        "metadata": {"resourceVersion": "7"},
        "items": list(items),
    }


@dataclass
class SentRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class StandIn:
    """``answers``: by method and path, one answer, or several that are given in turn. The path of a
    table is followed by `` table``, that of a watch (a list of events) by `` watch``.
    """

    answers: dict[tuple[str, str], Answer | list[Answer]]
    asked: list[SentRequest] = field(default_factory=list)
    url: str = ""
    slow: float = 0.0
    at_once: int = 0
    most_at_once: int = 0
    holds_watches: bool = False
    """No watch is answered before :attr:`released` is set."""
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: SentRequest) -> Answer:
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.slow)
        if self.holds_watches and request.query.get("watch"):
            self.released.wait()
        self.at_once -= 1
        path = request.path
        if request.query.get("watch"):
            path += " watch"
        elif "as=Table" in request.headers.get("Accept", ""):
            path += " table"
        known = self.answers.get((request.method, path)) or self.answers.get(
            (request.method, request.path)
        )
        known = known or DISCOVERY.get((request.method, request.path))
        if isinstance(known, list):
            return known.pop(0) if len(known) > 1 else known[0]
        return known or status(404, "NotFound", f'"{request.path}" not found')

    def requests(self, method: str) -> list[SentRequest]:
        return [request for request in self.asked if request.method == method]


@contextlib.contextmanager
def serving(answers: dict[tuple[str, str], Any]) -> Iterator[StandIn]:
    stand_in = StandIn(answers)

    class StandInHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            request = SentRequest(
                self.command,
                url.path,
                dict(parse_qsl(url.query)),
                dict(self.headers.items()),
                self.rfile.read(length),
            )
            code, value = stand_in.answer(request)
            if isinstance(value, list):
                data = b"".join(json.dumps(event).encode() + b"\n" for event in value)
            elif isinstance(value, str):
                data = value.encode()
            else:
                data = json.dumps(value).encode()
            self.send_response(code)
            if code in (429, 503):
                self.send_header("Retry-After", "0.01")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _do

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that left early is no failure of the test."""

    server = Server(("127.0.0.1", 0), StandInHandler)
    server.daemon_threads = True
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join(5.0)
        server.server_close()
