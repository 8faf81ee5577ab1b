"""Kubernetes' protocol buffers, as far as kubectl writes them.

Since 1.32 the typed clients of client-go send protocol buffers and do not fall back to JSON where a
server answers 415. ``kubectl drain`` and ``kubectl create namespace|configmap|secret|
serviceaccount|quota|poddisruptionbudget|priorityclass`` and ``kubectl auth can-i`` are built on
them, so the messages of these commands are read here. Everything else kubectl sends as JSON, and
other messages are answered 415.

The numbers of fields are those of Kubernetes' ``generated.proto`` files; a field that has none here
is refused, since dropping it would change what was asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from shared.manifests.text.errors import TextError
from shared.units.times import rfc3339

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_BITS = 64


class Scalar(Enum):
    TEXT = "text"
    BASE64 = "bytes, in base64 in JSON"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TEXTS = "map of texts"
    BASE64S = "map of bytes"
    TIME = "seconds and nanoseconds"
    QUANTITIES = "map of quantities"
    NUMBER_OR_TEXT = "number or text"


@dataclass(frozen=True, slots=True)
class ProtoField:
    name: str
    kind: Scalar | str
    """A scalar, or the name of a message."""
    repeated: bool = False


_F = ProtoField
_NAME_ONLY = {1: _F("name", Scalar.TEXT)}
_MESSAGES: dict[str, dict[int, ProtoField]] = {
    "Unknown": {
        1: _F("typeMeta", "TypeMeta"),
        2: _F("raw", Scalar.BASE64),
        3: _F("contentEncoding", Scalar.TEXT),
        4: _F("contentType", Scalar.TEXT),
    },
    "TypeMeta": {1: _F("apiVersion", Scalar.TEXT), 2: _F("kind", Scalar.TEXT)},
    "ObjectMeta": {
        1: _F("name", Scalar.TEXT),
        2: _F("generateName", Scalar.TEXT),
        3: _F("namespace", Scalar.TEXT),
        4: _F("selfLink", Scalar.TEXT),
        5: _F("uid", Scalar.TEXT),
        6: _F("resourceVersion", Scalar.TEXT),
        7: _F("generation", Scalar.INTEGER),
        8: _F("creationTimestamp", Scalar.TIME),
        9: _F("deletionTimestamp", Scalar.TIME),
        10: _F("deletionGracePeriodSeconds", Scalar.INTEGER),
        11: _F("labels", Scalar.TEXTS),
        12: _F("annotations", Scalar.TEXTS),
        14: _F("finalizers", Scalar.TEXT, repeated=True),
    },
    "DeleteOptions": {
        1: _F("gracePeriodSeconds", Scalar.INTEGER),
        2: _F("preconditions", "Preconditions"),
        3: _F("orphanDependents", Scalar.BOOLEAN),
        4: _F("propagationPolicy", Scalar.TEXT),
        5: _F("dryRun", Scalar.TEXT, repeated=True),
    },
    "Preconditions": {1: _F("uid", Scalar.TEXT), 2: _F("resourceVersion", Scalar.TEXT)},
    "Eviction": {1: _F("metadata", "ObjectMeta"), 2: _F("deleteOptions", "DeleteOptions")},
    "Namespace": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("spec", "NamespaceSpec"),
        3: _F("status", "NamespaceStatus"),
    },
    "NamespaceSpec": {1: _F("finalizers", Scalar.TEXT, repeated=True)},
    "NamespaceStatus": {1: _F("phase", Scalar.TEXT)},
    "ConfigMap": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("data", Scalar.TEXTS),
        3: _F("binaryData", Scalar.BASE64S),
        4: _F("immutable", Scalar.BOOLEAN),
    },
    "Secret": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("data", Scalar.BASE64S),
        3: _F("type", Scalar.TEXT),
        4: _F("stringData", Scalar.TEXTS),
        5: _F("immutable", Scalar.BOOLEAN),
    },
    "ServiceAccount": {
        1: _F("metadata", "ObjectMeta"),
        3: _F("imagePullSecrets", "LocalReference", repeated=True),
        4: _F("automountServiceAccountToken", Scalar.BOOLEAN),
    },
    "LocalReference": _NAME_ONLY,
    "ResourceQuota": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("spec", "ResourceQuotaSpec"),
        3: _F("status", "ResourceQuotaStatus"),
    },
    "ResourceQuotaSpec": {
        1: _F("hard", Scalar.QUANTITIES),
        2: _F("scopes", Scalar.TEXT, repeated=True),
        3: _F("scopeSelector", "ScopeSelector"),
    },
    "ResourceQuotaStatus": {1: _F("hard", Scalar.QUANTITIES), 2: _F("used", Scalar.QUANTITIES)},
    "ScopeSelector": {1: _F("matchExpressions", "ScopeRequirement", repeated=True)},
    "ScopeRequirement": {
        1: _F("scopeName", Scalar.TEXT),
        2: _F("operator", Scalar.TEXT),
        3: _F("values", Scalar.TEXT, repeated=True),
    },
    "PodDisruptionBudget": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("spec", "PodDisruptionBudgetSpec"),
        3: _F("status", "PodDisruptionBudgetStatus"),
    },
    "PodDisruptionBudgetSpec": {
        1: _F("minAvailable", Scalar.NUMBER_OR_TEXT),
        2: _F("selector", "LabelSelector"),
        3: _F("maxUnavailable", Scalar.NUMBER_OR_TEXT),
        4: _F("unhealthyPodEvictionPolicy", Scalar.TEXT),
    },
    "PodDisruptionBudgetStatus": {
        1: _F("observedGeneration", Scalar.INTEGER),
        3: _F("disruptionsAllowed", Scalar.INTEGER),
        4: _F("currentHealthy", Scalar.INTEGER),
        5: _F("desiredHealthy", Scalar.INTEGER),
        6: _F("expectedPods", Scalar.INTEGER),
    },
    "LabelSelector": {
        1: _F("matchLabels", Scalar.TEXTS),
        2: _F("matchExpressions", "LabelRequirement", repeated=True),
    },
    "LabelRequirement": {
        1: _F("key", Scalar.TEXT),
        2: _F("operator", Scalar.TEXT),
        3: _F("values", Scalar.TEXT, repeated=True),
    },
    "PriorityClass": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("value", Scalar.INTEGER),
        3: _F("globalDefault", Scalar.BOOLEAN),
        4: _F("description", Scalar.TEXT),
        5: _F("preemptionPolicy", Scalar.TEXT),
    },
    "SelfSubjectAccessReview": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("spec", "SelfSubjectAccessReviewSpec"),
        3: _F("status", "SubjectAccessReviewStatus"),
    },
    "SelfSubjectRulesReview": {
        1: _F("metadata", "ObjectMeta"),
        2: _F("spec", "SelfSubjectRulesReviewSpec"),
        3: _F("status", "SubjectRulesReviewStatus"),
    },
    "SelfSubjectRulesReviewSpec": {1: _F("namespace", Scalar.TEXT)},
    "SubjectRulesReviewStatus": {
        3: _F("incomplete", Scalar.BOOLEAN),
        4: _F("evaluationError", Scalar.TEXT),
    },
    "SelfSubjectAccessReviewSpec": {
        1: _F("resourceAttributes", "ResourceAttributes"),
        2: _F("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        1: _F("namespace", Scalar.TEXT),
        2: _F("verb", Scalar.TEXT),
        3: _F("group", Scalar.TEXT),
        4: _F("version", Scalar.TEXT),
        5: _F("resource", Scalar.TEXT),
        6: _F("subresource", Scalar.TEXT),
        7: _F("name", Scalar.TEXT),
    },
    "NonResourceAttributes": {1: _F("path", Scalar.TEXT), 2: _F("verb", Scalar.TEXT)},
    "SubjectAccessReviewStatus": {
        1: _F("allowed", Scalar.BOOLEAN),
        2: _F("reason", Scalar.TEXT),
        3: _F("evaluationError", Scalar.TEXT),
        4: _F("denied", Scalar.BOOLEAN),
    },
}
_KINDS = frozenset(
    (
        "ConfigMap",
        "DeleteOptions",
        "Eviction",
        "Namespace",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceQuota",
        "Secret",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "ServiceAccount",
    )
)


class NotReadable(Exception):
    """A protocol buffer of a kind, or with a field, that is not read here."""


def read_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a body. Raises NotReadable, or TextError where it is not well-formed."""
    if not body.startswith(_MAGIC):
        raise TextError("not a Kubernetes protocol buffer: it does not begin with its four bytes")
    envelope = _message("Unknown", body[len(_MAGIC) :])
    head = envelope.get("typeMeta", {})
    kind = head.get("kind", "")
    if kind not in _KINDS or envelope.get("contentEncoding"):
        raise NotReadable(f"a protocol buffer of kind {kind[:63]!r}")
    value = _message(kind, base64.b64decode(envelope.get("raw", "")))
    return {**head, **value}


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = _MESSAGES[name]
    value: dict[str, Any] = {}
    for number, wire, part in _parts(data):
        field = fields.get(number)
        if field is None:
            raise NotReadable(f"field {number} of {name} in a protocol buffer")
        _add(value, field, _field(field, wire, part))
    return value


