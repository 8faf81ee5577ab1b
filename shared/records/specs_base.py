"""The common part of all specifications: their format number, and how fields are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shared.codec.checked import Malformed, count, unpack_sealed, wrong
from shared.model.model import Requests

T = TypeVar("T")

FORMAT = 3
"""Moves when a field is added, removed or changes its meaning."""

BEFORE = 2
"""The format before, which is read too: a cluster is upgraded while it runs. What it had no field
for is as if nothing of it were said."""


def opened(data: bytes, kind: str, size: int, *, before: int | None = None) -> tuple[Any, ...]:
    """The fields after the format number; arrays inside become tuples.

    ``before``: how many fields the previous format had, if that differs; newer fields are None.
    """
    version, fields = unsealed(data, kind)
    expected = size if version == FORMAT or before is None else before
    if len(fields) != expected:
        raise Malformed(f"{kind}: {len(fields)} fields instead of {expected}")
    return fields + (None,) * (size - expected)


def unsealed(data: bytes, kind: str) -> tuple[int, tuple[Any, ...]]:
    """The format number, and the fields after it."""
    value = unpack_sealed(kind.encode(), data, lists=False)
    if type(value) is not tuple or not value or value[0] not in (FORMAT, BEFORE):
        raise Malformed(f"{kind}: not of format {FORMAT} or {BEFORE}")
    return value[0], value[1:]


def row(value: object, at: str, size: int) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) != size:
        raise Malformed(f"{at}: array of {size} wanted")
    return value


def each(value: object, at: str, item: Callable[[object, str], T]) -> tuple[T, ...]:
    if type(value) is not tuple:
        raise wrong(value, at, "array")
    return tuple([item(v, at) for v in value])


def requests(value: object, at: str) -> Requests:
    return each(value, at, _amount)


def _amount(value: object, at: str) -> tuple[int, int]:
    slot, amount = row(value, at, 2)
    return count(slot, at), count(amount, at)
