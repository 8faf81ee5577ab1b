"""YAML as plain JSON values, with the dialect of Kubernetes' tools.

Values are built from parser events with an explicit stack, so that neither depth nor repetition can
cost more than the limits allow. Unlike a plain YAML loader: duplicate keys are refused, times stay
strings, integers have at most 64 bits, keys are strings, and every alias is a copy. Kubernetes'
tools turn YAML into JSON before they read it, where ``2.0`` is written as ``2``: so it is here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from shared.byte_cache import MIB, byte_cache
from shared.manifests.text.errors import TextError, TextLimits, child_path

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)")
_OCTAL = re.compile(r"([-+]?)0([0-7_]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:[1-9][0-9_]*|0)(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 400
"""Maximum characters; a longer number is out of range in every base."""
_LONGEST_PATH = 200
_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}
_TEXTS = frozenset((f"{_TAG}str", f"{_TAG}timestamp", "!"))
_MERGE = "<<"


def yaml_values(data: bytes, limits: TextLimits) -> Iterator[tuple[int, Any]]:
    """Each document of a UTF-8 text, with the line where it begins. Raises TextError."""
    builder = _Builder(limits)
    line = 1
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            if isinstance(event, DocumentStartEvent):
                line = _place(event)[0]
            elif isinstance(event, DocumentEndEvent):
                yield line, builder.finish()
            else:
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or error
        raise TextError(f"not YAML: {reason}; send plain text in UTF-8") from None


def _not_yaml(error: yaml.MarkedYAMLError) -> TextError:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    return TextError(
        f"not YAML: {problem or 'it cannot be read'}; indent with spaces, not tabs, and check "
        "quotes",
        line=mark.line + 1 if mark else 0,
        column=mark.column + 1 if mark else 0,
    )


# --- values from events -----------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """An object or list that is still being read."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    key: str | None = None
    """The key whose value comes next."""
    merging: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)
    """Mappings merged with ``<<``: earlier ones win over later ones, explicit keys over all."""
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchor:
    value: Any
    height: int


