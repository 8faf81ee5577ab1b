"""The operations on one kind, in OpenAPI's form."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.kinds import KAI_QUEUE, KAI_TOPOLOGY, KINDS, SHARD, Kind

Json = dict[str, Any]
_REF = "#/components/schemas/"
_CUSTOM = (".volcano.sh", KAI_QUEUE.group, KAI_TOPOLOGY.group, SHARD.group)
_STRATEGIC = {k.kind for k in KINDS if not k.group.endswith(_CUSTOM)}
"""Kubernetes' own kinds, whose lists merge by key. Volcano's kinds take merge patches."""


def operations(kind: Kind) -> Json:
    """Path -> operations on it."""
    root = f"/{'apis' if kind.group else 'api'}/{kind.api_version}"
    paths: Json = {}
    everywhere = f"{root}/{kind.plural}"
    at = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else everywhere
    if kind.namespaced:
        paths[everywhere] = {"get": _list(kind, "ForAllNamespaces")}
    where = [NAMESPACE_PARAMETER] if kind.namespaced else []
    collection: Json = {"parameters": where, "get": _list(kind)}
    single: Json = {"parameters": [*where, NAME], "get": _get(kind)}
    if "create" in kind.verbs:
        collection["post"] = _write(kind, "post", "create")
        single["put"] = _write(kind, "put", "replace")
        single["patch"] = _patch(kind)
        single["delete"] = _delete(kind)
    paths[at] = collection
    paths[f"{at}/{{name}}"] = single
    return paths


def _list(kind: Kind, suffix: str = "") -> Json:
    listed = answers(_named(f"{kind.kind}List"))
    return _operation(kind, "list", f"list{kind.kind}{suffix}", listed) | {
        "description": f"List or watch objects of kind {kind.written}.",
        "parameters": _LISTING,
    }


def _get(kind: Kind) -> Json:
    return _operation(kind, "get", f"read{kind.kind}", answers(_named(kind.kind))) | {
        "description": f"One object of kind {kind.written}.",
        "parameters": [_PRETTY],
    }


def _write(kind: Kind, action: str, name: str) -> Json:
    body: Json = {"schema": _named(kind.kind)}
    written = answers(_named(kind.kind), 200, 201)
    return _operation(kind, action, f"{name}{kind.kind}", written) | {
        "description": f"{name.capitalize()} an object of kind {kind.written}.",
        "parameters": _WRITING,
        "requestBody": {
            "required": True,
            "content": {"application/json": body, "application/yaml": body},
        },
    }


def _patch(kind: Kind) -> Json:
    kinds = ["application/json-patch+json", "application/merge-patch+json"]
    if kind.kind in _STRATEGIC:
        kinds.append("application/strategic-merge-patch+json")
    kinds.append("application/apply-patch+yaml")
    patched = answers(_named(kind.kind), 200, 201)
    return _operation(kind, "patch", f"patch{kind.kind}", patched) | {
        "description": f"Change a part of an object of kind {kind.written}.",
        "parameters": [*_WRITING, _FORCE],
        "requestBody": {"required": True, "content": {name: {"schema": {}} for name in kinds}},
    }


def _delete(kind: Kind) -> Json:
    body = {"application/json": {"schema": _named("DeleteOptions")}}
    deleted = answers({"oneOf": [_named("Status"), _named(kind.kind)]})
    return _operation(kind, "delete", f"delete{kind.kind}", deleted) | {
        "description": f"Delete an object of kind {kind.written}.",
        "parameters": [_DRY_RUN, _PRETTY],
        "requestBody": {"content": body},
    }


def _operation(kind: Kind, action: str, name: str, answers: Json) -> Json:
    return {
        "operationId": name,
        "responses": answers,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.written,
        },
    }


def _named(schema: str) -> Json:
    return {"$ref": _REF + schema}


def answers(schema: Json, *codes: int) -> Json:
    """OpenAPI responses for these status codes; without codes for 200 alone."""
    content = {"application/json": {"schema": schema}}
    failure = {"application/json": {"schema": _named("Status")}}
    response: Json = {"description": "Done.", "content": content}
    not_done = {"description": "Not done; the Status says why.", "content": failure}
    return {str(code): response for code in codes or (200,)} | {"default": not_done}


def query(name: str, schema: Json, description: str, **more: bool) -> Json:
    return {"name": name, "in": "query", **more, "description": description, "schema": schema}


def path(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }


_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
NAME = path("name", "Name of the object.")
NAMESPACE_PARAMETER = path("namespace", "Namespace of the object.")
_PRETTY = query("pretty", _TEXT, "Not looked at.")
_DRY_RUN = query(
    "dryRun", {"type": "string", "enum": ["All"]}, "All: say what would come of it, do nothing."
)
_FORCE = query("force", _FLAG, "Take over fields that another manager set (server-side apply).")
_WRITING = [
    _DRY_RUN,
    query("fieldManager", _TEXT, "Who sets these fields."),
    query(
        "fieldValidation",
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "What to do about unknown fields; they are refused in any case.",
    ),
    _PRETTY,
]
_LISTING = [
    query("labelSelector", _TEXT, "Only objects with these labels, as app=web,tier!=test."),
    query("fieldSelector", _TEXT, "Only objects with these fields, as status.phase=Running."),
    query("limit", _COUNT, "At most so many; the answer says where the next page begins."),
    query("continue", _TEXT, "The next page, from the answer before."),
    query("resourceVersion", _TEXT, "The version to list, or to watch from."),
    query(
        "resourceVersionMatch",
        {"type": "string", "enum": ["Exact", "NotOlderThan"]},
        "How the version is meant.",
    ),
    query("watch", _FLAG, "Go on with what changes, one line of JSON for each."),
    query("allowWatchBookmarks", _FLAG, "Say now and then which version a watch has reached."),
    query("sendInitialEvents", _FLAG, "Begin a watch with what is there."),
    query("timeoutSeconds", _COUNT, "How long a watch goes on."),
    _PRETTY,
]
