"""The values of CEL and their operations: kinds, equality, order, arithmetic.

Kinds are never converted into each other; int, uint and double compare with each other as numbers.
An undefined operation raises CelError.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import TypeVar

from shard_worker.kube_scheduler.cel.tree import CelError, Uint
from shared.errors import InvalidInput
from shared.units.quantity import amount

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)


_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity, in thousandths."""

    units: int


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version by the rules of semver 2.0; build metadata (after ``+``) is ignored in
    comparisons."""

    numbers: tuple[int, int, int]
    early: tuple[str, ...] = ()
    """The dot-separated identifiers of the pre-release part."""

    @property
    def _key(self) -> tuple[object, ...]:
        # semver 2.0, 11.4: numbers compare as numbers and come before words; a version without a
        # pre-release part comes after those with one.
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in self.early)
        return (self.numbers, not self.early, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key == other._key

    def __lt__(self, other: Semver) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)


def semver(text: str) -> Semver | None:
    """Parse a version; None if the text is not one."""
    match = _SEMVER.fullmatch(text) if len(text) <= 256 else None
    if match is None or any(len(match[i]) > 19 for i in (1, 2, 3)):
        return None
    early = tuple(match[4].split(".")) if match[4] else ()
    if any(not part or (part.isdigit() and part != "0" and part[0] == "0") for part in early):
        return None
    return Semver((int(match[1]), int(match[2]), int(match[3])), early)


def quantity(text: str) -> Quantity | None:
    """Parse a quantity; None if the text is not one."""
    negative = text.startswith("-")
    try:
        units = amount("device", text[negative:], "quantity")
    except InvalidInput:
        return None
    return Quantity(-units if negative else units)


def kind(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case Uint():
            return "uint"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
        case None:
            return "null"
        case list():
            return "list"
        case dict():
            return "map"
        case _:
            return type(value).__name__.lower()


def number(value: object) -> int | float | None:
    """The value as a Python number; None if it is not numeric."""
    match value:
        case bool():
            return None
        case int() | float():
            return value
        case Uint():
            return value.value
        case _:
            return None


def equal(left: object, right: object) -> bool:
    """CEL equality: values of different kinds differ, but numbers compare by value."""
    left_number, right_number = number(left), number(right)
    if left_number is not None and right_number is not None:
        return left_number == right_number
    if kind(left) != kind(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return left == right


def ordered(op: str, left: object, right: object) -> bool:
    """The operators ``<``, ``<=``, ``>``, ``>=`` on numbers, strings, bytes and bools."""
    left_number, right_number = number(left), number(right)
    if left_number is None or right_number is None:
        if kind(left) != kind(right) or kind(left) not in ("string", "bytes", "bool"):
            raise CelError(f"cannot compare {kind(left)} {op} {kind(right)}")
        sign: int = (left > right) - (left < right)  # type: ignore[operator]
    elif math.isnan(left_number) or math.isnan(right_number):
        return False
    else:
        sign = (left_number > right_number) - (left_number < right_number)
    return _ORDERS[op](sign, 0)


def arithmetic(op: str, left: object, right: object) -> object:
    """``+ - * / %`` of numbers of the same kind; ``+`` also of strings, bytes and lists."""
    if op == "+" and kind(left) == kind(right) and isinstance(left, str | bytes | list):
        return left + right  # type: ignore[operator]
    if kind(left) != kind(right) or number(left) is None:
        raise CelError(f"there is no {kind(left)} {op} {kind(right)}")
    left_number, right_number = number(left), number(right)
    if isinstance(left_number, float) and isinstance(right_number, float):
        return _worked_out(op, left_number, right_number, _double_quotient)
    assert isinstance(left_number, int) and isinstance(right_number, int)
    whole = _worked_out(op, left_number, right_number, _whole_quotient)
    return as_whole(whole, unsigned=isinstance(left, Uint))


def _worked_out(op: str, left: _N, right: _N, quotient: Callable[[str, _N, _N], _N]) -> _N:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return quotient(op, left, right)


def _whole_quotient(op: str, left: int, right: int) -> int:
    if right == 0:
        raise CelError("a division by zero")
    # CEL divides as Go does, towards zero; Python's // rounds down.
    whole = abs(left) // abs(right)
    whole = whole if (left < 0) == (right < 0) else -whole
    return whole if op == "/" else left - right * whole


def _double_quotient(op: str, left: float, right: float) -> float:
    if op == "%":
        raise CelError("there is no double % double")
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left * math.copysign(1.0, right))


def as_whole(value: int, *, unsigned: bool = False) -> object:
    """The value as int64 or uint64. Raises CelError if it does not fit."""
    if unsigned:
        if 0 <= value < 2**64:
            return Uint(value)
    elif -(2**63) <= value < 2**63:
        return value
    raise CelError("a whole number out of range")