class _Builder:
    """Builds the value of one document at a time."""

    def __init__(self, limits: TextLimits) -> None:
        self._limits = limits
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._root: Any = None
        self._values = 0
        self._repeated = 0

    def finish(self) -> Any:
        root, self._root = self._root, None
        self._anchors = {}
        return root

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, MappingStartEvent):
            self._begin({}, "map", event)
        elif isinstance(event, SequenceStartEvent):
            self._begin([], "seq", event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._end(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)

    def _begin(
        self,
        value: dict[str, Any] | list[Any],
        kind: str,
        event: MappingStartEvent | SequenceStartEvent,
    ) -> None:
        self._count(event)
        if event.tag not in (None, "!", f"{_TAG}{kind}"):
            raise self._wrong(event, f"the tag {event.tag!r} is unknown; leave it out")
        if len(self._open) >= self._limits.depth:
            raise self._deep(event)
        if self._expects_key():
            raise self._wrong(event, "an object or list is used as a key; write a text")
        self._open.append(_Open(value, event.anchor))

    def _end(self, event: Event) -> None:
        closed = self._open.pop()
        if isinstance(closed.value, dict):
            for base in closed.merged:
                for key, value in base.items():
                    closed.value.setdefault(key, value)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchor(closed.value, closed.height)
        self._put(closed.value, closed.height, event)

    def _scalar(self, event: ScalarEvent) -> None:
        self._count(event)
        if self._expects_key():
            self._key(event.value, event)
            self._open[-1].merging = event.implicit[0] and event.value == _MERGE
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchor(event.value, 0)
            return
        try:
            value = _resolve(event)
        except ValueError as error:
            raise self._wrong(event, str(error), event.value) from None
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, 0)
        self._put(value, 0, event)

    def _alias(self, event: AliasEvent) -> None:
        self._count(event)
        anchor = self._anchors.get(event.anchor or "")
        if anchor is None:
            message = f"*{event.anchor} repeats what does not stand before it, or itself"
            raise self._wrong(event, f"{message}; write &{event.anchor} there first")
        data = orjson.dumps(anchor.value)
        self._repeated += len(data)
        if self._repeated > self._limits.size:
            message = f"aliases repeat more than {self._limits.size} bytes"
            raise self._wrong(event, f"{message}; write fewer of them")
        if self._expects_key():
            if type(anchor.value) is not str:
                raise self._wrong(event, f"*{event.anchor} is no text; write one as the key")
            self._key(anchor.value, event)
            return
        if len(self._open) + anchor.height > self._limits.depth:
            raise self._deep(event)
        # A copy, and counted as one: "billion laughs" is a text of aliases of aliases. Commas are
        # roughly its values; its bytes are counted above.
        self._values += data.count(b",")
        self._put(orjson.loads(data), anchor.height, event)

    # --- where it goes ------------------------------------------------------------------------

    def _expects_key(self) -> bool:
        return (
            bool(self._open) and type(self._open[-1].value) is dict and self._open[-1].key is None
        )

    def _key(self, key: str, event: Event) -> None:
        top = self._open[-1]
        if key in top.value or (key == _MERGE and top.merged):
            message = "written twice in one object; keep one of them"
            raise self._wrong(event, message, field=child_path(self._path(), key))
        top.key = key
        top.merging = False

    def _put(self, value: Any, height: int, event: Event) -> None:
        if not self._open:
            self._root = value
            return
        top = self._open[-1]
        top.height = max(top.height, height + 1)
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.merging:
            top.merged = self._bases(value, event)
            top.key, top.merging = None, False
        else:
            assert top.key is not None
            top.value[top.key] = value
            top.key = None

    def _bases(self, value: Any, event: Event) -> list[dict[str, Any]]:
        bases = value if isinstance(value, list) else [value]
        if not bases or not all(isinstance(base, dict) for base in bases):
            raise self._wrong(event, "<< takes an object or a list of objects; write *name of one")
        return bases

    # --- mistakes -----------------------------------------------------------------------------

    def _count(self, event: Event) -> None:
        self._values += 1
        if self._values > self._limits.values:
            message = f"more than {self._limits.values} values; split the text"
            raise self._wrong(event, message)

    def _deep(self, event: Event) -> TextError:
        return self._wrong(event, f"nested deeper than {self._limits.depth}; flatten it")

    def _path(self) -> str:
        path = ""
        for outer in self._open[:-1]:
            part = len(outer.value) if isinstance(outer.value, list) else outer.key or ""
            path = child_path(path, part)
        return path

    def _wrong(
        self, event: Event, message: str, value: object = None, *, field: str | None = None
    ) -> TextError:
        if field is None:
            field = self._path()
            if self._open:
                top = self._open[-1]
                part = len(top.value) if isinstance(top.value, list) else top.key
                field = field if part is None else child_path(field, part)
        line, column = _place(event)
        field = field if len(field) <= _LONGEST_PATH else f"...{field[-_LONGEST_PATH:]}"
        return TextError(message, field=field, value=value, line=line, column=column)


def _place(event: Event) -> tuple[int, int]:
    """(line, column), from 1; (0, 0) if unknown."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)


# --- scalars ----------------------------------------------------------------------------------


def _resolve(event: ScalarEvent) -> Any:
    """Convert a scalar. Raises ValueError with the problem and a remedy."""
    tag = event.tag
    if tag is None:
        return _plain(event.value) if event.implicit[0] else event.value
    if tag in _TEXTS:
        return event.value
    types = _TYPES.get(tag)
    if types is None:
        raise ValueError(f"the tag {tag!r} is unknown; leave it out")
    value = _plain(event.value)
    if type(value) not in types:
        raise ValueError(f"not of the type its tag says ({tag.removeprefix(_TAG)}); correct it")
    return value


@byte_cache("yaml-scalars", 4 * MIB, typed=True)
def _plain(text: str) -> str | int | float | bool | None:
    """Convert a scalar without quotes and tag."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text) is not None:
        return _whole(text)
    if _FLOAT.fullmatch(text) is not None:
        return _real(text)
    if _NO_NUMBER.fullmatch(text) is not None:
        raise ValueError("no number that JSON knows; put it in quotes or write another")
    return text


def _whole(text: str) -> int | str:
    digits = text.replace("_", "")
    octal = _OCTAL.fullmatch(digits)
    if octal is not None:
        digits = f"{octal[1]}0o{octal[2]}"
    try:
        value = int(digits, 0) if len(digits) <= _LONGEST_NUMBER else 1 << 64
    except ValueError:
        return text  # "0b_" and the like: nothing but underscores
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a whole number of more than 64 bits; put it in quotes")
    return value


def _real(text: str) -> int | float:
    value = float(text.replace("_", "")) if len(text) <= _LONGEST_NUMBER else math.inf
    if math.isinf(value):
        raise ValueError("a number that is too large; put it in quotes or write a smaller one")
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else value
