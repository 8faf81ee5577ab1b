"""Classes that are msgpack arrays of their fields, and codecs that seal and check them.

msgspec compiles a reader from the types of the fields: other types, missing fields and surplus
fields are refused, with the position of the value in the message (docs/decisions/0051).
"""

from __future__ import annotations

import dataclasses
from inspect import isclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, structs
from msgspec.msgpack import Decoder, Encoder

from shared.codec.checked import LARGEST, Malformed, seal, unseal

if TYPE_CHECKING:  # the same to mypy, which checks names and types of the fields by this one alone
    from dataclasses import replace
else:

    def replace(value: Any, /, **changes: Any) -> Any:
        """Copy a frozen value with other fields, as ``copy.replace`` of Python 3.13 does."""
        copy = structs.replace if isinstance(value, Struct) else dataclasses.replace
        return copy(value, **changes)


__all__ = ["Codec", "Count", "Finite", "Index", "Packed", "Total", "read", "replace"]

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
"""A number that is not negative, and exact in the ledger's scripts."""
Total = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""An amount over many nodes, which no script has as one number."""
Index = Annotated[int, Meta(ge=0, le=2**32 - 1)]
"""The number of a task, a row or a level."""
Finite = Annotated[float, Meta(gt=-1e300, lt=1e300)]
"""A number to work with; an integer is read as one too."""

_encode = Encoder().encode


def read(value: object, of: type[T], at: str) -> T:
    """Check a value of plain lists and maps. Errors: Malformed."""
    try:
        return convert(value, of)
    except ValidationError as error:
        raise Malformed(f"{at}: {error}") from error


class Packed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of the classes that are sent or stored: an array of the fields, in their order."""


class Codec(Generic[T]):
    """Encode and decode values of one type, sealed as one kind of record.

    ``key``: the seal covers it too, so that a record stored under another key is refused.
    """

    def __init__(self, kind: bytes, of: type[T]) -> None:
        self.of = of
        self._kind = kind
        self._name = kind.decode()
        self._head = _head(of)
        self._decode = Decoder(of).decode

    def encode(self, value: T, *, key: str = "") -> bytes:
        return seal(self._kind + key.encode(), _encode(value))

    def decode(self, data: bytes, *, key: str = "") -> T:
        """Errors: Malformed."""
        body = unseal(self._kind + key.encode(), data)
        if not body.startswith(self._head):  # msgspec itself takes defaults for fields at the end
            raise Malformed(f"{self._name}{key}: not an array of all its fields")
        try:
            return self._decode(body)
        except (ValueError, RecursionError) as error:  # ValueError: also of text that is not UTF-8
            raise Malformed(f"{self._name}{key}: {error}") from error


def _head(of: object) -> bytes:
    """The first bytes of an array of all fields of this class; b"" for an array of any length."""
    if not (isclass(of) and issubclass(of, Packed)):
        return b""
    fields = len(of.__struct_fields__) + (of.__struct_config__.tag is not None)
    return bytes((0x90 | fields,)) if fields < 16 else b"\xdc" + fields.to_bytes(2, "big")
