"""JSONPath templates as kubectl writes them: ``{.items[*].metadata.name}{"\\n"}``.

Text stands for itself; in braces stand a path, a quoted text, or ``range PATH`` ... ``end``. A path
has fields (``.a``, ``['a']``, ``.a\\.b``, ``.*``, ``..a``), positions and slices (``[0]``,
``[-1]``, ``[0:2]``, ``[*]``, ``[0,2]``) and filters (``[?(@.x=="y")]``). A field that an object
does not have is left out. A template without braces is one path.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson


class JsonPathError(ValueError):
    """The template cannot be read; says where and what to write."""


Step = Callable[[Any], Iterable[Any]]
"""From one value to those that it leads to."""


@dataclass(frozen=True, slots=True)
class Path:
    """``absolute``: from the whole object (``$``), also within a range."""

    steps: tuple[Step, ...]
    absolute: bool = False

    def find(self, value: Any) -> list[Any]:
        values = [value]
        for step in self.steps:
            values = [after for before in values for after in step(before)]
        return values


@dataclass(frozen=True, slots=True)
class Range:
    path: Path
    body: tuple[Part, ...]


Part = str | Path | Range


class JsonPath:
    """A template that was read. Raises :class:`JsonPathError`."""

    def __init__(self, template: str) -> None:
        self.parts = _Template(template if "{" in template else f"{{{template}}}").read()

    def render(self, value: Any) -> str:
        return "".join(_rendered(self.parts, value, value))

    def find(self, value: Any) -> list[Any]:
        """The values that all paths of the template lead to."""
        return [v for p in self.parts if isinstance(p, Path) for v in p.find(value)]


def _rendered(parts: Sequence[Part], value: Any, whole: Any) -> Iterator[str]:
    for part in parts:
        match part:
            case str():
                yield part
            case Path():
                values = part.find(whole if part.absolute else value)
                yield " ".join(text_of(item_value) for item_value in values)
            case Range():
                for item in part.path.find(whole if part.path.absolute else value):
                    yield from _rendered(part.body, item, whole)


def text_of(value: Any) -> str:
    """A text as it is, everything else as JSON; nothing for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


# --- the template -----------------------------------------------------------------------------

_INSIDE = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")
_QUOTED = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')\s*""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class _Template:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> tuple[Part, ...]:
        parts, ended = self._until_end()
        if ended:
            raise JsonPathError("{end} without {range}; remove it")
        return parts

    def _until_end(self) -> tuple[tuple[Part, ...], bool]:
        parts: list[Part] = []
        while self._at < len(self._text):
            brace = self._text.find("{", self._at)
            if brace != self._at:
                end = len(self._text) if brace < 0 else brace
                parts.append(self._text[self._at : end])
                self._at = end
                continue
            match = _INSIDE.match(self._text, brace)
            if match is None:
                raise JsonPathError(f"the brace at character {brace + 1} is not closed; add }}")
            self._at = match.end()
            inside = match[1].strip()
            if inside == "end":
                return tuple(parts), True
            parts.append(self._part(inside))
        return tuple(parts), False

    def _part(self, inside: str) -> Part:
        if _QUOTED.fullmatch(inside):
            return unquoted(inside)
        if not inside.startswith("range ") and inside != "range":
            return path_of(inside)
        body, ended = self._until_end()
        if not ended:
            raise JsonPathError("{range} is not ended; add {end}")
        return Range(path_of(inside.removeprefix("range").strip()), body)


def unquoted(text: str) -> str:
    inner = text.strip()[1:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner)


# --- paths ------------------------------------------------------------------------------------

_NAME = re.compile(r"(?:\\.|[^.\[\]\\\s])+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_FILTER = re.compile(
    r"""\s*(?P<left>@[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>|=~)\s*(?P<right>.+?))?\s*"""
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def path_of(text: str) -> Path:
    """Raises :class:`JsonPathError`."""
    absolute = text.startswith("$")
    at = 1 if text.startswith(("$", "@")) else 0
    steps: list[Step] = []
    while at < len(text):
        if text[at] == "[":
            end = _closing(text, at)
            steps.append(_subscript(text[at + 1 : end].strip()))
            at = end + 1
            continue
        deep = text.startswith("..", at)
        at += 2 if deep else 1 if text[at] == "." else 0
        if deep:
            steps.append(_descend)
        if at < len(text) and text[at] == "[":
            continue
        match = _NAME.match(text, at)
        if match is None:
            if at >= len(text) and not deep:
                break  # a point at the end: the value itself
            raise JsonPathError(f"a field name is missing at character {at + 1} of {text!r}")
        steps.append(_field(re.sub(r"\\(.)", r"\1", match[0])))
        at = match.end()
    return Path(tuple(steps), absolute)


def _closing(text: str, start: int) -> int:
    depth, quote = 0, ""
    for at in range(start, len(text)):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[]":
            depth += 1 if character == "[" else -1
            if not depth:
                return at
    raise JsonPathError(f"the bracket at character {start + 1} of {text!r} is not closed; add ]")


def _subscript(inside: str) -> Step:
    if inside == "*":
        return _children
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1])
    if match := _SLICE.fullmatch(inside):
        start, stop, step = (int(part) if part else None for part in match.groups())
        return lambda value: value[start:stop:step] if isinstance(value, list) else ()
    choices = [_one_of(part.strip()) for part in _split(inside)]
    return lambda value: [member for choose in choices for member in choose(value)]


def _split(inside: str) -> list[str]:
    return re.findall(r"""(?:"[^"]*"|'[^']*'|[^,])+""", inside)


def _one_of(text: str) -> Step:
    if _QUOTED.fullmatch(text):
        return _field(unquoted(text))
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        return lambda value: (
            [value[number]]
            if isinstance(value, list) and -len(value) <= number < len(value)
            else ()
        )
    raise JsonPathError(f"[{text}] is neither a number, a quoted name, * nor ?(...)")


def _field(name: str) -> Step:
    if name == "*":
        return _children

    def get(value: Any) -> Iterable[Any]:
        return [value[name]] if isinstance(value, dict) and name in value else ()

    return get


def _children(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return ()


def _descend(value: Any) -> Iterable[Any]:
    """The value and everything below it."""
    values, stack = [], [value]
    while stack:
        values.append(current := stack.pop())
        stack.extend(reversed(list(_children(current))))
    return values


def _filter(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None or match["op"] == "=~":
        raise JsonPathError(f'?({text}) is not a filter; write for example ?(@.name=="x")')
    left_path = path_of(match["left"].strip())
    if match["op"] is None:
        return lambda value: [item for item in _children(value) if left_path.find(item)]
    compare = _OPERATORS[match["op"]]
    right = _operand(match["right"].strip())

    def keep(item: Any) -> bool:
        ours, theirs = left_path.find(item)[:1], right(item)[:1]
        try:
            return bool(ours) and bool(theirs) and compare(ours[0], theirs[0])
        except TypeError:
            return False

    return lambda value: [item for item in _children(value) if keep(item)]


def _operand(text: str) -> Callable[[Any], list[Any]]:
    if text.startswith("@"):
        return path_of(text).find
    if _QUOTED.fullmatch(text):
        value: Any = unquoted(text)
    else:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise JsonPathError(f"{text} is not a value; put texts in quotes") from None
    return lambda item: [value]
