"""OpenAPI documents, one per group and version.

kubectl reads them before it applies (does PATCH accept ``fieldValidation``?) and for ``explain``.
Version 3 is served as in Kubernetes, as an index and documents. For a List kubectl requests only
version 2. That document describes nothing, so that kubectl validates nothing itself and each object
is validated here.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.discovery.operations import operations
from coordinator.api.discovery.own_operations import own_operations
from coordinator.intake.documents.kinds import KINDS, Kind
from shared.byte_cache import MIB, byte_cache
from shared.schemas.catalogue import SCHEMAS
from shared.schemas.notation import Schema

Json = dict[str, Any]
_REF = "#/components/schemas/"
_COMMON = ("DeleteOptions", "ListMeta", "ObjectMeta", "Status")
_NOTHING = {"swagger": "2.0", "info": {"title": "Quadrant", "version": "v1"}, "paths": {}}
_NOTHING_PACKED = b"\x0a\x032.0\x12\x0e\x0a\x08Quadrant\x12\x02v1\x42\x00"
"""The same as a protocol buffer, the only form of version 2 that kubectl accepts."""
_PACKED_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
HASH = 16
"""Characters of the hash in a URL; the content behind a URL never changes."""


def openapi_routes(kinds: tuple[Kind, ...] = KINDS) -> list[web.RouteDef]:
    by_version: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_version.setdefault(kind.api_version, []).append(kind)
    index: Json = {"paths": {}}
    routes = []
    for api_version, members in by_version.items():
        path = f"{'apis' if '/' in api_version else 'api'}/{api_version}"
        body = orjson.dumps(document(api_version, tuple(members)))
        digest = hashlib.sha256(body).hexdigest()[:HASH]
        address = f"/openapi/v3/{path}"
        index["paths"][path] = {"serverRelativeURL": f"{address}?hash={digest}"}
        routes.append(web.get(address, _gives(body)))
    everything = web.get("/openapi/v3", _gives(orjson.dumps(index)))
    return [everything, web.get("/openapi/v2", _version_2), *routes]


async def _version_2(request: web.Request) -> web.StreamResponse:
    if "protobuf" in request.headers.get("Accept", ""):
        return web.Response(body=_NOTHING_PACKED, content_type=_PACKED_TYPE)
    return web.Response(body=orjson.dumps(_NOTHING), content_type="application/json")


def _gives(body: bytes) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return handler


@byte_cache("openapi-documents", 8 * MIB)
def document(api_version: str, kinds: tuple[Kind, ...]) -> Json:
    """The document of one group and version, with all its kinds."""
    paths: Json = {}
    schemas: dict[str, Schema] = {}
    for kind in kinds:
        paths |= operations(kind)
        schemas[kind.kind] = _of_kind(kind)
        schemas[f"{kind.kind}List"] = _list_of(kind)
    paths |= own_operations(api_version)
    for name in _reached([*_COMMON, *(kind.kind for kind in kinds)]):
        schemas.setdefault(name, SCHEMAS[name])
    return {
        "openapi": "3.0.0",
        "info": {"title": "Quadrant", "version": api_version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _reached(names: list[str]) -> set[str]:
    """These schemas, and all that they refer to, directly or not."""
    reached: set[str] = set()
    while names:
        name = names.pop()
        if name not in reached:
            reached.add(name)
            names += _named(SCHEMAS[name])
    return reached


def _named(value: Any) -> list[str]:
    match value:
        case {"$ref": str(ref)}:
            return [ref.removeprefix(_REF)]
        case dict():
            return [name for part in value.values() for name in _named(part)]
        case list():
            return [name for part in value for name in _named(part)]
        case _:
            return []


def _of_kind(kind: Kind) -> Schema:
    return SCHEMAS[kind.kind] | {"x-kubernetes-group-version-kind": [gvk(kind)]}


def _list_of(kind: Kind) -> Schema:
    return {
        "description": f"Objects of kind {kind.written}.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {kind.api_version}."},
            "kind": {"type": "string", "description": f"Always {kind.written}List."},
            "metadata": {
                "allOf": [{"$ref": f"{_REF}ListMeta"}],
                "description": "Version of the list, and where its next page begins.",
            },
            "items": {
                "type": "array",
                "items": {"$ref": _REF + kind.kind},
                "description": "The objects.",
            },
        },
        "x-kubernetes-group-version-kind": [gvk(kind, "List")],
    }


def gvk(kind: Kind, suffix: str = "") -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.written + suffix}
