"""A digest of message types: equal where two programs write and read the same bytes.

It is made of the types' own description: names and types of the fields in their order, bounds,
members of enums, tags. It does not depend on the process, the hash seed, or the module in which a
class stands. Defaults do not count, because every field is sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.inspect import DataclassType, Field, StructType, type_info


def description(of: object) -> Any:
    """The type as lists of plain values."""
    return _plain(type_info(of), ())


def digest(parts: Iterable[object]) -> str:
    """Hexadecimal digest of plain values, in this order."""
    text = json.dumps([*parts], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object, above: tuple[type, ...]) -> Any:
    """``above``: the classes that are being described, so that a class that has itself as a field
    comes to an end."""
    match value:
        case Field():
            return [value.name, value.encode_name, _plain(value.type, above)]
        case StructType() | DataclassType():
            if value.cls in above:
                return ["again", value.cls.__name__]
            inside = (*above, value.cls)
            form = [str(getattr(value, name, "")) for name in ("tag", "array_like")]
            fields = [_plain(field, inside) for field in value.fields]
            return [value.cls.__name__, *form, fields]
        case Struct():  # any other description of msgspec's
            names = value.__struct_fields__
            return [type(value).__name__, *(_plain(getattr(value, n), above) for n in names)]
        case tuple() | list():
            return [_plain(item, above) for item in value]
        case type() if issubclass(value, Enum):
            return [value.__name__, [[member.name, str(member.value)] for member in value]]
        case type():
            return value.__name__
        case None | bool() | int() | float() | str():
            return value
        case _:  # a text of it might be another in the next process
            raise TypeError(f"{value!r} has no description yet")
