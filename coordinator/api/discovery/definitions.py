"""CustomResourceDefinitions of kinds that are not Kubernetes' own, made from the schemas.

For clusters where Volcano's definitions are absent: run as a module, it prints what
``k8s/definitions.yaml`` installs. The API server wants structural schemas: every type written out
where it is used, no references, and no merging of lists by a key that may be missing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import yaml

from coordinator.intake.documents.kinds import HYPER_NODE, POD_GROUP, QUEUE, Kind
from shared.schemas.catalogue import SCHEMAS
from shared.schemas.notation import Schema

Json = dict[str, Any]
_REF = "#/components/schemas/"
_INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_KEPT_WHOLE = frozenset({"PodTemplate"})
"""Schemas whose objects keep fields that we do not know: others than us read them."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of ``kubectl get``."""

    name: str
    type: str
    path: str


_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")
COLUMNS: dict[str, tuple[PrinterColumn, ...]] = {
    QUEUE.kind: (
        PrinterColumn("Weight", "integer", ".spec.weight"),
        PrinterColumn("State", "string", ".status.state"),
        PrinterColumn("Inqueue", "integer", ".status.inqueue"),
        PrinterColumn("Pending", "integer", ".status.pending"),
        PrinterColumn("Running", "integer", ".status.running"),
        PrinterColumn("Parent", "string", ".spec.parent"),
    ),
    POD_GROUP.kind: (
        PrinterColumn("Status", "string", ".status.phase"),
        PrinterColumn("minMember", "integer", ".spec.minMember"),
        PrinterColumn("Running", "integer", ".status.running"),
        PrinterColumn("Queue", "string", ".spec.queue"),
    ),
    HYPER_NODE.kind: (
        PrinterColumn("Tier", "integer", ".spec.tier"),
        PrinterColumn("NodeCount", "integer", ".status.nodeCount"),
    ),
}

INSTALLED = ((QUEUE, True), (POD_GROUP, False), (HYPER_NODE, True))
"""Kinds that ``k8s/definitions.yaml`` installs, and whether their status is a sub resource.
Volcano's PodGroup has none: writers of its status patch the object."""


def definition(kind: Kind, *, status: bool) -> Json:
    """The CustomResourceDefinition of a kind."""
    columns = (*COLUMNS.get(kind.kind, ()), _AGE)
    version: Json = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            for column in columns
        ],
        "schema": {"openAPIV3Schema": _of_kind(kind)},
    }
    if status:
        version["subresources"] = {"status": {}}
    names: Json = {
        "plural": kind.plural,
        "singular": kind.singular,
        "kind": kind.written,
        "listKind": f"{kind.written}List",
    }
    if kind.short:
        names["shortNames"] = list(kind.short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _of_kind(kind: Kind) -> Schema:
    schema = _structural(SCHEMAS[kind.kind])
    # The API server has a schema of its own for these and refuses any other word about them.
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return schema


def _structural(schema: Schema) -> Schema:
    """The same schema with every reference written out."""
    described = {"description": text} if (text := schema.get("description")) else {}
    if (name := _reference(schema)) is not None:
        inner = _ANY if name in _KEPT_WHOLE else _structural(SCHEMAS[name])
        return {**inner, **described}
    if "oneOf" in schema:
        return {**_INT_OR_STRING, **described}
    plain_schema = {key: value for key, value in schema.items() if key in _PLAIN}
    if "enum" in plain_schema:  # null would be none of its values
        plain_schema.pop("nullable", None)
    if (fields := schema.get("properties")) is not None:
        plain_schema["properties"] = {name: _structural(value) for name, value in fields.items()}
    if (items := schema.get("items")) is not None:
        plain_schema["items"] = _structural(items)
    if (values := schema.get("additionalProperties")) is not None:
        plain_schema["additionalProperties"] = _structural(values)
    if _by_key(schema):
        plain_schema |= {key: schema[key] for key in _LIST}
    return plain_schema


_PLAIN = (
    "description",
    "type",
    "format",
    "enum",
    "minimum",
    "nullable",
    "required",
    "x-kubernetes-preserve-unknown-fields",
)
_LIST = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def _by_key(schema: Schema) -> bool:
    """True for a list whose items always have the key that tells them apart."""
    if schema.get("x-kubernetes-list-type") != "map":
        return False
    name = _reference(schema["items"])
    required = SCHEMAS[name].get("required", []) if name is not None else []
    return set(schema["x-kubernetes-list-map-keys"]) <= set(required)


def _reference(schema: Schema) -> str | None:
    """The name of the schema that this one stands for."""
    match schema:
        case {"$ref": str(reference)} | {"allOf": [{"$ref": str(reference)}]}:
            return reference.removeprefix(_REF)
        case _:
            return None


class _Plain(yaml.SafeDumper):
    """Without anchors: a part that stands in two places is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def manifest() -> str:
    """The definitions that are installed, as one YAML text."""
    head = (
        "# Queue, PodGroup and HyperNode under Volcano's groups, for a cluster without Volcano.\n"
        "# Made by `make reference` from shared/schemas. Create it, never apply it:\n"
        "#\n"
        "#   kubectl create -f k8s/definitions.yaml\n"
        "#\n"
        "# `create` refuses a definition that is there already and leaves it as it is.\n"
    )
    items = [definition(kind, status=status) for kind, status in INSTALLED]
    return head + yaml.dump_all(items, Dumper=_Plain, sort_keys=False, width=100)


if __name__ == "__main__":
    sys.stdout.write(manifest())
