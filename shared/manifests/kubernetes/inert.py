"""Objects that files hold beside jobs and that have no effect here: Namespaces, ConfigMaps,
Secrets, Services and ServiceAccounts.

They are stored and shown, so that a file with all objects of an application can be applied as it
is. A Secret is stored without its data: what is never kept cannot leak from the ledger, its copies
or an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from shared.errors import InvalidInput
from shared.manifests.fields.metadata import labels_of, read_metadata
from shared.manifests.fields.reader import Fields, dns_label
from shared.manifests.fields.shapes import check_shape
from shared.schemas.catalogue import SCHEMAS

INERT = ("ConfigMap", "Namespace", "Secret", "Service", "ServiceAccount")
_DNS_LABELS = ("Namespace", "Service")
"""Kinds whose names become parts of host names."""
_READ = ("apiVersion", "kind", "metadata")
_SECRET_PARTS = ("data", "stringData")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of what was applied: of a Secret it holds the data once more."""
_WITHOUT_EFFECT = {
    "ConfigMap": "kept and shown, but no pod reads it: the simulated cluster runs no containers",
    "Secret": "data and stringData are dropped and stored nowhere: the simulated cluster runs no "
    "containers that could read them",
    "Service": "kept and shown, but without effect: the simulated cluster has no network",
    "ServiceAccount": "kept and shown, but without effect: rights are those of tokens, see "
    "docs/security.md",
}


@dataclass(frozen=True, slots=True)
class InertObject:
    """An object without effect. ``notice``: what its author should know; "" for nothing."""

    kind: str
    namespace: str
    name: str
    notice: str = ""
    fixed: bytes = b""
    """Its immutable fields, as JSON; empty if all may change."""


def reader_of(kind: str) -> Callable[[dict[str, object]], InertObject]:
    """The parser of one of these kinds."""

    def read(obj: dict[str, object]) -> InertObject:
        try:
            return _read(kind, obj)
        except InvalidInput as error:
            if kind != "Secret":
                raise
            # A misspelt field may hold the secret: its value is not repeated.
            raise InvalidInput(error.field, None, error.message, reason=error.reason) from None

    return read


def _read(kind: str, obj: dict[str, object]) -> InertObject:
    meta = read_metadata(obj, namespaced=kind != "Namespace")
    if kind in _DNS_LABELS:
        dns_label(meta.name, "metadata.name")
    labels_of(meta)
    fields = Fields(obj, "")
    fields.check(kind)
    for name, value in obj.items():
        if name not in _READ:
            check_shape(value, SCHEMAS[kind]["properties"][name], name)
    return InertObject(kind, meta.namespace, meta.name, _WITHOUT_EFFECT.get(kind, ""))


def without_secrets(item: dict[str, Any]) -> dict[str, Any]:
    """The object as it may be stored: of a Secret no data, in kubectl's copy of it neither."""
    if item.get("kind") != "Secret":
        return item
    public = {name: value for name, value in item.items() if name not in _SECRET_PARTS}
    metadata = item["metadata"]
    annotations = metadata.get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return public
    applied = _redacted(annotations[_LAST_APPLIED])
    others = {name: text for name, text in annotations.items() if name != _LAST_APPLIED}
    return public | {"metadata": metadata | {"annotations": others | applied}}


def _redacted(text: object) -> dict[str, str]:
    """kubectl's annotation without the data; no annotation where it cannot be read."""
    try:
        value = orjson.loads(text) if type(text) is str else None
    except orjson.JSONDecodeError:
        return {}
    if type(value) is not dict:
        return {}
    public = {name: part for name, part in value.items() if name not in _SECRET_PARTS}
    return {_LAST_APPLIED: orjson.dumps(public, option=orjson.OPT_APPEND_NEWLINE).decode()}
