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
    answers = _answers(f"{kind.kind}List", (200,))
    return _operation(kind, "list", f"list{kind.kind}{suffix}", answers) | {
        "description": f"List or watch objects of kind {kind.written}.",
        "parameters": _LISTING,
    }


def _get(kind: Kind) -> Json:
    return _operation(kind, "get", f"read{kind.kind}", _answers(kind.kind, (200,))) | {
        "description": f"One object of kind {kind.written}.",
        "parameters": [_PRETTY],
    }


def _write(kind: Kind, action: str, name: str) -> Json:
    body: Json = {"schema": {"$ref": _REF + kind.kind}}
    return _operation(kind, action, f"{name}{kind.kind}", _answers(kind.kind, (200, 201))) | {
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
    answers = _answers(kind.kind, (200, 201))
    return _operation(kind, "patch", f"patch{kind.kind}", answers) | {
        "description": f"Change a part of an object of kind {kind.written}.",
        "parameters": [*_WRITING, _FORCE],
        "requestBody": {"required": True, "content": {name: {"schema": {}} for name in kinds}},
    }


def _delete(kind: Kind) -> Json:
    body = {"application/json": {"schema": {"$ref": f"{_REF}DeleteOptions"}}}
    answers = _answers("Status", (200,))
    answers["200"]["content"]["application/json"]["schema"] = {
        "oneOf": [{"$ref": f"{_REF}Status"}, {"$ref": _REF + kind.kind}]
    }
    return _operation(kind, "delete", f"delete{kind.kind}", answers) | {
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


def _answers(schema: str, codes: tuple[int, ...]) -> Json:
    content = {"application/json": {"schema": {"$ref": _REF + schema}}}
    failure = {"application/json": {"schema": {"$ref": f"{_REF}Status"}}}
    answers: Json = {str(code): {"description": "Done.", "content": content} for code in codes}
    answers["default"] = {"description": "Not done; the Status says why.", "content": failure}
    return answers


def _query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str, description: str) -> Json:
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
NAME = _path("name", "Name of the object.")
NAMESPACE_PARAMETER = _path("namespace", "Namespace of the object.")
_PRETTY = _query("pretty", _TEXT, "Not looked at.")
_DRY_RUN = _query(
    "dryRun", {"type": "string", "enum": ["All"]}, "All: say what would come of it, do nothing."
)
_FORCE = _query("force", _FLAG, "Take over fields that another manager set (server-side apply).")
_WRITING = [
    _DRY_RUN,
    _query("fieldManager", _TEXT, "Who sets these fields."),
    _query(
        "fieldValidation",
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "What to do about unknown fields; they are refused in any case.",
    ),
    _PRETTY,
]
_LISTING = [
    _query("labelSelector", _TEXT, "Only objects with these labels, as app=web,tier!=test."),
    _query("fieldSelector", _TEXT, "Only objects with these fields, as status.phase=Running."),
    _query("limit", _COUNT, "At most so many; the answer says where the next page begins."),
    _query("continue", _TEXT, "The next page, from the answer before."),
    _query("resourceVersion", _TEXT, "The version to list, or to watch from."),
    _query(
        "resourceVersionMatch",
        {"type": "string", "enum": ["Exact", "NotOlderThan"]},
        "How the version is meant.",
    ),
    _query("watch", _FLAG, "Go on with what changes, one line of JSON for each."),
    _query("allowWatchBookmarks", _FLAG, "Say now and then which version a watch has reached."),
    _query("sendInitialEvents", _FLAG, "Begin a watch with what is there."),
    _query("timeoutSeconds", _COUNT, "How long a watch goes on."),
    _PRETTY,
]
