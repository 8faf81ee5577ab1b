"""From text to raw objects: the only reader, shared by the API, the command line and ``replay``.

JSON or YAML, several documents, lists of objects: the result is a flat list of JSON objects that
:func:`shared.manifests.parse.parse` checks later. Every mistake is a :class:`TextError` with its
position and a remedy.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, NoReturn

import orjson

from shared.errors import shown
from shared.manifests.text.errors import LIMITS, TextError, TextLimits, child_path
from shared.manifests.text.yaml import yaml_values

Form = Literal["json", "yaml", "either"]

_LIST_FIELDS = frozenset(("apiVersion", "kind", "metadata", "items"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_BOM = "\ufeff"


def read_objects(
    text: str | bytes, *, form: Form = "either", limits: TextLimits = LIMITS
) -> list[dict[str, Any]]:
    """All objects of a text, in order. Empty documents are left out, lists are expanded.

    ``either``: text that begins like JSON and is valid JSON is read as JSON, all else as YAML.
    """
    objects: list[dict[str, Any]] = []
    for line, value in _documents(text, form, limits):
        if value is not None:
            _flatten(value, line, objects, limits)
    return objects


def read_object(
    text: str | bytes, *, form: Form = "either", limits: TextLimits = LIMITS
) -> dict[str, Any]:
    """The single object of a text; a list is not expanded."""
    values = [value for _, value in _documents(text, form, limits) if value is not None]
    if len(values) != 1:
        raise TextError(f"{len(values)} objects where one is expected; send exactly one")
    if not isinstance(values[0], dict):
        raise TextError("not an object; write its fields", value=values[0])
    return values[0]


def read_values(
    text: str | bytes, *, form: Form = "either", limits: TextLimits = LIMITS
) -> list[Any]:
    """The value of each document, whether or not it is an object; None for an empty one."""
    return [value for _, value in _documents(text, form, limits)]


def read_list(body: bytes, *, limits: TextLimits = LIMITS) -> list[Any]:
    """The items of a ``v1`` List in JSON, on the fast path.

    For duplicate keys the last value counts. Items are not checked, not even for being objects.
    """
    _check_size(body, limits)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TextError(f"the body is not JSON: {error}; send a List as JSON") from None
    if not isinstance(value, dict):
        raise TextError("the body is not an object; send a List with apiVersion, kind and items")
    for name, expected in (("apiVersion", "v1"), ("kind", "List")):
        if value.get(name) != expected:
            got = shown(value.get(name)) or "missing"
            raise TextError(f"{name} is {got}; write {expected}", field=name)
    items = _items(value, "", 0)
    _check_count(len(items), limits)
    _check_depth(body, limits)
    return items


# --- lists ------------------------------------------------------------------------------------


def _flatten(
    value: Any, line: int, into: list[dict[str, Any]], limits: TextLimits, at: str = ""
) -> None:
    """Append an object, or the objects of a list, to ``into``. Recurses no deeper than the text is
    nested."""
    if not isinstance(value, dict):
        message = "not an object; write apiVersion, kind and metadata"
        raise TextError(message, field=at, value=value, line=line)
    kind = value.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in value):
        into.append(value)
        _check_count(len(into), limits)
        return
    # A list of one kind, as a server answers it, does not repeat the kind.
    defaults = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for i, item in enumerate(_items(value, at, line)):
        unnamed = kind != "List" and isinstance(item, dict) and "kind" not in item
        path = child_path(child_path(at, "items"), i)
        _flatten(defaults | item if unnamed else item, line, into, limits, path)


def _items(value: dict[str, Any], at: str, line: int) -> list[Any]:
    unknown = value.keys() - _LIST_FIELDS
    if unknown:
        name = min(unknown)
        message = f"{shown(name)} is no field of a List; leave it out"
        raise TextError(message, field=child_path(at, name), line=line)
    items = value.get("items", ())
    if items is None:
        return []
    if not isinstance(items, list):
        message = "items is not a list; write the objects between [ and ]"
        raise TextError(message, field=child_path(at, "items"), line=line)
    return items


def _check_count(count: int, limits: TextLimits) -> None:
    if count > limits.objects:
        at_most = f"send at most {limits.objects} at a time"
        raise TextError(f"items holds {count} objects; {at_most}", field="items")


# --- documents --------------------------------------------------------------------------------


def _documents(text: str | bytes, form: Form, limits: TextLimits) -> list[tuple[int, Any]]:
    """Every document and the line where it begins (1 if unknown)."""
    data, text = _both(text, limits)
    if form == "json":
        return _json_documents(data, text, limits)
    if form == "either" and text.lstrip(" \t\r\n")[:1] in ("{", "["):
        try:
            return _json_documents(data, text, limits)
        except _NotJson as error:  # YAML's flow style may also begin with a bracket
            try:
                return list(yaml_values(data, limits))
            except TextError:
                raise error from None
    return list(yaml_values(data, limits))


def _both(text: str | bytes, limits: TextLimits) -> tuple[bytes, str]:
    """(UTF-8 bytes, string) of the same text, without a byte order mark."""
    try:
        if isinstance(text, str):
            _check_size(text, limits)
            text = text.removeprefix(_BOM)
            data = text.encode()
            _check_size(data, limits)
            return data, text
        _check_size(text, limits)
        decoded = text.decode().removeprefix(_BOM)
        return decoded.encode(), decoded
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise TextError("not UTF-8; save it as UTF-8", line=line) from None
    except UnicodeEncodeError as error:
        line = error.object[: error.start].count("\n") + 1
        raise TextError("half of a character; leave it out", line=line) from None


def _check_size(text: str | bytes, limits: TextLimits) -> None:
    if len(text) > limits.size:
        raise TextError(f"larger than {limits.size} bytes; split it")


# --- JSON -------------------------------------------------------------------------------------


class _NotJson(TextError):
    """The text is not valid JSON, so it may be YAML."""


class _DuplicateKey(Exception):
    """A duplicate key in one object."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _NoNumber(Exception):
    """A number that JSON does not have, or that exceeds 64 bits."""


