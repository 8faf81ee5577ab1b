"""Strict decoding of stored and sent bytes: a checksum seal, and checks of every value.

A seal is the CRC-32 of the kind of record and its bytes, appended to them. Truncated, extended or
altered bytes, or those of another kind, are refused. It guards against accidents, not against
attackers: whoever may write to the ledger, or speak as a part of the scheduler, can compute seals
too (docs/security.md). Every reader raises :class:`Malformed` and nothing else, whatever bytes it
is given.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, TypeVar
from zlib import crc32

import msgspec

T = TypeVar("T")

SEAL = 4
"""Length of a seal in bytes."""

LARGEST = 2**53 - 1
"""The largest counting integer: numbers in the ledger's scripts are doubles, exact up to here."""


class Malformed(ValueError):
    """The bytes do not decode as expected; the message says what is wrong, and where."""


# --- the seal -----------------------------------------------------------------------------------


def seal(kind: bytes, body: bytes) -> bytes:
    return body + crc32(body, crc32(kind)).to_bytes(SEAL, "little")


def unseal(kind: bytes, data: bytes) -> bytes:
    """Check the seal and return the bytes without it."""
    body = data[:-SEAL]
    if crc32(body, crc32(kind)).to_bytes(SEAL, "little") != data[-SEAL:]:
        name = kind.decode(errors="replace")
        raise Malformed(f"{name}: altered or cut: its {len(data)} bytes do not fit their seal")
    return body


def unpack_sealed(kind: bytes, data: bytes) -> Any:
    """Decode sealed msgpack into plain values, for a reader that says what is wanted of them."""
    try:
        return msgspec.msgpack.decode(unseal(kind, data))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{kind.decode(errors='replace')}: not msgpack: {error}") from error


# --- what is in it ------------------------------------------------------------------------------


def wrong(value: object, at: str, expected: str) -> Malformed:
    return Malformed(f"{at}: {expected} wanted, got {type(value).__name__}")


def integer(value: object, at: str) -> int:
    if type(value) is not int:
        raise wrong(value, at, "integer")
    return value


def count(value: object, at: str) -> int:
    """Check for an integer that is not negative."""
    if type(value) is not int:
        raise wrong(value, at, "integer")
    if not 0 <= value <= LARGEST:
        raise Malformed(f"{at}: {value} is outside 0..{LARGEST}")
    return value


def number(value: object, at: str) -> float:
    """Check for a finite number, integer or not."""
    if type(value) is not float and type(value) is not int:
        raise wrong(value, at, "number")
    if not -1e300 < value < 1e300:
        raise Malformed(f"{at}: {value} is no number to work with")
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
    """Check for an array of exactly ``size`` items."""
    if type(value) not in (list, tuple) or len(value) != size:  # type: ignore[arg-type]
        raise Malformed(f"{at}: array of {size} wanted")
    return value


def each(value: object, at: str, item: Callable[[object, str], T]) -> list[T]:
    if type(value) not in (list, tuple):
        raise wrong(value, at, "array")
    return [item(v, at) for v in value]  # type: ignore[attr-defined]


def indices(value: object, at: str) -> list[int]:
    """Check for a list of integers from 0 to 2**32 - 1; costs 6 ns per item."""
    if type(value) is not list:
        raise wrong(value, at, "array")
    try:
        # The array checks its items in C: no call for each of them.
        array("I", value)
    except (TypeError, OverflowError) as error:
        raise Malformed(f"{at}: numbers from 0 to 2**32 - 1 wanted: {error}") from None
    return value
