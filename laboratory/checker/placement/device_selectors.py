"""Which devices the expressions of a claim select, as far as they are of a simple form.

Expressions are CEL. Read here are comparisons of a device's driver, attributes and capacities with
literals, joined by ``&&``, ``||`` and ``!``: what people write. Whatever else an expression says is
not judged, and its devices count as selected.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

Facts = dict[str, Any]

_TOKEN = re.compile(r"""\s*("(?:[^"\\])*"|'(?:[^'\\])*'|&&|\|\||!=|!|[A-Za-z_]\w*|[^\s])""")
_WORDS = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False"}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OF_AMOUNTS: dict[str, Callable[[Any, Any], int]] = {
    "compareTo": lambda a, b: (a > b) - (a < b),
    "isGreaterThan": operator.gt,
    "isLessThan": operator.lt,
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([kMGTPE]i?|m)?")
_STEPS = "kMGTPE"


class _NotJudged(Exception):
    """The expression, or a value that it compares, is of another form."""


def selects(expressions: tuple[str, ...], driver: str, device: Facts) -> bool:
    """Whether a device may be what these expressions ask for, all of them."""
    return all(_holds(expression, driver, device) for expression in expressions)


def _holds(expression: str, driver: str, device: Facts) -> bool:
    tree = _parsed(expression)
    if tree is None:
        return True
    try:
        return _Device(driver, device).value(tree) is True
    except _NotJudged:
        return True


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr | None:
    """The expression in Python's words; None if it has a form that is not judged."""
    words = [_WORDS.get(word, word) for word in _TOKEN.findall(expression)]
    try:
        return ast.parse("".join(words).strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


class _Device:
    """Evaluates over one device. None stands for an error in CEL, such as an attribute that is not
    there: neither true nor false, and with ``&&`` and ``||`` the other side may still decide."""

    def __init__(self, driver: str, device: Facts) -> None:
        self._driver = driver
        self._device = device

    def value(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value=bool() | int() | str() as value):
                return value
            case ast.List(elts=items):
                return [self.value(item) for item in items]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.value(operand)
                return None if value is None else not value
            case ast.BoolOp(op=joined, values=parts):
                return _joined([self.value(part) for part in parts], isinstance(joined, ast.Or))
            case ast.Compare(left=left, ops=[compared], comparators=[right]):
                return self._compared(left, compared, right)
            case ast.Call(func=ast.Name(id="quantity"), args=[ast.Constant(value=str() as text)]):
                return _amount(text)
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=[other]):
                return self._of_amounts(name, self.value(of), self.value(other))
            case ast.Attribute(value=ast.Name(id="device"), attr="driver"):
                return self._driver
            case ast.Attribute(
                value=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id="device"), attr=kind),
                    slice=ast.Constant(value=str() as domain),
                ),
                attr=name,
            ):
                return self._looked_up(kind, domain, name)
            case _:
                raise _NotJudged

    def _compared(self, left: ast.expr, compared: ast.cmpop, right: ast.expr) -> bool | None:
        a, b = self.value(left), self.value(right)
        if a is None or b is None:
            return None
        if isinstance(compared, ast.In) and isinstance(b, list):
            return a in b
        if type(compared) not in _COMPARE or type(a) is not type(b):
            raise _NotJudged
        return _COMPARE[type(compared)](a, b)

    def _of_amounts(self, name: str, a: Any, b: Any) -> Any:
        if name not in _OF_AMOUNTS:
            raise _NotJudged
        if a is None or b is None:
            return None
        if not isinstance(a, Fraction) or not isinstance(b, Fraction):
            raise _NotJudged
        return _OF_AMOUNTS[name](a, b)

    def _looked_up(self, kind: str, domain: str, name: str) -> Any:
        names = [f"{domain}/{name}", *([name] if domain == self._driver else [])]
        if kind == "attributes":
            for attribute in self._device.get("attributes", ()):
                if attribute["name"] in names:
                    if attribute["kind"] == "version":
                        raise _NotJudged
                    return attribute["value"]
            return None
        if kind == "capacity":
            has = dict(self._device.get("capacity", ()))
            return next((Fraction(has[each], 1000) for each in names if each in has), None)
        raise _NotJudged


def _joined(values: list[Any], is_or: bool) -> bool | None:
    """The value of ``||`` or ``&&``: one side decides, whatever became of the others."""
    if is_or in values:
        return is_or
    return None if None in values else not is_or


def _amount(text: str) -> Fraction:
    """A quantity in plain units."""
    read = _AMOUNT.fullmatch(text)
    if read is None:
        raise _NotJudged
    number, unit = Fraction(read[1]), read[2] or ""
    if unit == "m":
        return number / 1000
    base = 1024 if unit.endswith("i") else 1000
    step = _STEPS.index(unit[0]) + 1 if unit else 0
    return number * Fraction(base**step)