def _add(value: dict[str, Any], field: ProtoField, part: Any) -> None:
    if field.repeated:
        value.setdefault(field.name, []).append(part)
    elif field.kind in (Scalar.TEXTS, Scalar.BASE64S, Scalar.QUANTITIES):
        value.setdefault(field.name, {}).update(part)
    elif part is not None:
        value[field.name] = part


def _field(field: ProtoField, wire: int, part: int | bytes) -> Any:
    if field.kind in (Scalar.INTEGER, Scalar.BOOLEAN):
        if type(part) is not int or wire != _VARINT:
            raise TextError(f"{field.name} is not a number")
        return bool(part) if field.kind is Scalar.BOOLEAN else _signed(part)
    if type(part) is not bytes or wire != _BYTES:
        raise TextError(f"{field.name} has no length")
    match field.kind:
        case Scalar.TEXT:
            return _text(field.name, part)
        case Scalar.BASE64:
            return base64.b64encode(part).decode()
        case Scalar.TIME:
            return _time(part)
        case Scalar.NUMBER_OR_TEXT:
            return _number_or_text(part)
        case str() as name:
            return _message(name, part)
        case _:
            return _entry(field, part)


def _entry(field: ProtoField, data: bytes) -> dict[str, str]:
    """One entry of a map, as a map."""
    parts = {number: part for number, _, part in _parts(data)}
    key, value = parts.get(1, b""), parts.get(2, b"")
    if type(key) is not bytes or type(value) is not bytes:
        raise TextError(f"{field.name} has an entry that is no text")
    if field.kind is Scalar.QUANTITIES:
        value = _bytes(field.name, value, 1)
    text = field.kind is not Scalar.BASE64S
    shown = _text(field.name, value) if text else base64.b64encode(value).decode()
    return {_text(field.name, key): shown}


