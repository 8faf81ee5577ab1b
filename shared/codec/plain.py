"""Frozen dataclasses as arrays for msgpack, and back, checked strictly by their fields' types.

For records that are read rarely. Fields may be int, float, str, bool, other such dataclasses,
tuples, and unions of these; all fields are encoded, in the order of the class.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from shared.codec.checked import Malformed, boolean, integer, number, text, wrong

Reader = Callable[[object, str], Any]

_SCALARS: dict[Any, Reader] = {int: integer, float: number, str: text, bool: boolean}


def plain(value: Any) -> Any:
    """Replace every dataclass in the value by the tuple of its fields."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if dataclasses.is_dataclass(value):
        return tuple(plain(getattr(value, f.name)) for f in dataclasses.fields(value))
    return value


@cache
def reader(kind: Any) -> Reader:
    """A reader of what :func:`plain` made of a value of this type. It raises Malformed for all
    else."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin = get_origin(kind)
    if origin is tuple:
        return _tuple(get_args(kind))
    if origin in (types.UnionType, Union):
        return _union(get_args(kind))
    return _class(kind)


def _tuple(kinds: tuple[Any, ...]) -> Reader:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        item = reader(kinds[0])

        def many(value: object, at: str) -> tuple[Any, ...]:
            if type(value) is not tuple:
                raise wrong(value, at, "array")
            return tuple([item(v, at) for v in value])

        return many
    items = [reader(kind) for kind in kinds]

    def row(value: object, at: str) -> tuple[Any, ...]:
        if type(value) is not tuple or len(value) != len(items):
            raise Malformed(f"{at}: array of {len(items)} wanted")
        return tuple([read(v, at) for read, v in zip(items, value, strict=True)])

    return row


def _union(kinds: tuple[Any, ...]) -> Reader:
    """A reader of a union: of several scalars, or of one type and None."""
    some = [kind for kind in kinds if kind is not types.NoneType]
    optional = len(some) < len(kinds)
    by_type = {kind: reader(kind) for kind in some} if len(some) > 1 else {}
    only = reader(some[0])

    def union(value: object, at: str) -> Any:
        if value is None and optional:
            return None
        if not by_type:
            return only(value, at)
        read = by_type.get(type(value))
        if read is None:
            raise wrong(value, at, " or ".join(kind.__name__ for kind in by_type))
        return read(value, at)

    return union


def _class(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]
    items = [reader(hints[name]) for name in names]

    def made(value: object, at: str) -> Any:
        if type(value) is not tuple or len(value) != len(items):
            raise Malformed(f"{at}: array of {len(items)} wanted")
        fields = zip(names, items, value, strict=True)
        return kind(*[read(v, f"{at}.{name}") for name, read, v in fields])

    return made
