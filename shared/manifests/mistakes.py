"""All mistakes of a refused object, not the first alone.

A parser raises at the first mistake. So the wrong field is removed from a copy and the copy is
parsed again, until it passes. A mistake in the copy is reported only if a removal cannot have
caused it: always, if it concerns a single value; if a field is missing, only if nothing was removed
from the same object; and if fields contradict each other (a minimum above a sum), only if nothing
but unknown fields was removed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from shared.errors import InvalidInput, Mistake, shown

MOST = 10
"""Mistakes told of one object."""
_PARTS = 2_000
"""An object with more values is told its first mistake alone: each further one costs another parse,
and nobody writes so much by hand."""
_DEPTH = 50
_OF_A_VALUE = re.compile(
    r"unknown|negative|neither |not an? |not in this version|not allowed; |too \w+"
)
_UNKNOWN = ("unknown field", "not in this version")
_NAMES_THE_API = "apiVersion"
_STAND_IN = "a"
"""The name of a copy whose own is missing or wrong."""

Parser = Callable[[dict[str, object]], object]


def further_mistakes(item: dict[str, object], parse: Parser, first: InvalidInput) -> list[Mistake]:
    """The mistakes of an object beside the one that its parser raised first."""
    if not _is_small(item):
        return []
    search = _Search(copy.deepcopy(item))
    mistakes: dict[str, Mistake] = {}
    error: InvalidInput | None = first
    for _ in range(2 * MOST):
        if error is None or len(mistakes) >= MOST:
            break
        field = search.written(error.field)
        if error is not first and field not in mistakes and search.is_own(error, field):
            mistakes[field] = Mistake(field, shown(error.value), error.message)
        if not search.take_out(error, field):
            break
        error = _raised(parse, search.item)
    mistakes.pop(first.field, None)
    return list(mistakes.values())


def _raised(parse: Parser, item: dict[str, object]) -> InvalidInput | None:
    try:
        parse(item)
    except InvalidInput as error:
        return error
    return None


def _is_small(item: object) -> bool:
    """Whether it has few values, not nested deep: copying recurses."""
    parts: list[tuple[object, int]] = [(item, 0)]
    count = 0
    while parts:
        part, depth = parts.pop()
        count += 1
        if count > _PARTS or depth > _DEPTH:
            return False
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        parts += [(value, depth + 1) for value in inner]
    return True


class _Search:
    """A copy of an object, and what was taken out of it. Paths are those of the user's object."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self._removed: list[str] = []
        """Known fields that are gone."""
        self._gone: dict[str, list[int]] = {}
        """List -> the indices of its items that are gone."""

    def is_own(self, error: InvalidInput, field: str) -> bool:
        """Is it a mistake of the user, and not of the copy?"""
        if any(_within(removed, field) or _within(field, removed) for removed in self._removed):
            return False
        if _OF_A_VALUE.match(error.message):
            return True
        if error.message.startswith("missing"):
            return all(_parent(removed) != _parent(field) for removed in self._removed)
        return not self._removed

    def take_out(self, error: InvalidInput, field: str) -> bool:
        """Take out the wrong field, or of a missing one what it is missing in; False: nothing is
        left to take out. A wrong apiVersion stays: the copy is read by its kind, and of two by the
        group that it names."""
        if field == _NAMES_THE_API:
            return True
        if field in {"metadata.name", "metadata"}:
            before = self.item.get("metadata")
            older = before if isinstance(before, dict) else {}
            self.item["metadata"] = older | {"name": _STAND_IN}
            self._removed.append(field)
            return bool(before != self.item["metadata"])
        steps = self._steps(error.field)
        while steps:
            container, key = steps.pop()
            if not (isinstance(container, list) or key in container):
                field = _parent(field)
                continue
            if isinstance(container, list):
                at = _parent(field)
                index = int(field[len(at) + 1 : -1])
                self._gone.setdefault(at, []).append(index)
                self._gone[at].sort()
            del container[key]
            if not error.message.startswith(_UNKNOWN):
                self._removed.append(field)
            return True
        return False

    def written(self, path: str) -> str:
        """The path in the user's object of a path in the copy."""
        result = ""
        for container, key in self._steps(path):
            if isinstance(container, list):
                index = int(key)
                for removed in self._gone.get(result, ()):
                    index += removed <= index
                result += f"[{index}]"
            else:
                result += f".{key}" if result else str(key)
        return result

    def _steps(self, path: str) -> list[tuple[Any, Any]]:
        """(container, key or index) from the top to the field. A key may hold dots: of those that
        are there the longest that fits counts."""
        steps: list[tuple[Any, Any]] = []
        at: Any = self.item
        rest = path
        while rest:
            if isinstance(at, list) and (index := re.match(r"\[(\d+)\]\.?", rest)):
                key: Any = int(index[1])
                rest = rest[index.end() :]
                exists = key < len(at)
            elif isinstance(at, dict):
                fits = [name for name in at if isinstance(name, str) and _begins(rest, name)]
                key = max(fits, key=len, default=rest)
                rest = rest[len(key) :].removeprefix(".")
                exists = key in at
            else:
                return steps
            steps.append((at, key))
            if not exists:
                return steps
            at = at[key]
        return steps


def _begins(path: str, name: str) -> bool:
    return path.startswith(name) and path[len(name) : len(name) + 1] in ("", ".", "[")


def _within(field: str, other: str) -> bool:
    """Is a field another one, or part of it?"""
    return _begins(field, other)


def _parent(field: str) -> str:
    """``spec.tasks[0].name`` -> ``spec.tasks[0]`` -> ``spec.tasks`` -> ``spec``."""
    return field[: max(field.rfind("."), field.rfind("["), 0)]
