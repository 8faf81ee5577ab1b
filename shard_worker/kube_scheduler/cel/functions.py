"""The CEL functions that device selectors may call.

Each takes its receiver first, then its arguments. A wrong type raises CelError.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from shard_worker.kube_scheduler.cel.regex import matches
from shard_worker.kube_scheduler.cel.tree import CelError, Uint
from shard_worker.kube_scheduler.cel.values import (
    Quantity,
    Semver,
    as_whole,
    equal,
    kind,
    number,
    ordered,
    quantity,
    semver,
)

Function = Callable[..., object]
MOST_TEXT = 1 << 16
"""Maximum length in characters of a string that a function returns."""


def _of(name: str, args: tuple[object, ...], *kinds: str) -> None:
    actual = tuple(map(kind, args))
    if actual != kinds:
        raise CelError(f"there is no {name}({', '.join(actual)})")


# --- strings ----------------------------------------------------------------------------------


def _texts(name: str, fn: Callable[..., object], *more: str) -> Function:
    """Wrap ``fn`` as a function of a string and of arguments of these kinds."""

    def call(*args: object) -> object:
        _of(name, args, "string", *more)
        return fn(*args)

    return call


def _matches(text: object, regex: object) -> bool:
    _of("matches", (text, regex), "string", "string")
    assert isinstance(text, str) and isinstance(regex, str)
    return matches(text, regex)


def _size(value: object) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise CelError(f"there is no size({kind(value)})")


def _replace(text: str, old: str, new: str) -> str:
    # Judged by the longest result there could be, before any memory is taken for it.
    if len(text) + (len(text) + 1) * len(new) > MOST_TEXT:
        raise CelError("a text grows too long")
    return text.replace(old, new)


def _part(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError("a part of a text that is out of range")
    return text[start:stop]


def _substring(*args: object) -> object:
    _of("substring", args, "string", *["int"] * (len(args) - 1 if len(args) > 2 else 1))
    return _part(*args)  # type: ignore[arg-type]


def _split(text: str, between: str) -> list[str]:
    return text.split(between) if between else list(text)


def _join(*args: object) -> object:
    items, between = args[0], args[1] if len(args) > 1 else ""
    good = isinstance(items, list) and all(isinstance(item, str) for item in items)
    if not good or not isinstance(between, str) or len(args) > 2:
        raise CelError("join() is of a list of strings")
    assert isinstance(items, list)
    return between.join(items)


def _ascii(upper: bool) -> Callable[[str], str]:
    def turn(text: str) -> str:
        return "".join((c.upper() if upper else c.lower()) if c.isascii() else c for c in text)

    return turn


# --- kinds ------------------------------------------------------------------------------------


def _int(value: object) -> object:
    match value:
        case bool():
            pass
        case int():
            return value
        case Uint():
            return as_whole(value.value)
        case float() if math.isfinite(value):
            return as_whole(int(value))
        case str() if value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 21:
            return as_whole(int(value))
        case _:
            pass
    raise CelError(f"no int of this {kind(value)}")


def _uint(value: object) -> object:
    whole = _int(value) if not isinstance(value, Uint) else value.value
    assert isinstance(whole, int)
    return as_whole(whole, unsigned=True)


def _double(value: object) -> float:
    as_number = number(value)
    if as_number is not None:
        return float(as_number)
    if isinstance(value, str) and len(value) < 64:
        try:
            return float(value)
        except ValueError:
            pass
    raise CelError(f"no double of this {kind(value)}")


def _string(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Uint():
            return str(value.value)
        case float():
            return repr(value).removesuffix(".0")
        case _:
            raise CelError(f"no string of this {kind(value)}")


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise CelError(f"no bool of this {kind(value)}")


# --- quantities and versions --------------------------------------------------------------------


def _made(name: str, make: Callable[[str], Quantity | Semver | None]) -> Function:
    def call(value: object) -> object:
        if isinstance(value, str) and (result := make(value)) is not None:
            return result
        raise CelError(f"{name}() of what is none")

    return call


def _sign(left: object, right: object) -> int:
    """-1, 0 or 1: the comparison of two quantities or of two versions."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.units > right.units) - (left.units < right.units)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return (left > right) - (left < right)
    raise CelError(f"cannot compare {kind(left)} and {kind(right)}")


