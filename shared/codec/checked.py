"""Bytes that are taken only whole and unaltered: a seal behind them, and checks of what is in them.

A seal is the CRC-32 of the kind of thing and of its bytes: one that was cut, grown, altered, or is
of another kind is refused. It guards against accidents, not against who can write as we do: whoever
may write to the ledger or speak as a part of the scheduler can seal as well (docs/security.md).

Every reader of such bytes raises :class:`Malformed` and nothing else, whatever it is given.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, TypeVar
from zlib import crc32

import msgpack

T = TypeVar("T")

SEAL = 4
"""Bytes of a seal."""

_ONLY_TEXT = frozenset((str,))

LARGEST = 2**53 - 1
"""Of a whole number that counts something: the scripts' numbers hold no more."""


class Malformed(ValueError):
    """The bytes are not what they should be; says what, and where in it."""


# --- the seal -----------------------------------------------------------------------------------


def seal(kind: bytes, body: bytes) -> bytes:
    return body + crc32(body, crc32(kind)).to_bytes(SEAL, "little")


def unseal(kind: bytes, data: bytes) -> bytes:
    """The bytes without their seal."""
    body = data[:-SEAL]
    if crc32(body, crc32(kind)).to_bytes(SEAL, "little") != data[-SEAL:]:
        name = kind.decode(errors="replace")
        raise Malformed(f"{name}: altered or cut: its {len(data)} bytes do not fit their seal")
    return body


def pack_sealed(kind: bytes, value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return seal(kind, packed)


def unpack_sealed(kind: bytes, data: bytes, *, lists: bool = True) -> Any:
    """What :func:`pack_sealed` packed; arrays as lists, or as tuples."""
    return unpack(kind, unseal(kind, data), lists=lists)


def unpack(kind: bytes, data: bytes, *, lists: bool = True) -> Any:
    """Plain values of msgpack; no other types are ever built."""
    try:
        return msgpack.unpackb(data, raw=False, use_list=lists, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Malformed(f"{kind.decode(errors='replace')}: not msgpack: {error}") from error


# --- what is in it ------------------------------------------------------------------------------


def wrong(value: object, at: str, expected: str) -> Malformed:
    return Malformed(f"{at}: {expected} wanted, got {type(value).__name__}")


def integer(value: object, at: str) -> int:
    if type(value) is not int:
        raise wrong(value, at, "integer")
    return value


def count(value: object, at: str) -> int:
    """A whole number that is not negative."""
    if type(value) is not int:
        raise wrong(value, at, "integer")
    if not 0 <= value <= LARGEST:
        raise Malformed(f"{at}: {value} is outside 0..{LARGEST}")
    return value


def number(value: object, at: str) -> float:
    """Whole or not; neither infinite nor undefined."""
    if type(value) is not float and type(value) is not int:
        raise wrong(value, at, "number")
    if not -1e300 < value < 1e300:
        raise Malformed(f"{at}: {value} is no number to work with")
    return value


def boolean(value: object, at: str) -> bool:
    if type(value) is not bool:
        raise wrong(value, at, "boolean")
    return value


def text(value: object, at: str) -> str:
    if type(value) is not str:
        raise wrong(value, at, "text")
    return value


def binary(value: object, at: str) -> bytes:
    if type(value) is not bytes:
        raise wrong(value, at, "bytes")
    return value


def row(value: object, at: str, size: int) -> Any:
    """An array of so many items."""
    if type(value) not in (list, tuple) or len(value) != size:  # type: ignore[arg-type]
        raise Malformed(f"{at}: array of {size} wanted")
    return value


def each(value: object, at: str, item: Callable[[object, str], T]) -> list[T]:
    if type(value) not in (list, tuple):
        raise wrong(value, at, "array")
    return [item(v, at) for v in value]  # type: ignore[attr-defined]


def indices(value: object, at: str) -> list[int]:
    """A list of whole numbers below 2**32; costs 6 ns each."""
    if type(value) is not list:
        raise wrong(value, at, "array")
    try:
        array("I", value)
    except (TypeError, OverflowError) as error:
        raise Malformed(f"{at}: numbers from 0 to 2**32 - 1 wanted: {error}") from None
    return value


def texts(value: object, at: str) -> list[str]:
    """A list of texts; costs 20 ns each."""
    if type(value) is not list:
        raise wrong(value, at, "array")
    if not set(map(type, value)) <= _ONLY_TEXT:
        raise Malformed(f"{at}: an array of texts wanted")
    return value


def mapping(
    value: object, at: str, key: Callable[[object, str], Any], item: Callable[[object, str], T]
) -> dict[Any, T]:
    if type(value) is not dict:
        raise wrong(value, at, "map")
    return {key(k, at): item(v, at) for k, v in value.items()}
