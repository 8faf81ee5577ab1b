"""Operations other than reading and writing one kind, in OpenAPI's form: lists, status, the record
of a snapshot, plans, explain, trace."""

from __future__ import annotations

from typing import Any

from coordinator.api.discovery.operations import NAME, NAMESPACE_PARAMETER, answers, path, query
from coordinator.intake.documents.kinds import (
    JOB,
    POD,
    POD_GROUPS,
    SHARD,
)

Json = dict[str, Any]
_OBJECT: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: Json = {
    "type": "object",
    "required": ["apiVersion", "kind", "items"],
    "properties": {
        "apiVersion": {"type": "string", "enum": ["v1"]},
        "kind": {"type": "string", "enum": ["List"]},
        "metadata": _OBJECT,
        "items": {"type": "array", "items": _OBJECT, "description": "Objects of any kind."},
    },
}
_ADMISSION: Json = {
    "type": "object",
    "required": ["accepted", "unchanged", "refused", "notices"],
    "properties": {
        "accepted": {"type": "integer", "minimum": 0, "description": "Objects that were taken."},
        "unchanged": {"type": "integer", "minimum": 0, "description": "Those that were so before."},
        "refused": {"type": "array", "items": _OBJECT, "description": "Which not, and why."},
        "notices": {"type": "array", "items": _OBJECT, "description": "What is good to know."},
        "generatedNames": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names of the objects that came with generateName alone, in order.",
        },
    },
}
_ATOMIC = query("atomic", {"type": "boolean"}, "true: all objects are taken or none.")

_TRACE_BOUNDS: list[Json] = [
    query(name, {"type": "integer", "minimum": 1, "maximum": most}, text)
    for name, text, most in (
        ("turns", "How many turns are followed.", 50),
        ("timeoutSeconds", "How long at most.", 600),
    )
]


def own_operations(api_version: str) -> Json:
    """Path -> operations on it, for one group and version."""
    paths: Json = {}
    for kind in (POD, *POD_GROUPS, JOB):
        if kind.api_version == api_version:
            root = f"/{'apis' if kind.group else 'api'}/{api_version}"
            explain = f"{root}/namespaces/{{namespace}}/{kind.plural}/{{name}}/explain"
            text = f"Why this {kind.written} waits, or where it is."
            paths[explain] = {
                "parameters": [NAMESPACE_PARAMETER, NAME],
                "get": _operation(f"explain{kind.kind}", text, _kind("Explanation")),
                "post": _operation(f"ask{kind.kind}", text, _kind("Explanation")),
            }
            trace = f"Each step of the next turns of this {kind.written}, one a line, live."
            paths[explain.removesuffix("explain") + "trace"] = {
                "parameters": [NAMESPACE_PARAMETER, NAME, *_TRACE_BOUNDS],
                "get": _operation(f"trace{kind.kind}", trace, _OBJECT),
            }
    if api_version == SHARD.api_version:
        paths |= _of_our_group(f"/apis/{api_version}")
    return paths


def _of_our_group(root: str) -> Json:
    lists = _operation("submitList", "Take many objects in; each is judged alone.", _ADMISSION)
    lists |= _body(_LIST, "application/json") | {"parameters": [_ATOMIC]}
    plans = _operation("plan", "What would come of these objects; nothing is kept.", _kind("Plan"))
    plans |= _body(_OBJECT, "application/json", "application/yaml")
    return {
        **_debug(f"{root}/debug/{{role}}"),
        f"{root}/lists": {"post": lists},
        f"{root}/plans": {"post": plans},
        f"{root}/record": {"get": _operation("readRecord", "Beside the objects.", _OBJECT)},
        f"{root}/queuetree": {
            "get": _operation("readQueueTree", "KAI's queues, and who is next.", _OBJECT)
        },
        f"{root}/queuepairs": {
            "get": _operation("readQueuePairs", "What queues lack, and who has it.", _OBJECT)
            | {"parameters": [query("resource", {"type": "string"}, "Only this resource.")]}
        },
        f"{root}/status": {"get": _operation("readStatus", "Counts of everything.", _OBJECT)},
    }


def _debug(root: str) -> Json:
    role = path("role", "coordinator, or shard-N.")
    levels = {"type": "string", "enum": ["debug", "info", "warning", "error", "critical"]}
    level = query("level", levels, "From which level on it logs.", required=True)
    seconds = query("seconds", {"type": "integer", "minimum": 1, "maximum": 60}, "How long.")
    dump = _operation("dumpProcess", "What a process believes.", _OBJECT)
    profile = _operation("profileProcess", "Where a process spends its time.", _OBJECT)
    change = _operation("setLogLevel", "From which level on a process logs.", _OBJECT)
    return {
        f"{root}/dump": {"parameters": [role], "get": dump},
        f"{root}/profile": {"parameters": [role, seconds], "get": profile},
        f"{root}/loglevel": {"parameters": [role, level], "put": change},
    }


def _kind(name: str) -> Json:
    return _OBJECT | {"required": ["kind"], "properties": {"kind": {"enum": [name]}}}


def _body(schema: Json, *types: str) -> Json:
    return {
        "requestBody": {
            "required": True,
            "content": {name: {"schema": schema} for name in types},
        }
    }


def _operation(name: str, description: str, answer: Json) -> Json:
    return {"operationId": name, "description": description, "responses": answers(answer)}
