"""The notation of schemas, and its reader.

::

    Container - One container of a pod.
      name: string!             Its name, unique in the pod.
      ports: []Port~containerPort
        The ports it listens on.

A line without indentation begins a schema. A field has a type and a description, which may go on in
deeper lines. Types: ``string``, ``integer``, ``number``, ``boolean``, ``time``, ``quantity`` (a
number or a text with a unit), ``share`` (a whole number, or a text as "50%"), ``any`` (an object
that is kept and not looked at), ``texts``, ``quantities`` and ``counts`` (maps), the name of
another schema, ``[]`` before any of these for a list, and ``one|other`` for a text of a closed set.
``!``: required; in all others null stands for nothing. ``?``: the same, where it is the server that
shows null. ``~key``: the items of the list are told apart by this field when lists are merged;
``~`` alone: the values of the list are a set, and sets are united. ``later``: a field that is not
in this version; it may be there as long as it is empty.

A kind of objects has its version behind its name, as in ``Node (v1)``, and behind that the name it
has in objects, if that is another one: it begins with the fields ``apiVersion``, ``kind`` and
``metadata``. A line for one of them takes the place of what is said of it in all kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

_KEPT = "Kept and not looked at."
"""Ends the description of a field whose value decides nothing."""

_HEAD = re.compile(r"(\w+)(?: \((\S+)(?: (\w+))?\))? - (.+)")
_FIELD = re.compile(r" {2}([\w$]+): (\S+)(?:\s+(.+))?")
_PLAIN: dict[str, Schema] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {
        "description": 'An amount: a number, or a text with a unit as "500m", "2", "4Gi".',
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    "share": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "counts": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    "texts": {"type": "object", "additionalProperties": {"type": "string"}},
    "quantities": {
        "type": "object",
        "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    },
}


@dataclass(slots=True)
class FieldTable:
    """The fields of a kind of object, or of a part of one."""

    schema: Schema
    known: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    """Fields that are accepted only if empty. The schema does not list them."""
    kept: dict[str, Schema] = field(default_factory=dict)
    """Fields that no reader looks at: their schema alone says what they may be."""

    def add(self, name: str, kind: str, description: str | None) -> Schema:
        """Add a field; return its schema, whose description may go on."""
        self.known.add(name)
        described = self.schema["properties"][name] = _type(kind.rstrip("!?"))
        if kind.endswith("!"):
            self.schema.setdefault("required", []).append(name)
        else:
            described["nullable"] = True
        if description:
            described["description"] = description
        return described


def read(text: str) -> dict[str, FieldTable]:
    """Parse schemas. Raises ValueError for a line that does not follow the notation."""
    documents: dict[str, FieldTable] = {}
    schema: Schema = {}
    described: Schema = schema
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            name, version, kind, description = _match(_HEAD, line).groups()
            described = schema = {"description": description, "type": "object", "properties": {}}
            table = documents[name] = FieldTable(schema)
            if version:
                table.add("apiVersion", "string", f"Always {version}.")
                table.add("kind", "string", f"Always {kind or name}.")
                table.add("metadata", "ObjectMeta", "Its name.")
        elif line.startswith("    ") or not schema:
            described["description"] = f"{described.get('description', '')} {line.strip()}".strip()
        else:
            name, kind, description = _match(_FIELD, line).groups()
            if kind == "later":
                table.later.add(name)
            else:
                described = table.add(name, kind, description)
    for name, table in documents.items():
        for field_name, value in table.schema["properties"].items():
            if not value.get("description"):
                raise ValueError(f"{name}.{field_name} has no description")
            if value["description"].endswith(_KEPT):
                table.kept[field_name] = value
    return documents


def _type(text: str) -> Schema:
    text, merged, key = text.partition("~")
    if text.startswith("[]"):
        listed: Schema = {"type": "array", "items": _bare(text[2:])}
        if key:
            listed |= {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": [key],
                "x-kubernetes-patch-merge-key": key,
                "x-kubernetes-patch-strategy": "merge",
            }
        elif merged:
            listed |= {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
        return listed
    if "|" in text:
        return {"type": "string", "enum": text.split("|")}
    bare = _bare(text)
    # Beside a reference nothing may stand: the description is of the field, not of the schema.
    return {"allOf": [bare]} if "$ref" in bare else dict(bare)


def _bare(text: str) -> Schema:
    if text in _PLAIN:
        return dict(_PLAIN[text])
    return {"$ref": f"#/components/schemas/{text}"}


def _match(pattern: re.Pattern[str], line: str) -> re.Match[str]:
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError(f"schemas: {line!r} is in no form that is known")
    return match