def _quantity_sum(left: object, right: object, sign: int) -> Quantity:
    if isinstance(right, int) and not isinstance(right, bool):
        right = Quantity(right * 1000)
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return Quantity(left.units + sign * right.units)
    raise CelError(f"no sum of {kind(left)} and {kind(right)}")


def _units(value: object) -> int:
    if isinstance(value, Quantity):
        return value.units
    raise CelError(f"a quantity wanted, not {kind(value)}")


def _as_integer(value: object) -> object:
    units = _units(value)
    if units % 1000:
        raise CelError("the quantity is no whole number")
    return as_whole(units // 1000)


def _version_number(i: int) -> Function:
    def call(value: object) -> int:
        if isinstance(value, Semver):
            return value.numbers[i]
        raise CelError(f"a version wanted, not {kind(value)}")

    return call


# --- lists ------------------------------------------------------------------------------------


def _items(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    raise CelError(f"a list wanted, not {kind(value)}")


def _extreme(op: str) -> Function:
    def call(value: object) -> object:
        items = _items(value)
        if not items:
            raise CelError("the least or greatest of an empty list")
        best = items[0]
        for item in items[1:]:
            if ordered(op, item, best):
                best = item
        return best

    return call


def _where(value: object, item: object, *, last: bool) -> int:
    """The first or last index of a substring or element; -1 if it does not occur."""
    if isinstance(value, str) and isinstance(item, str):
        return value.rfind(item) if last else value.find(item)
    places = [i for i, element in enumerate(_items(value)) if equal(element, item)]
    return places[-1 if last else 0] if places else -1


FUNCTIONS: dict[str, Function] = {
    "size": _size,
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bool": _bool,
    "dyn": lambda value: value,
    "matches": _matches,
    "quantity": _made("quantity", quantity),
    "isQuantity": lambda value: isinstance(value, str) and quantity(value) is not None,
    "semver": _made("semver", semver),
    "isSemver": lambda value: isinstance(value, str) and semver(value) is not None,
    ".size": _size,
    ".matches": _matches,
    ".contains": _texts("contains", lambda text, part: part in text, "string"),
    ".startsWith": _texts("startsWith", str.startswith, "string"),
    ".endsWith": _texts("endsWith", str.endswith, "string"),
    ".lowerAscii": _texts("lowerAscii", _ascii(upper=False)),
    ".upperAscii": _texts("upperAscii", _ascii(upper=True)),
    ".trim": _texts("trim", str.strip),
    ".charAt": _texts("charAt", lambda text, at: _part(text, at, min(at + 1, len(text))), "int"),
    ".replace": _texts("replace", _replace, "string", "string"),
    ".split": _texts("split", _split, "string"),
    ".substring": _substring,
    ".join": _join,
    ".indexOf": lambda value, item: _where(value, item, last=False),
    ".lastIndexOf": lambda value, item: _where(value, item, last=True),
    ".min": _extreme("<"),
    ".max": _extreme(">"),
    ".compareTo": _sign,
    ".isGreaterThan": lambda left, right: _sign(left, right) > 0,
    ".isLessThan": lambda left, right: _sign(left, right) < 0,
    ".add": lambda left, right: _quantity_sum(left, right, 1),
    ".sub": lambda left, right: _quantity_sum(left, right, -1),
    ".sign": lambda value: (_units(value) > 0) - (_units(value) < 0),
    ".isInteger": lambda value: _units(value) % 1000 == 0,
    ".asInteger": _as_integer,
    ".asApproximateFloat": lambda value: _units(value) / 1000,
    ".major": _version_number(0),
    ".minor": _version_number(1),
    ".patch": _version_number(2),
}
"""Names of functions called on a receiver begin with a dot."""
