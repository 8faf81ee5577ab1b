"""Discovery of groups, versions and kinds. kubectl reads it first."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.http.responses import json_answer
from coordinator.intake.documents.kinds import JOB, KAI_POD_GROUP, KINDS, POD, POD_GROUP, Kind

MAJOR, MINOR = "1", "32"
"""The Kubernetes version whose API is served; clients compare it with their own."""
_ALL = (POD, POD_GROUP, KAI_POD_GROUP, JOB)
"""Kinds in the category ``all`` of ``kubectl get all``."""


def discovery_routes(
    virtual: Iterable[tuple[str, dict[str, Any]]] = (), kinds: tuple[Kind, ...] = KINDS
) -> list[web.RouteDef]:
    """``virtual``: (group version such as ``quadrant.dev/v1alpha1``, entry) for each resource that
    is a verb."""
    resources: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        resources.setdefault(kind.api_version, []).append(resource(kind))
    for group_version, entry in virtual:
        resources.setdefault(group_version, []).append(entry)
    groups: dict[str, list[str]] = {}
    for group_version in resources:
        name, _, v = group_version.rpartition("/")
        if name:
            groups.setdefault(name, []).append(v)
    listed = [_group(name, versions) for name, versions in groups.items()]
    routes = [
        web.get("/api", _says({"kind": "APIVersions", "versions": ["v1"], **_ADDRESSES})),
        web.get("/apis", _says({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})),
        web.get("/version", _says(_version())),
    ]
    for group in listed:
        document = {"kind": "APIGroup", "apiVersion": "v1", **group}
        routes.append(web.get(f"/apis/{group['name']}", _says(document)))
    for group_version, entries in resources.items():
        root = "apis" if "/" in group_version else "api"
        body = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": entries,
        }
        routes.append(web.get(f"/{root}/{group_version}", _says(body)))
    return routes


_ADDRESSES = {"serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]}


def resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.written,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind in _ALL:
        entry["categories"] = ["all"]
    return entry


def _group(group: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _version() -> dict[str, str]:
    try:
        ours = version("quadrant")
    except PackageNotFoundError:
        ours = "0"
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": f"v{MAJOR}.{MINOR}.0+quadrant.{ours}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{sys.platform}/{platform.machine()}",
    }


def _says(body: dict[str, Any]) -> Handler:
    """A handler with a constant answer."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return json_answer(body)

    return handler
