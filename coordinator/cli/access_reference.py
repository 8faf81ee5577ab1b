"""The page of the reference on what a request takes: a token's role, or a right of RBAC."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.api.auth.access import PathAccess, ResourceAccess, access_of
from coordinator.api.auth.roles import FRAMES, QUEUE_PAIRS, QUEUE_TREE, RECORD, SHADOW, needed

_OURS = "/apis/quadrant.dev/v1alpha1"
_PODS = "/api/v1/namespaces/{namespace}/pods"
_DEBUG = f"{_OURS}/debug/{{role}}"
REQUESTS = (
    ("GET", "/api/v1/pods"),
    ("GET", _PODS),
    ("GET", f"{_PODS}?watch=1"),
    ("GET", f"{_PODS}/{{name}}"),
    ("GET", f"{_PODS}/{{name}}/explain"),
    ("POST", f"{_PODS}/{{name}}/explain"),
    ("GET", f"{_PODS}/{{name}}/trace"),
    ("POST", f"{_OURS}/plans"),
    ("GET", f"{_OURS}/status"),
    ("GET", QUEUE_TREE),
    ("GET", QUEUE_PAIRS),
    ("GET", SHADOW),
    ("GET", RECORD),
    ("GET", f"{_DEBUG}/dump"),
    ("GET", f"{_DEBUG}/profile"),
    ("PUT", f"{_DEBUG}/loglevel"),
    ("GET", FRAMES),
    ("GET", "/ui/"),
    ("GET", "/stream"),
    ("GET", "/metrics"),
    ("GET", "/version"),
    ("GET", "/api"),
    ("GET", "/apis"),
    ("GET", "/openapi/v2"),
    ("GET", "/openapi/v3"),
    ("GET", "/readyz"),
)
"""Pods stand for every kind. Requests that write objects are not among them: where the API server
judges, objects are written there."""

_INTRODUCTION = """\
What a request takes: of a token of the file its role, of a token of the cluster a right by the
cluster's RBAC ([Security](../security.md#who-asks)). A path below `/api` or `/apis` is what an API
server would take it for, every other one is a `nonResourceURL`; pods stand for every kind. Whoever
has `/stream` sees the objects of all namespaces there."""


def access_page(made: str) -> str:
    lines = ["# What a request takes", "", made, "", _INTRODUCTION, ""]
    lines += ["| request | role | verb | API group | resource or path |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in _rows()]
    return "\n".join(lines) + "\n"


def _rows() -> Iterator[tuple[str, ...]]:
    for method, address in REQUESTS:
        route, _, query = address.partition("?")
        role = needed(method, route)
        words = (f"`{method} {address}`", "none" if role is None else role.word)
        match access_of(method, route, {}, watch=bool(query)):
            case None:
                yield (*words, "none", "", "")
            case PathAccess(verb, path):
                yield (*words, verb, "", f"`{path}`")
            case ResourceAccess() as access:
                yield (*words, access.verb, f'`"{access.group}"`', f"`{access.full_resource}`")