def _bytes(name: str, data: bytes, number: int) -> bytes:
    """One field of a message; empty where it is absent."""
    value = {n: part for n, _, part in _parts(data)}.get(number, b"")
    if type(value) is not bytes:
        raise TextError(f"{name} has a field that is no text")
    return value


def _number_or_text(data: bytes) -> int | str:
    """Kubernetes' IntOrString: its type (1: text), its number, its text."""
    parts = {number: part for number, _, part in _parts(data)}
    if parts.get(1):
        return _text("strVal", _bytes("strVal", data, 3))
    number = parts.get(2, 0)
    if type(number) is not int:
        raise TextError("intVal is not a number")
    return _signed(number)


def _time(data: bytes) -> str | None:
    """None for the zero time, which Go writes as an empty message."""
    seconds = next((part for number, _, part in _parts(data) if number == 1), None)
    if type(seconds) is not int:
        return None
    try:
        return rfc3339(_signed(seconds))
    except (ValueError, OverflowError, OSError):
        raise TextError("a time is outside of what a calendar has") from None


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TextError(f"{name} is not UTF-8") from None


def _signed(value: int) -> int:
    return value - (1 << _MOST_BITS) if value >> (_MOST_BITS - 1) else value


def _parts(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise TextError(f"not a protocol buffer: wire type {wire}")
        if at + size > len(data):
            raise TextError("not a whole protocol buffer: it ends within a field")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _MOST_BITS + 6, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << _MOST_BITS) - 1), at
    raise TextError("not a whole protocol buffer: it ends within a number")