def _json_documents(data: bytes, text: str, limits: TextLimits) -> list[tuple[int, Any]]:
    """The concatenated JSON values of the text. Duplicate keys are refused."""
    documents: list[tuple[int, Any]] = []
    at = _skip(text, 0)
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            documents.append((text.count("\n", 0, at) + 1 if at else 1, value))
            _check_count(len(documents), limits)
            at = _skip(text, end)
        encoded = orjson.dumps([value for _, value in documents])
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}; check quotes and commas"
        raise _NotJson(message, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise _deep(limits) from None
    except _DuplicateKey as error:
        raise _placed(error.key, data, limits) from None
    except _NoNumber as error:
        raise TextError(f"{error}; put it in quotes or write another") from None
    except TypeError:  # orjson: half of a surrogate pair, or deeper than it goes
        raise TextError("half of a character, or nested too deep; leave it out") from None
    _check_depth(encoded, limits, outer=1)
    return documents


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise _DuplicateKey(key)
            keys.add(key)
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise _NoNumber("a whole number of more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _NoNumber("a number that is too large")
    return value


def _constant(text: str) -> NoReturn:
    raise _NoNumber(f"{text} is no number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _placed(key: str, data: bytes, limits: TextLimits) -> TextError:
    """The error for a duplicate key, with the position, which the YAML reader determines."""
    try:
        for _ in yaml_values(data, limits):
            pass
    except TextError as error:
        if error.field.rpartition(".")[2] == key:
            return error
    return TextError("written twice in one object; keep one of them", field=key)


# --- depth ------------------------------------------------------------------------------------


def _check_depth(encoded: bytes, limits: TextLimits, *, outer: int = 0) -> None:
    """Check the nesting of ``encoded``, well-formed JSON. ``outer`` levels around it do
    not count."""
    depth = limits.depth + outer
    if _left(encoded, depth) and _left(_STRING.sub(b"", encoded), depth):
        raise _deep(limits)


def _left(encoded: bytes, depth: int) -> bool:
    """Whether brackets remain after removing the innermost pairs ``depth`` times. Brackets inside
    strings may remain as well.
    """
    brackets = encoded.translate(_ALIKE, delete=_NO_BRACKETS)
    for _ in range(depth):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _deep(limits: TextLimits) -> TextError:
    return TextError(f"nested deeper than {limits.depth}; flatten it")
