"""Nodes reserved for one job that has waited long: the record that workers read."""

from __future__ import annotations

from shared.codec.packed import Codec, Count

RESERVED_KEY = "reserved/"
"""With the row after it."""

_RESERVED = Codec(b"reserved", tuple[Count])


def reserved_key(number_of_row: int) -> str:
    return f"{RESERVED_KEY}{number_of_row}"


def reserved_row(key: str) -> int:
    """The row of a reservation record's key; -1 for other keys."""
    rest = key.removeprefix(RESERVED_KEY)
    return int(rest) if rest != key and rest.isascii() and rest.isdecimal() else -1


def encode_reserved(jid: int) -> bytes:
    """``jid``: the job that the node is reserved for."""
    return _RESERVED.encode((jid,))


def decode_reserved(data: bytes) -> int:
    """Errors: Malformed."""
    return _RESERVED.decode(data)[0]
