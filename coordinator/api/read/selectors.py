"""Label and field selectors, parsed from a query and matched against one object.

Labels: ``app=x,app!=x,app in (x,y),app notin (x,y),app,!app,age>3,age<3``, joined by "and". Fields:
``status.phase=Running,metadata.name!=x``. As in Kubernetes an object without the label satisfies
``!=`` and ``notin``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from coordinator.errors import Problem
from shared.errors import shown
from shared.manifests.fields.reader import is_qualified

LONGEST = 4096
"""Maximum characters of a selector."""
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)\s*")
_FIELD = re.compile(r"(?:[^\\,=!]|\\.)+?(?===|!=|=)")
_NO_SET: frozenset[str] = frozenset()


class Operator(Enum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    ABOVE = ">"
    BELOW = "<"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. ``=`` and ``!=`` are sets of one value."""

    key: str
    operator: Operator
    values: frozenset[str] = _NO_SET

    def holds(self, value: str | None) -> bool:
        """``value`` None: the object has no such label or field."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.ABOVE | Operator.BELOW:
                if value is None or _NUMBER.fullmatch(value) is None:
                    return False
                (bound,) = self.values
                above = self.operator is Operator.ABOVE
                return int(value) > int(bound) if above else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class Selector:
    """The selector of a list or watch. An empty one matches everything."""

    labels: tuple[Condition, ...] = ()
    fields: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, labels: Mapping[str, str], field: Callable[[str], str]) -> bool:
        return all(c.holds(field(c.key)) for c in self.fields) and all(
            c.holds(labels.get(c.key)) for c in self.labels
        )

    def only(self, key: str) -> str | None:
        """The single value that a field must have; None if any or several are allowed."""
        for c in self.fields:
            if c.key == key and c.operator is Operator.IN:
                (value,) = c.values
                return value
        return None


def selector_of(labels: str, fields: str, *, selectable: frozenset[str]) -> Selector:
    """Parse both. ``selectable``: the fields that may be used. Raises Problem (400)."""
    for name, text in (("labelSelector", labels), ("fieldSelector", fields)):
        if len(text) > LONGEST:
            raise _bad(name, text, f"longer than {LONGEST} characters; ask for less at once")
    return Selector(label_conditions(labels), field_conditions(fields, selectable=selectable))


# --- labels -----------------------------------------------------------------------------------


def label_conditions(text: str) -> tuple[Condition, ...]:
    """Parse a label selector. Raises Problem (400)."""
    return _Labels(text).conditions()


class _Labels:
    """A cursor over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _TOKEN.findall(text)
        self._at = 0
        if "".join(self._words) != re.sub(r"\s", "", text):
            raise self._wrong("a character has no place here")

    def conditions(self) -> tuple[Condition, ...]:
        conditions: list[Condition] = []
        while self._peek():
            conditions.append(self._condition())
            if self._peek() and self._take() != ",":
                raise self._wrong("conditions are joined by commas")
        return tuple(conditions)

    def _condition(self) -> Condition:
        if self._peek() == "!":
            self._take()
            return Condition(self._key(), Operator.ABSENT)
        key = self._key()
        match self._peek():
            case "" | ",":
                return Condition(key, Operator.EXISTS)
            case "=" | "==":
                self._take()
                return Condition(key, Operator.IN, frozenset((self._value(),)))
            case "!=":
                self._take()
                return Condition(key, Operator.NOT_IN, frozenset((self._value(),)))
            case ">" | "<":
                operator = Operator(self._take())
                bound = self._take()
                if _NUMBER.fullmatch(bound) is None:
                    raise self._wrong("after > or < stands a whole number")
                return Condition(key, operator, frozenset((bound,)))
            case "in" | "notin":
                return Condition(key, Operator(self._take()), self._set())
            case _:
                raise self._wrong("after a key stands =, !=, in, notin, > or <")

    def _set(self) -> frozenset[str]:
        if self._take() != "(":
            raise self._wrong("in and notin are followed by (a,b)")
        values = [self._value()]
        while (word := self._take()) == ",":
            values.append(self._value())
        if word != ")":
            raise self._wrong("the values end with )")
        return frozenset(values)

    def _key(self) -> str:
        key = self._take()
        if not is_qualified(key):
            raise self._wrong(f"{shown(key)} is not a label key")
        return key

    def _value(self) -> str:
        """Read one value, which may be empty: ``app=``."""
        if self._peek() in ("", ",", ")"):
            return ""
        value = self._take()
        if _LABEL_VALUE.fullmatch(value) is None:
            raise self._wrong(f"{shown(value)} is not a label value")
        return value

    def _peek(self) -> str:
        return str(self._words[self._at]) if self._at < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _wrong(self, why: str) -> Problem:
        return _bad("labelSelector", self._text, f"{why}; write for example app=web,tier!=test")


# --- fields -----------------------------------------------------------------------------------


def field_conditions(text: str, *, selectable: frozenset[str]) -> tuple[Condition, ...]:
    """``\\`` before a comma, an equals sign or itself takes it literally. Raises Problem (400)."""
    conditions = []
    for part in re.split(r"(?<!\\),", text):
        if not part.strip():
            continue
        match = _FIELD.match(part)
        if match is None:
            raise _bad("fieldSelector", text, "write for example status.phase=Running")
        key, rest = match[0].strip(), part[match.end() :]
        sign = "!=" if rest.startswith("!=") else "==" if rest.startswith("==") else "="
        if key not in selectable:
            names = ", ".join(sorted(selectable))
            raise _bad("fieldSelector", text, f"{shown(key)} cannot be selected by; use {names}")
        value = re.sub(r"\\(.)", r"\1", rest[len(sign) :])
        operator = Operator.NOT_IN if sign == "!=" else Operator.IN
        conditions.append(Condition(key, operator, frozenset((value,))))
    return tuple(conditions)


def _bad(name: str, text: str, why: str) -> Problem:
    message = f"{name} is {shown(text)}: {why}"
    return Problem(HTTPStatus.BAD_REQUEST, message)
